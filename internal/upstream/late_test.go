package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// wire is a link whose other end is the test.
type wire struct {
	in   sink
	sent int
}

func (w *wire) send(context.Context, outgoing) error { w.sent++; return nil }
func (w *wire) close()                               { w.in.closed(nil) }

// answer answers request id.
func (w *wire) answer(t *testing.T, line string, id int64) {
	t.Helper()
	m, err := jsonrpc.Parse(fmt.Appendf(nil, line, id))
	if err != nil {
		t.Fatal(err)
	}
	w.in.message(m, 0)
}

const (
	goodAnswer = `{"jsonrpc":"2.0","id":%d,"result":{}}`
	badAnswer  = `{"jsonrpc":"2.0","id":%d,"error":{"code":1,"message":"no"}}`
)

func wired() (*conn, *wire) {
	c := newConn("wired", slog.New(slog.DiscardHandler), nil, nil, func(string) {})
	return c, wireTo(c)
}

func wireTo(c *conn) *wire {
	w := &wire{in: c.sink()}
	c.open(w)
	return w
}

// given makes a request and gives it up, in one of two ways.
var given = map[string]func(t *testing.T, c *conn, late func()){
	"a call's context ends": func(t *testing.T, c *conn, late func()) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if a := c.call(ctx, &Request{Method: "tools/call", Late: late}, func() {}); !errors.Is(a.err, context.Canceled) || a.unsent {
			t.Errorf("got %v, unsent %v", a.err, a.unsent)
		}
	},
	"a call's time is up": func(t *testing.T, c *conn, late func()) {
		if a := c.call(t.Context(), &Request{Method: "tools/call", Late: late, Timeout: time.Second}, func() {}); !errors.Is(a.err, ErrTimeout) || a.unsent {
			t.Errorf("got %v, unsent %v", a.err, a.unsent)
		}
	},
}

func TestLate(t *testing.T) {
	outcomes := []struct {
		name   string
		happen func(t *testing.T, c *conn, w *wire)
		want   int
	}{
		{"a result", func(t *testing.T, _ *conn, w *wire) { w.answer(t, goodAnswer, 1) }, 1},
		{"an error", func(t *testing.T, _ *conn, w *wire) { w.answer(t, badAnswer, 1) }, 1},
		{"what cannot be read", func(_ *testing.T, _ *conn, w *wire) { w.in.lost(1, errors.New("not JSON")) }, 1},
		{"two answers", func(t *testing.T, _ *conn, w *wire) { w.answer(t, goodAnswer, 1); w.answer(t, goodAnswer, 1) }, 1},
		{"another's answer", func(t *testing.T, _ *conn, w *wire) { w.answer(t, goodAnswer, 2) }, 0},
		{"nothing", func(*testing.T, *conn, *wire) {}, 0},
		{"the end", func(t *testing.T, c *conn, w *wire) { c.close(); c.overdue(1) }, 0},
		{"a POST that was dropped", func(_ *testing.T, c *conn, w *wire) { c.http = true; w.in.lost(1, context.Canceled) }, 0},
	}
	for _, o := range outcomes {
		for how, give := range given {
			t.Run(o.name+" after "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, w := wired()
					late := 0
					give(t, c, func() { late++ })
					if late != 0 {
						t.Error("called before the answer")
					}
					o.happen(t, c, w)
					if late != o.want {
						t.Errorf("called %d times, want %d", late, o.want)
					}
				})
			})
		}
	}
}

// What came before the caller gave up is the answer, and late to nobody.
func TestAnswerInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := wired()
		for id := range int64(100) { // select picks at random
			ctx, cancel := context.WithCancel(t.Context())
			outcome := make(chan answer, 1)
			err := c.start(ctx, nil, &Request{Method: "tools/call", Late: func() { t.Error("late") }}, func() {}, func(a answer) { outcome <- a })
			if err != nil {
				t.Fatal(err)
			}
			w.answer(t, goodAnswer, id+1)
			cancel()
			if a := <-outcome; a.err != nil || a.msg.Result == nil {
				t.Fatalf("got %+v, want the answer that had come", a)
			}
		}
		if w.sent != 100 {
			t.Errorf("sent %d messages, want the 100 requests and nothing about them", w.sent)
		}
	})
}

// A server that never answers what was given up costs a bounded memory.
func TestLateIsBounded(t *testing.T) {
	c, w := wired()
	heard := make(map[int]bool)
	for i := range lateKept + 1 {
		ctx, cancel := context.WithCancel(t.Context())
		given := make(chan answer, 1)
		err := c.start(ctx, nil, &Request{Method: "tools/call", Late: func() { heard[i] = true }}, func() {}, func(a answer) { given <- a })
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		<-given
	}
	for i := range int64(lateKept + 1) {
		w.answer(t, goodAnswer, i+1)
	}
	if len(heard) != lateKept || heard[0] {
		t.Errorf("heard of %d, of the oldest %v; want %d without the oldest", len(heard), heard[0], lateKept)
	}
}

// Over HTTP a stateless request is cancelled by dropping its response.
func TestNothingIsLateOverStatelessHTTP(t *testing.T) {
	c, w := wired()
	c.http = true
	c.speak("2026-07-28")
	p := &pending{id: 1, req: &Request{Late: func() { t.Error("late") }}}
	c.next.Store(1)
	c.waiting[1] = p
	if !c.abandon(p) || c.late != nil {
		t.Error("remembered for an answer that cannot come")
	}
	w.answer(t, goodAnswer, 1)
}
