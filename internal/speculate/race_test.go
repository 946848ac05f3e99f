package speculate_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/call"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/speculate"
)

// crowd is a test with many concurrent sessions, each at an upstream of its own and at three
// shared ones. Calls return at any time or never.
type crowd struct {
	scheduler *speculate.Scheduler
	calls     sync.WaitGroup // begun by prefetches
	begun     atomic.Int64   // of them
}

// TestManySessions runs 200 sessions, each with a goroutine. Calls return on other goroutines,
// hang until they are cancelled, or are refused. Harm and reloads happen at any time. At the end
// no prefetch may be left.
func TestManySessions(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &crowd{scheduler: speculate.NewScheduler(speculate.Slots{Deadline: time.Second})}
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
		if st := c.scheduler.Stats(); st.UnderWay != 0 || st.Sessions != 0 {
			t.Errorf("left: %+v", st)
		}
		if n := c.begun.Load(); n < 500 {
			t.Errorf("%d prefetches were begun: too few to prove anything", n)
		}
	})
}

// meddle causes harm and reloads at random times.
func (c *crowd) meddle(stop chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(50 * time.Millisecond):
		}
		c.scheduler.Configure(speculate.Slots{Deadline: time.Second, Total: 16 + i%16})
		c.scheduler.Stats()
		c.scheduler.Events()
		c.scheduler.Concurrency(fmt.Sprint(i % 3))
		if i%50 == 0 {
			c.scheduler.Harm(fmt.Sprint(i%40), nil, speculate.RateLimited, 0)
		}
	}
}

// work runs one session.
func (c *crowd) work(ctx context.Context, i int, r *rand.Rand) {
	host := fmt.Sprint(i / 4)
	s := c.scheduler.NewClaims("")
	for range 60 {
		time.Sleep(time.Duration(r.IntN(400)) * time.Millisecond)
		k := key(r.IntN(20))
		k.Upstream = []uint64{uint64(r.IntN(3)), uint64(10 + i), uint64(10 + i)}[r.IntN(3)] // shared, or only of this session
		now := time.Now()
		c.real(s, k, r)
		s.Review(now)
		room := s.Room(now, host, leaseOf(k))
		for range room.Slots {
			next := key(r.IntN(20))
			next.Upstream = k.Upstream
			if room.Shadow {
				s.Shadow(now, next, nil, host, time.Second)
			} else {
				c.prefetch(ctx, s, next, host, r)
			}
		}
		s.DropUnless(now, func(call.Key) bool { return r.IntN(10) > 0 })
		if r.IntN(10) == 0 {
			s.Invalidate(func(call.Key, []call.Place) bool { return r.IntN(2) == 0 })
		}
	}
	var twice sync.WaitGroup
	for range 2 {
		twice.Go(s.End)
	}
	twice.Wait()
}

func leaseOf(k call.Key) *speculate.Lease {
	return &speculate.Lease{Key: fmt.Sprint(k.Upstream), Instance: k.Upstream}
}

func (c *crowd) real(s *speculate.SessionClaims, k call.Key, r *rand.Rand) {
	run := new(speculate.Run)
	c.scheduler.Sent(run, leaseOf(k), k.Tool, nil, time.Now())
	s.Called(time.Now(), k)
	time.Sleep(time.Duration(r.IntN(50)) * time.Millisecond)
	if r.IntN(10) == 0 {
		c.scheduler.Abandoned(run, true, time.Now())
	}
	c.scheduler.Answered(run, time.Now())
}

func (c *crowd) prefetch(ctx context.Context, s *speculate.SessionClaims, k call.Key, host string, r *rand.Rand) {
	kind, takes, good := r.IntN(30), time.Duration(r.IntN(200))*time.Millisecond, call.Fate(1+r.IntN(4)%3)
	switch kind {
	case 0:
		s.Start(ctx, leaseOf(k), k, host, false, notBegun)
		return
	case 1:
		takes = time.Hour // hangs until its context ends
	}
	s.Start(ctx, leaseOf(k), k, host, false, func(claim *speculate.Claim) (func() call.Fate, enrich.Reason) {
		c.begun.Add(1)
		var fate atomic.Int64
		run := new(speculate.Run)
		c.scheduler.Sent(run, leaseOf(k), k.Tool, claim, time.Now())
		c.calls.Go(func() {
			select {
			case <-time.After(takes):
				fate.Store(int64(good))
			case <-claim.Context.Done():
				time.Sleep(2 * time.Second) // returns only some time after the cancellation
				fate.Store(int64(call.Wasted))
			}
			c.scheduler.Answered(run, time.Now())
			claim.Done()
		})
		return func() call.Fate { return call.Fate(fate.Load()) }, ""
	})
}
