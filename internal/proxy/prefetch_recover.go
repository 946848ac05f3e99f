package proxy

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// What is run early is optional, so a fault in it never ends the proxy: a panic is
// counted, logged once for each place in the code, and costs the session it happened
// over its predictions.

// runTask does one thing that the worker was told of. If that panics, the session it
// was done for is not looked at any more: what is known of it may be half of what it
// should be.
func (w *prefetcher) runTask(what func(*prefetcher)) {
	defer func() { w.of = nil }()
	if w.recovering(func() { what(w) }) || w.of == nil {
		return
	}
	w.of.predictionOff.Store(true)
	if v := w.sessions[w.of]; v != nil {
		w.recovering(func() { w.unwatch(v) })
	}
}

// recovering does something that is optional, on any goroutine, and reports whether it
// came to its end.
func (w *prefetcher) recovering(what func()) (ok bool) {
	defer func() {
		if !ok {
			w.recordPanic(recover())
		}
	}()
	what()
	return true
}

// recordPanic notes a panic, on the goroutine and the stack that it happened on.
func (w *prefetcher) recordPanic(why any) {
	site := panicSite()
	w.mu.Lock()
	w.panics++
	known := w.sites[site]
	if w.sites == nil {
		w.sites = make(map[string]bool)
	}
	w.sites[site] = true
	w.mu.Unlock()
	if !known {
		w.srv.log.Error("prediction panicked; calls go on, without predictions for the session it was about", "at", site, "panic", fmt.Sprint(why), "stack", string(debug.Stack()))
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
