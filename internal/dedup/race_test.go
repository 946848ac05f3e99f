package dedup_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
)

// crowd runs readers, writers and prefetches concurrently in real time.
type crowd struct {
	t       *testing.T
	store   *dedup.Store
	numbers [2]atomic.Int64 // number of changes of each of crowdPlaces
	fetches sync.WaitGroup
	shared  atomic.Int64 // answers that the call did not fetch itself

	mu         sync.Mutex
	prefetches []*dedup.Prefetch
}

var crowdPlaces = [2]call.Place{host, edge}

// TestConcurrent: every call is answered once, and never with a stale answer.
func TestConcurrent(t *testing.T) {
	c := &crowd{t: t, store: newStore(t)}
	var writers, readers sync.WaitGroup
	var stop atomic.Bool
	for i := range crowdPlaces {
		writers.Go(func() {
			for n := 0; !stop.Load(); n++ {
				c.write(i, n)
			}
		})
	}
	for r := range 8 {
		readers.Go(func() {
			d := dedup.NewDelivered()
			for range 500 {
				c.read(rand.IntN(2), []string{"a", "b"}[r%2], d)
			}
		})
	}
	readers.Wait()
	stop.Store(true)
	writers.Wait()
	c.fetches.Wait()
	if got := c.store.Stats(); got.Flights != 0 || got.UnderWay != 0 || c.store.Pending() != 0 {
		t.Errorf("got %+v, and %d pending writes, want none under way", got, c.store.Pending())
	}
	if err := c.store.CheckFates(c.prefetches); err != nil {
		t.Error(err)
	}
	t.Logf("%d of 4000 answers were shared", c.shared.Load())
}

func (c *crowd) query(i int, scope string) dedup.Query {
	q := query([]dedup.Reuse{fresh, pure}[i], crowdPlaces[i])
	q.Key.Scope, q.Key.Tool = scope, fmt.Sprint(i)
	return q
}

// fetch returns the fetch function of a number.
func (c *crowd) fetch(i int) func(context.Context, *dedup.Flight) {
	return func(_ context.Context, f *dedup.Flight) {
		c.fetches.Go(func() {
			body := fmt.Append(nil, c.numbers[i].Load())
			f.Notify("notifications/progress", nil)
			f.Finish(body, false, true)
			clear(body)
		})
	}
}

// write changes a number, makes prefetches and other events.
func (c *crowd) write(i, n int) {
	p := c.store.RegisterWrite(changes(crowdPlaces[i]))
	c.numbers[i].Add(1)
	if n%3 == 0 {
		p.Doubt()
	}
	p.End()
	c.prefetch(c.query(i, "b"), c.fetch(i))
	switch n % 50 {
	case 0:
		c.store.Reclassify()
	case 1:
		c.store.DropScope("a")
	case 2:
		c.store.Taint(1)
	case 3:
		c.store.Configure(dedup.Options{MaxBytes: 1 << (n % 20), WriteSettle: writeSettle})
	case 4:
		c.store.Stats()
	}
	for range 200 { // so that some answers are reused between two writes
		c.store.Invalidate(local)
	}
}

// prefetch begins a prefetch, and reads its fate on another goroutine.
func (c *crowd) prefetch(q dedup.Query, fetch func(context.Context, *dedup.Flight)) {
	c.store.PrefetchRefusal(q)
	g, _ := c.store.Prefetch(c.t.Context(), q, fetch)
	if g == nil {
		return
	}
	c.fetches.Go(func() {
		if why, fate := g.Why(), g.Fate(); why != "" && fate != call.Wasted && fate != call.Compared {
			c.t.Errorf("no call got it because of %q, and then one did", why)
		}
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prefetches = append(c.prefetches, g)
}

// read calls for a number, and sometimes cancels.
func (c *crowd) read(i int, scope string, d *dedup.Delivered) {
	q := c.query(i, scope)
	q.Delivered = d
	q.Reuse.CompareOnly = rand.IntN(4) == 0
	ctx, cancel := context.WithCancelCause(c.t.Context())
	defer cancel(nil)
	least := c.numbers[i].Load()
	got := make(chan dedup.Outcome, 2)
	w := &dedup.Waiter{Done: func(o dedup.Outcome) { got <- o }, Notify: func(string, []byte) {}}
	c.store.Do(ctx, q, w, c.fetch(i))
	if rand.IntN(4) == 0 {
		cancel(errLeft)
	}
	o := <-got
	if len(got) > 0 {
		c.t.Error("answered twice")
	}
	if o.Body == nil {
		return
	}
	if q.Reuse.CompareOnly && o.Prefetched {
		c.t.Error("a trial is served")
	}
	c.shared.Add(1)
	var saw int64
	if _, err := fmt.Sscan(string(o.Body), &saw); err != nil || saw < least {
		c.t.Errorf("stale answer: got %q, %s, after %d", o.Body, o.How, least)
	}
}
