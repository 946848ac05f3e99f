package tracing

import (
	"sync"

	"go.opentelemetry.io/otel/trace"

	"mcpschedd/internal/events"
)

// How much is remembered, to tell which spans belong together.
const (
	keepCalls   = 4096 // that ended last
	keepWaiting = 256  // prefetches, for the end of the call that used them
)

// one names a call.
type one struct {
	session string
	seq     int64
}

// told is a prefetch, with the spans that it belongs to.
type told struct {
	events.Event
	after trace.SpanContext // of the call that made it likely; zero: not known
	used  trace.SpanContext // of the call that it was used by; zero: there is none, or it is not known
}

// recent is which spans the last calls had, and which prefetches wait for the end of
// one.
type recent struct {
	mu      sync.Mutex
	spans   map[one]trace.SpanContext
	order   []one // a ring: the one that goes next is at next
	next    int
	waiting []events.Event // the oldest first
}

// prefetch takes one in, and returns what can be told of now: that one, or the one that
// has waited for longest.
func (r *recent) prefetch(e *events.Event) []told {
	r.mu.Lock()
	defer r.mu.Unlock()
	by, waits := user(e)
	if _, known := r.spans[by]; !waits || known {
		return []told{r.toldLocked(e)}
	}
	r.waiting = append(r.waiting, *e)
	if len(r.waiting) <= keepWaiting {
		return nil
	}
	oldest := r.toldLocked(&r.waiting[0])
	r.waiting = append(r.waiting[:0], r.waiting[1:]...)
	return []told{oldest}
}

// call notes the span of one that has ended, and returns the prefetches that have
// waited for it.
func (r *recent) call(c one, span trace.SpanContext) (ready []told) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteLocked(c, span)
	rest := r.waiting[:0]
	for i := range r.waiting {
		e := &r.waiting[i]
		if by, _ := user(e); by == c {
			ready = append(ready, r.toldLocked(e))
		} else {
			rest = append(rest, *e)
		}
	}
	r.waiting = rest
	return ready
}

func (r *recent) noteLocked(c one, span trace.SpanContext) {
	if r.spans == nil {
		r.spans = make(map[one]trace.SpanContext)
	}
	if len(r.order) < keepCalls {
		r.order = append(r.order, c)
	} else {
		delete(r.spans, r.order[r.next])
		r.order[r.next] = c
		r.next = (r.next + 1) % keepCalls
	}
	r.spans[c] = span
}

// rest returns all that still wait.
func (r *recent) rest() (all []told) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.waiting {
		all = append(all, r.toldLocked(&r.waiting[i]))
	}
	r.waiting = nil
	return all
}

func (r *recent) toldLocked(e *events.Event) told {
	by, _ := user(e)
	return told{Event: *e, after: r.spans[one{e.Session, e.After}], used: r.spans[by]}
}

// user returns the call that a prefetch was used by.
func user(e *events.Event) (by one, used bool) {
	switch {
	case e.UsedBy == 0:
		return one{}, false
	case e.BySession != "":
		return one{e.BySession, e.UsedBy}, true
	}
	return one{e.Session, e.UsedBy}, true
}
