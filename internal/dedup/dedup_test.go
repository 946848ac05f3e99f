package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
)

// Places of the tests: a remote host, the local domain, and a slot of an edge.
var (
	host  = call.Place{Domain: "api.example.com"}
	local = call.Place{Domain: "local"}
	edge  = call.Place{Slot: 7}
)

const (
	writeSettle = time.Minute
	settle      = 2 * time.Second
)

func newStore(t testing.TB) *dedup.Store {
	s := dedup.New(dedup.Options{MaxBytes: 1 << 20, WriteSettle: writeSettle, Settle: settle})
	t.Cleanup(func() {
		if err := s.Check(); err != nil {
			t.Error(err)
		}
		s.Close()
	})
	return s
}

func query(u dedup.Reuse, places ...call.Place) dedup.Query {
	return dedup.Query{
		Key:    call.Key{Upstream: 1, Scope: "session 1", Tool: "read", Arguments: `{"path":"a"}`},
		Places: places, Reuse: u,
	}
}

// source is a server that gives a different answer each time, unless a test sets it.
type source struct {
	store *dedup.Store
	n     int
	same  string // the answer; "" for a different one each time
}

func (src *source) next() []byte {
	src.n++
	if src.same != "" {
		return []byte(src.same)
	}
	return fmt.Appendf(nil, "answer %d", src.n)
}

// ask makes a call that is answered at once, and returns its outcome; Body is always set.
func (src *source) ask(t testing.TB, q dedup.Query) dedup.Outcome {
	t.Helper()
	var got []dedup.Outcome
	var own []byte
	w := &dedup.Waiter{Done: func(o dedup.Outcome) { got = append(got, o) }}
	src.store.Do(t.Context(), q, w, func(_ context.Context, f *dedup.Flight) {
		own = src.next()
		f.Finish(own, false, true)
	})
	if len(got) != 1 {
		t.Fatalf("got %d answers, want one", len(got))
	}
	if got[0].How == dedup.Fetched {
		got[0].Body = own
	}
	return got[0]
}

// prefetch prefetches an answer, and returns the reason if it was refused.
func (src *source) prefetch(t testing.TB, q dedup.Query) dedup.Refusal {
	t.Helper()
	g, why := src.store.Prefetch(t.Context(), q, func(_ context.Context, f *dedup.Flight) {
		f.Finish(src.next(), false, true)
	})
	if (g != nil) != (why == "") {
		t.Fatalf("a prefetch: %v, because %q", g != nil, why)
	}
	return why
}

// waiting is a call in progress.
type waiting struct {
	outcomes chan dedup.Outcome // has space for one more than there may be, to detect it
	heard    chan string
	leave    context.CancelCauseFunc
	flight   *dedup.Flight   // nil if the call joined one
	ctx      context.Context // context of the fetch
}

var errLeft = errors.New("left")

// wait makes a call, and leaves its flight unfinished if it began one.
func wait(t testing.TB, s *dedup.Store, q dedup.Query) *waiting {
	x := &waiting{outcomes: make(chan dedup.Outcome, 2), heard: make(chan string, 8)}
	ctx, cancel := context.WithCancelCause(t.Context())
	x.leave = cancel
	w := &dedup.Waiter{
		Done:   func(o dedup.Outcome) { x.outcomes <- o },
		Notify: func(method string, _ []byte) { x.heard <- method },
	}
	s.Do(ctx, q, w, func(ctx context.Context, f *dedup.Flight) { x.flight, x.ctx = f, ctx })
	return x
}

// outcome waits for the call's outcome.
func (x *waiting) outcome(t testing.TB) dedup.Outcome {
	t.Helper()
	if len(x.outcomes) != 1 {
		t.Fatalf("got %d answers, want one", len(x.outcomes))
	}
	return <-x.outcomes
}
