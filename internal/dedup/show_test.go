package dedup_test

import (
	"reflect"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
)

// TestPeek checks which answers Peek returns, and that it does not count as use.
func TestPeek(t *testing.T) {
	volatileNow := never
	volatileNow.Volatile = true
	ofFile := never
	ofFile.File = "/file"
	for _, tt := range []struct {
		name   string
		use    dedup.Reuse // of the call that looks
		change func(s *dedup.Store)
		want   bool
	}{
		{"prefetched", never, func(*dedup.Store) {}, true},
		{"too old", never, func(*dedup.Store) { time.Sleep(time.Minute) }, false},
		{"changed", never, func(s *dedup.Store) { s.Invalidate(host) }, false},
		{"to be tried", trying(query(never)).Reuse, func(*dedup.Store) {}, false},
		{"volatile by now", volatileNow, func(*dedup.Store) {}, false},
		{"of a file by now", ofFile, func(*dedup.Store) {}, false},
		{"only good for one who is to wait", dedup.Reuse{Repeats: 1, BackOff: true}, func(*dedup.Store) {}, false},
		{"its scope has ended", never, func(s *dedup.Store) { s.DropScope("session 1") }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s := newStore(t)
				q := query(never, host)
				g := begin(t, s, q)
				g.settle()
				tt.change(s)
				fate, before := g.Fate(), s.Stats()
				q.Reuse = tt.use
				body, ok := s.Peek(t.Context(), q)
				if ok != tt.want || ok && string(body) != "prefetched" {
					t.Errorf("got %q, %v, want %v", body, ok, tt.want)
				}
				if g.Fate() != fate || !reflect.DeepEqual(s.Stats(), before) {
					t.Errorf("got fate %d and %+v, was %d and %+v", g.Fate(), s.Stats(), fate, before)
				}
			})
		})
	}
}

// TestMarkShown: an answer that was shown in part is not prefetched again, and a call for it gets no
// reference.
func TestMarkShown(t *testing.T) {
	src := &source{store: newStore(t)}
	q := query(never, host)
	q.Delivered = dedup.NewDelivered()
	g := begin(t, src.store, q)
	src.store.MarkShown(q) // no effect, as no answer is stored
	g.settle()
	src.store.MarkShown(q)
	if got := src.ask(t, q); got.How != dedup.Hit || got.Repeated || g.Fate() != call.Ready {
		t.Errorf("got %+v, and fate %d, want the stored answer in full", got, g.Fate())
	}
	if got := src.store.PrefetchRefusal(q); got != "delivered" {
		t.Errorf("refused with %q, want delivered", got)
	}
}
