package proxy

import (
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
)

// faults are the panics of prediction. What is run early is optional, so a fault in it
// never ends the proxy: a panic is counted, logged once for each place in the code, and
// costs the session it happened over its predictions.
type faults struct {
	log *slog.Logger

	mu     sync.Mutex
	panics int64
	sites  map[string]bool // where in the code they were
}

// recovering does something that is optional, on any goroutine, and reports whether it
// came to its end.
func (f *faults) recovering(what func()) (ok bool) {
	defer func() {
		if !ok {
			f.record(recover())
		}
	}()
	what()
	return true
}

// record notes a panic, on the goroutine and the stack that it happened on.
func (f *faults) record(why any) {
	site := panicSite()
	f.mu.Lock()
	f.panics++
	known := f.sites[site]
	if f.sites == nil {
		f.sites = make(map[string]bool)
	}
	f.sites[site] = true
	f.mu.Unlock()
	if !known {
		f.log.Error("prediction panicked; calls go on, without predictions for the session it was about", "at", site, "panic", fmt.Sprint(why), "stack", string(debug.Stack()))
	}
}

// count is how many panics there were.
func (f *faults) count() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.panics
}

// runTask does one task of the queue. If that panics, the session it was done for is
// not observed any more: what is known of it may be half of what it should be.
func (w *prefetchWorker) runTask(do func()) {
	defer func() { w.of = nil }()
	w.p.traffic.read()
	if w.p.faults.recovering(do) || w.of == nil {
		return
	}
	w.of.predictionOff.Store(true)
	if v := w.sessions[w.of]; v != nil {
		w.p.faults.recovering(func() { w.unwatch(v) })
	}
}

// panicSite is the line that panicked: the first below the runtime's own frames.
func panicSite() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs[:])])
	panicking := false
	for {
		f, more := frames.Next()
		switch own := strings.HasPrefix(f.Function, "runtime."); {
		case f.Function == "runtime.gopanic":
			panicking = true
		case panicking && !own:
			return fmt.Sprintf("%s:%d", f.Function, f.Line)
		}
		if !more {
			return "unknown"
		}
	}
}
