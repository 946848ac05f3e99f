package speculate

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
)

// faults are the panics of prediction. What is run early is optional, so a fault in it
// never ends the proxy: a panic is counted, logged, and costs the session it happened over
// its predictions.
type faults struct {
	log *slog.Logger

	mu     sync.Mutex
	panics int64
	logged map[string]bool // what they said
}

// mostLogged bounds how many panics that differ are logged.
const maxLogged = 64

// recovering does something that is optional, on any goroutine, and reports whether it
// came to its end.
func (f *faults) protect(what func()) (ok bool) {
	defer func() {
		if !ok {
			f.record(fmt.Sprint(recover()))
		}
	}()
	what()
	return true
}

// record notes a panic, on the goroutine and the stack that it happened on.
func (f *faults) record(why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.panics++
	if f.logged[why] || len(f.logged) >= maxLogged {
		return
	}
	if f.logged == nil {
		f.logged = make(map[string]bool)
	}
	f.logged[why] = true
	f.log.Error("prediction panicked; calls go on, without predictions for the session it was about", "panic", why, "stack", string(debug.Stack()))
}

// count is how many panics there were.
func (f *faults) count() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.panics
}

// run does one task of the queue. If that panics, the session it was done for is
// not observed any more: what is known of it may be half of what it should be.
func (w *Worker) run(do func()) {
	defer func() { w.current = nil }()
	if w.faults.protect(do) || w.current == nil {
		return
	}
	w.current.disabled.Store(true)
	if s := w.sessions[w.current]; s != nil {
		w.faults.protect(func() { w.unwatch(s) })
	}
}
