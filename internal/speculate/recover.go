package speculate

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
)

// faults records panics of the worker. Prefetching is optional, so a panic in it never ends the proxy:
// it is counted and logged, and disables prediction for the session it concerned.
type faults struct {
	log *slog.Logger

	mu     sync.Mutex
	panics int64
	logged map[string]bool // by message
}

// maxLogged is the number of different panics that are logged.
const maxLogged = 64

// protect calls an optional function, on any goroutine, and reports whether it returned without a
// panic.
func (f *faults) protect(what func()) (ok bool) {
	defer func() {
		if !ok {
			f.record(fmt.Sprint(recover()))
		}
	}()
	what()
	return true
}

// record records a panic, on the goroutine and stack where it happened.
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
	f.log.Error("prediction panicked; calls continue, without prediction for the session", "panic", why, "stack", string(debug.Stack()))
}

// count returns the number of panics.
func (f *faults) count() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.panics
}

// run runs one task of the queue. If the task panics, the session that it concerned is disabled, as
// its state may be inconsistent.
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
