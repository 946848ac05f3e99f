package speculate_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/call"
	"mcpschedd/internal/speculate"
)

// crowd is many concurrent sessions, at upstreams of their own and at three shared ones, with calls
// that return at any time or never.
type crowd struct {
	scheduler *speculate.Scheduler
	calls     sync.WaitGroup // begun by prefetches
	ids       atomic.Uint64
}

// TestManySessions runs 200 sessions with a goroutine each. Calls return on other goroutines, hang
// until they are abandoned, or panic, and harm and reloads come at any time. Nothing may be left.
func TestManySessions(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &crowd{scheduler: speculate.New(speculate.Options{Deadline: time.Second})}
		stop := make(chan struct{})
		var others, workers sync.WaitGroup
		others.Go(func() { c.meddle(stop) })
		for i := range 200 {
			workers.Go(func() { c.work(t.Context(), i, rand.New(rand.NewPCG(uint64(i), 9))) })
		}
		workers.Wait()
		close(stop)
		others.Wait()
		c.calls.Wait()
		st := c.scheduler.Stats()
		if st.UnderWay != 0 || st.Sessions != [5]int{} || st.Issued != st.Used+st.Wasted {
			t.Errorf("got %+v", st)
		}
		if st.Issued < 500 {
			t.Errorf("too little has come to pass to prove anything: %+v", st)
		}
		t.Logf("%+v", st)
	})
}

// meddle causes events that may come at any time.
func (c *crowd) meddle(stop chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(50 * time.Millisecond):
		}
		c.scheduler.Configure(speculate.Options{Deadline: time.Second, Total: 16 + i%16})
		c.scheduler.Stats()
		c.scheduler.Changes()
		c.scheduler.Known(uint64(i % 3))
		if i%50 == 0 {
			c.scheduler.Harm(fmt.Sprint(i%40), nil, speculate.RateLimited, 0)
			c.scheduler.RemoveInstance(uint64(i % 3))
		}
	}
}

// work runs one session.
func (c *crowd) work(ctx context.Context, i int, r *rand.Rand) {
	host := fmt.Sprint(i / 4)
	s := c.scheduler.Session("")
	for range 60 {
		time.Sleep(time.Duration(r.IntN(400)) * time.Millisecond)
		k := key(r.IntN(20))
		k.Upstream = []uint64{uint64(r.IntN(3)), uint64(10 + i), uint64(10 + i)}[r.IntN(3)] // shared, or its own
		now := time.Now()
		c.real(s, k, r)
		s.Review(now)
		slots, _, watch := s.Room(host, k.Upstream)
		for range slots {
			next := key(r.IntN(20))
			next.Upstream = k.Upstream
			if watch {
				s.Watch(now, next, host, time.Second)
			} else {
				s.Start(ctx, c.prefetch(s, next, host, r))
			}
		}
		s.Reprice(now, func(call.Key) bool { return r.IntN(10) > 0 })
		if r.IntN(10) == 0 {
			s.Invalidate(func(call.Key) bool { return r.IntN(2) == 0 })
		}
	}
	var twice sync.WaitGroup
	for range 2 {
		twice.Go(s.End)
	}
	twice.Wait()
}

func (c *crowd) real(s *speculate.Session, k call.Key, r *rand.Rand) {
	id := c.ids.Add(1)
	began(c.scheduler, k.Upstream, id, k.Tool, false, time.Now())
	s.Called(time.Now(), k)
	time.Sleep(time.Duration(r.IntN(50)) * time.Millisecond)
	if r.IntN(10) == 0 {
		cut(c.scheduler, k.Upstream, id, time.Now())
	}
	ended(c.scheduler, k.Upstream, id, time.Now())
}

func (c *crowd) prefetch(s *speculate.Session, k call.Key, host string, r *rand.Rand) speculate.Prefetch {
	kind, takes, good := r.IntN(30), time.Duration(r.IntN(200))*time.Millisecond, call.Fate(1+r.IntN(4)%3)
	return speculate.Prefetch{Key: k, Host: host, Begin: func(ctx context.Context) (func() call.Fate, string) {
		switch kind {
		case 0:
			panic("a bug")
		case 1:
			return nil, "stored"
		case 2:
			takes = time.Hour // hangs, and minds its context
		}
		var fate atomic.Int64
		id := c.ids.Add(1)
		began(c.scheduler, k.Upstream, id, k.Tool, true, time.Now())
		c.calls.Go(func() {
			select {
			case <-time.After(takes):
				fate.Store(int64(good))
			case <-ctx.Done():
				time.Sleep(2 * time.Second) // it takes its time to give up
				fate.Store(int64(call.Wasted))
			}
			ended(c.scheduler, k.Upstream, id, time.Now())
			s.Done(k)
			s.Done(k)
		})
		return func() call.Fate { return call.Fate(fate.Load()) }, ""
	}}
}

// TestRateLimitedHost: a host that answers 429 to every prefetch gets at most one for each level, from
// any number of sessions.
func TestRateLimitedHost(t *testing.T) {
	d := newScheduler(speculate.Options{})
	for range 200 {
		s := d.Session("")
		for i := range 20 {
			if slots, _, watch := s.Room(host, upstream); slots == 0 || watch {
				continue
			}
			b := begin(t, s, newBet(i))
			d.Harm(host, s, speculate.RateLimited, 0)
			settle(s, call.Wasted, b)
		}
		s.End()
	}
	if st := d.Stats(); st.Issued != 3 || st.Hosts[host] != 0 {
		t.Errorf("got %+v", st)
	}
}

// TestSlowUpstream: a slow upstream holds at most the configured slots.
func TestSlowUpstream(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newScheduler(speculate.Options{})
		var all []*speculate.Session
		for range 200 {
			s := d.Session("")
			all = append(all, s)
			for i := range 5 {
				s.Start(t.Context(), newBet(i).prefetch())
			}
		}
		if st := d.Stats(); st.UnderWay != 16 {
			t.Errorf("got %+v", st)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		for _, s := range all {
			s.Review(time.Now())
			s.End()
		}
		if st := d.Stats(); st.UnderWay != 0 || st.Wasted != 16 {
			t.Errorf("got %+v", st)
		}
	})
}

// TestClientCancels: if a client cancels everything, its prefetches end, and their slots are free when
// their calls have returned.
func TestClientCancels(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newScheduler(speculate.Options{})
		s := d.Session("")
		for i := range 50 {
			ctx, cancel := context.WithCancel(t.Context())
			b := newBet(i)
			refused := s.Start(ctx, b.prefetch())
			cancel()
			if refused != "" {
				break // too much was in vain
			}
			if b.ended() == nil {
				t.Fatal("the prefetch goes on")
			}
			settle(s, call.Wasted, b)
		}
		if st := d.Stats(); st.Issued != 48 || st.UnderWay != 0 {
			t.Errorf("got %+v", st)
		}
		s.End()
	})
}
