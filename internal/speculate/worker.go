package speculate

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/record"
)

// Worker observes the calls of sessions and decides which calls to prefetch. Calls never wait
// for it: methods enqueue events, and one goroutine handles them in order of arrival. It has
// more than 25 methods, as each event has one that enqueues it and one that handles it.
type Worker struct {
	Setup
	Scheduler *Scheduler

	ids       atomic.Uint64 // IDs of observed calls and of prefetches
	queue     *queue
	published published

	// Used only by the worker's goroutine.
	current  *Session // session of the event that is being handled; nil if it belongs to none
	sessions map[*Session]*sessionState
	learned  map[string]*learned // by Lease.Key
}

// Setup is the configuration of a worker.
type Setup struct {
	Log     *slog.Logger
	Rules   func() *Rules         // returns the current rules
	Decided func(record.Event)    // called with each decision once it is known what was called
	Removed func(key string) bool // reports whether an upstream is no longer configured

	// ReadWait returns how long calls to a host have waited for prefetches, and the part that it has not returned before.
	ReadWait func(host string) (total, unread time.Duration)
}

// NewWorker returns a worker. Its goroutine starts with the first event.
func NewWorker(s Setup) *Worker {
	w := &Worker{
		Setup: s, Scheduler: NewScheduler(s.Rules().Slots()), sessions: make(map[*Session]*sessionState), learned: make(map[string]*learned),
	}
	w.published.byTool = make(map[toolKey]ToolState)
	w.queue = newQueue(w.run, func(wait bool) { w.Protect(func() { w.saveChanged(wait) }) })
	return w
}

// Called reports a call of a client, and returns whether it is observed: not if prediction is off or the
// client calls too fast. If it is not, a write withdraws predictions all the same (see Unobserved).
func (w *Worker) Called(c *Call) (observed bool) {
	if w.Rules().Off() || c.Session.disabled.Load() {
		return false
	}
	c.ID = w.ids.Add(1)
	if w.queue.addCall(task{bytes: len(c.Arguments), do: func() { w.called(c) }}) {
		return true
	}
	c.ID = 0
	w.Unobserved(c.Session, c.Effect)
	return false
}

// Unobserved reports a call that is not observed. If it writes, the predictions for the session are withdrawn.
func (w *Worker) Unobserved(c *Session, e call.Effect) {
	if w.Rules().Off() || c.disabled.Load() || !e.Changes() || c.unobservedWrite.Swap(true) {
		return
	}
	w.queue.add(task{required: true, do: func() {
		c.unobservedWrite.Store(false)
		if s := w.sessions[c]; s != nil {
			w.current = c
			s.invalidate(nil)
		}
	}})
}

// Prompted reports the prompt of a session's user, which replaces the session's earlier intent.
func (w *Worker) Prompted(c *Session, words string) {
	if w.Rules().Off() {
		return
	}
	w.queue.add(task{bytes: len(words), do: func() {
		if s := w.session(c); s != nil {
			s.prompt, s.intent = words[:min(len(words), promptBytes)], nil
		}
	}})
}

// Answered reports the end of a call, and returns whether it will be handled. If reply is not nil,
// the worker sends on it what it started because of the answer, and closes it. The result of a
// comparison is always handled, as it may show that a tool must not be prefetched.
func (w *Worker) Answered(c *Call, r Result, reply chan<- Reply) bool {
	size, body := len(r.Body), r.Body
	r.Body = nil
	if c.ID != 0 && r.Complete {
		r.Body = w.keep(body)
	}
	return w.queue.add(task{
		bytes: len(r.Body), urgent: reply != nil,
		required: r.Comparison != dedup.NotCompared || r.JoinWait > 0,
		do: func() {
			if reply != nil {
				defer close(reply)
			}
			w.answered(c, r, size, reply)
		},
	})
}

// Shown reports that the client was given the answer of a prefetch as part of another answer.
func (w *Worker) Shown(f *Fetch) {
	f.Call.Claim.shown()
	w.queue.add(task{required: true, do: func() {
		s := w.sessions[f.Call.Session]
		if s == nil {
			return
		}
		w.current = f.Call.Session
		if p := s.pairs[f.Call.Lease.Key]; p != nil {
			p.predictor.Shown(f.Key.Tool, f.Key.Arguments)
		}
	}})
}

// keep returns a copy of a body, or nil if it is too long or there is no room for it.
func (w *Worker) keep(body []byte) []byte {
	if len(body) > predict.MaxRead || !w.queue.reserve(len(body)) {
		return nil
	}
	return slices.Clone(body)
}

// SessionEnded reports the end of a session and of its prefetches. It calls then after the last
// event of the session.
func (w *Worker) SessionEnded(c *Session, then func()) {
	queued := w.queue.add(task{required: true, do: func() {
		defer then() // even if the worker panics
		w.current = c
		c.disabled.Store(true)
		if s := w.sessions[c]; s != nil {
			s.end(time.Now())
		}
	}})
	if !queued {
		then()
	}
}

// UpstreamsChanged drops the state of upstreams that are no longer configured.
func (w *Worker) UpstreamsChanged() { w.queue.add(task{required: true, do: w.forgetRemoved}) }

// Save saves learned state, and returns when that is done.
func (w *Worker) Save() { w.queue.flush() }

// Close handles the remaining events, saves learned state and stops the worker.
func (w *Worker) Close() {
	if !w.queue.close() {
		w.Log.Warn("recently learned state is not saved: writing it takes too long")
	}
}

// run runs one task of the queue. If the task panics, the session that it concerned is disabled, as
// its state may be inconsistent.
func (w *Worker) run(do func()) {
	defer func() { w.current = nil }()
	if w.Protect(do) || w.current == nil {
		return
	}
	w.current.disabled.Store(true)
	if s := w.sessions[w.current]; s != nil {
		delete(w.sessions, w.current)
		w.Protect(s.claims.End)
	}
}

// Protect calls an optional function, on any goroutine, and reports whether it returned without a
// panic. Prefetching is optional, so a panic in it never ends the proxy: it is logged.
func (w *Worker) Protect(what func()) (ok bool) {
	defer func() {
		if ok {
			return
		}
		why := recover()
		w.Log.Error("prediction panicked; calls continue, without prediction for the session",
			"panic", fmt.Sprint(why), "stack", string(debug.Stack()))
	}()
	what()
	return true
}
