package proxy_test

import (
	"bytes"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/speculate"
)

// within reports whether the named function is on the call stack.
func within(function string) bool {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, function) {
			return true
		}
		if !more {
			return false
		}
	}
}

// lines is a log written by several goroutines.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.all.String(), text)
}

// After a panic in prediction the session is served as before, other sessions are still predicted
// for, and nothing is left behind that could delay a call.
func TestPanicInPrediction(t *testing.T) {
	for _, tt := range []struct {
		in     string // function under which something panics, once
		gone   bool   // the panic ends the session's predictions
		panics int64
	}{
		{"speculate.(*Worker).called", true, 1},
		{"speculate.(*Worker).answered", true, 1},
		{"speculate.(*pair).decide", true, 1},
		{"proxy.(*prefetchSource).Fetch", true, 1},
		{"proxy.(*prefetchSource).stillAllowed", false, 1},
		{"speculate.(*Worker).resume", true, 1},
	} {
		t.Run(tt.in, func(t *testing.T) {
			var armed atomic.Bool
			var log lines
			o := prefetching(t, mcptest.Options{Name: "one"})
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			o.Upstreams[0].Allows = func(string) bool {
				if armed.Load() && within(tt.in) && armed.Swap(false) {
					panic("a fault of prediction")
				}
				return true
			}
			s := start(t, o)
			a, b := connect(t, s, handshake), connect(t, s, handshake)
			armed.Store(true)
			a.call("list", `{}`)
			for range 3 { // resume runs after a prefetch
				if got := a.call("echo", `{"n":11}`); !strings.Contains(got, "11") {
					t.Errorf("the session it was about: got %s", got)
				}
			}
			until(t, s, "panicked", func(proxy.Stats) bool { return !armed.Load() })
			st := until(t, s, "quiet", func(st proxy.Stats) bool {
				return st.Prefetch.Panics == tt.panics && log.count("prediction panicked") == int(tt.panics) && st.Store.Flights == 0 && st.Store.UnderWay == 0
			})
			for _, h := range st.Hosts {
				if h.InFlight+h.Prefetches+h.Waiting+h.WaitingPrefetches > 0 {
					t.Errorf("left at its host: %+v", h)
				}
			}
			before := st.Prefetch.Issued
			b.call("list", `{}`)
			until(t, s, "two prefetches more", func(st proxy.Stats) bool { // or three: the session may have one left
				return st.Prefetch.Issued >= before+2 && st.Store.Flights == 0
			})
			if how := disposition(t, b.call("echo", `{"n":11}`)); how != "hit" {
				t.Errorf("another session: got %s, want a hit", how)
			}
			a.call("list", `{}`)
			if gone := proxy.Kept(s)["watched sessions"] == 1; gone != tt.gone {
				t.Errorf("the session it was about has no predictions any more: %v, want %v", gone, tt.gone)
			}
		})
	}
}

// A model whose saving panics is not saved again, and prediction continues.
func TestPanicInKeeping(t *testing.T) {
	o := prefetching(t, mcptest.Options{Name: "one"})
	var log lines
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	o.Upstreams[0].Learned = func(merge func(speculate.State) (speculate.State, error)) error {
		if _, err := merge(speculate.State{}); err != nil {
			return err
		}
		panic("a fault of prediction")
	}
	s := start(t, o)
	for nth := range int64(3) {
		c := connect(t, s, handshake)
		c.call("list", `{}`)
		until(t, s, "two prefetches", settled(2*nth+2))
		if how := disposition(t, c.call("echo", `{"n":11}`)); how != "hit" {
			t.Errorf("got %s, want a hit", how)
		}
	}
	if st := s.Stats(); st.Prefetch.Panics != 1 || log.count("prediction panicked") != 1 {
		t.Errorf("%d panics, logged %d times, want 1 and 1", st.Prefetch.Panics, log.count("prediction panicked"))
	}
}
