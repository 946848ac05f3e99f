package limit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/limit"
)

// ledger records the calls to a host.
type ledger struct {
	t     *testing.T
	rule  limit.Rule
	start time.Time

	mu         sync.Mutex
	inFlight   int
	paused     int
	real       []span // calls that are not prefetches, or were promoted
	prefetches []time.Duration
}

// span is the wait of a call, since the ledger's start.
type span struct {
	from, to time.Duration
	entered  bool // false if it was cancelled
}

func (l *ledger) now() time.Duration { return time.Since(l.start) }

// enters records the end of a wait, and the start of a call if it succeeded.
func (l *ledger) enters(from time.Duration, real, entered bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if real {
		l.real = append(l.real, span{from, l.now(), entered})
	} else if entered {
		l.prefetches = append(l.prefetches, l.now())
	}
	if entered {
		l.workLocked()
	}
}

// workLocked records that a call begins or goes on.
func (l *ledger) workLocked() {
	l.inFlight++
	if l.rule.Concurrency > 0 && l.inFlight > l.rule.Concurrency {
		l.t.Errorf("%v: %d calls at once, want at most %d", l.now(), l.inFlight, l.rule.Concurrency)
	}
}

// pauses records a pause of a call.
func (l *ledger) pauses(slot *limit.Slot, pause time.Duration) {
	l.mu.Lock()
	l.inFlight--
	l.paused++
	l.mu.Unlock()
	slot.Pause()
	time.Sleep(pause)
	slot.Resume(l.t.Context())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paused--
	l.workLocked()
}

func (l *ledger) leaves(slot *limit.Slot, v limit.Outcome) {
	l.mu.Lock()
	l.inFlight--
	l.mu.Unlock()
	slot.Leave(v)
}

// check checks the records: no window has more calls than the bucket allows, calls start in order,
// and no prefetch starts while a call is waiting.
func (l *ledger) check() {
	l.t.Helper()
	began := slices.Clone(l.prefetches)
	for _, r := range l.real {
		if r.entered {
			began = append(began, r.to)
		}
	}
	slices.Sort(began)
	for i := range began {
		for j := i; l.rule.Rate > 0 && j < len(began); j++ {
			if allowed := float64(l.rule.Burst) + l.rule.Rate*(began[j]-began[i]).Seconds(); float64(j-i+1) > allowed+1e-6 {
				l.t.Fatalf("%d calls from %v to %v, want at most %v", j-i+1, began[i], began[j], allowed)
			}
		}
	}
	for _, g := range l.prefetches {
		for _, r := range l.real {
			if r.from < g && g < r.to {
				l.t.Fatalf("a prefetch began at %v while a real call waited from %v to %v", g, r.from, r.to)
			}
		}
	}
	slices.SortFunc(l.real, func(a, b span) int { return int(a.from - b.from) })
	latest := span{}
	for _, r := range l.real {
		if !r.entered {
			continue
		}
		if r.to < latest.to && r.from > latest.from {
			l.t.Fatalf("a real call that came at %v began at %v, before the one of %v at %v", r.from, r.to, latest.from, latest.to)
		}
		if r.to > latest.to {
			latest = r
		}
	}
}

// call makes a call or prefetch of random length, and cancels it after a random wait.
func (l *ledger) call(h *limit.Hosts, rnd *rand.Rand) {
	patience := time.Duration(rnd.Int64N(int64(8 * time.Second)))
	hold := time.Duration(rnd.Int64N(int64(time.Second)))
	kind := rnd.IntN(4)
	promotion := time.Duration(rnd.Int64N(int64(4 * time.Second)))
	outcome := limit.Outcome{Limited: rnd.IntN(40) == 0, RetryAfter: time.Second, Failed: rnd.IntN(4) == 0}

	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	var slot *limit.Slot
	var err error
	from, real := l.now(), true
	switch kind {
	case 0: // never promoted
		real = false
		slot, err = h.EnterSpare(ctx, github, nil)
	case 1: // promoted if it still waits then
		promoted := make(chan struct{})
		at := l.now() + promotion
		timer := time.AfterFunc(promotion, func() { close(promoted) })
		slot, err = h.EnterSpare(ctx, github, promoted)
		timer.Stop()
		if real = l.now() > at; real {
			from = at
		} else if l.now() == at {
			real, from = true, at // promoted just as it started, without a wait as a call
		}
	default:
		slot, err = h.Enter(ctx, github)
	}
	l.enters(from, real, err == nil)
	if err == nil {
		time.Sleep(hold)
		if rnd.IntN(4) == 0 {
			l.pauses(slot, hold)
			time.Sleep(hold)
		}
		l.leaves(slot, outcome)
	}
}

// stuck returns a message if a call or prefetch waits although its limits would let it start.
func stuck(s limit.HostStats, paused int, r limit.Rule) string {
	slots, tokens := r.Concurrency == 0 || s.InFlight < r.Concurrency, s.Tokens == nil || *s.Tokens > 1.0001
	half := r.Concurrency == 0 && s.Prefetches < 4 || r.Concurrency > 0 && float64(r.Concurrency-s.InFlight-1) >= max(0.5*float64(r.Concurrency), float64(paused))
	full := s.Tokens == nil || *s.Tokens > 1.0001+0.5*float64(r.Burst)
	switch {
	case s.Waiting > 0 && slots && tokens:
		return "a real call waits for nothing"
	case s.Waiting == 0 && s.WaitingPrefetches > 0 && half && full:
		return "a prefetch waits for nothing"
	case s.WaitingPrefetches > 0 && !s.CoolingUntil.IsZero():
		return "a prefetch waits for a host that cools down"
	}
	return ""
}

func TestRandomLoad(t *testing.T) {
	rules := []limit.Rule{
		{Rate: 10, Burst: 10, SpeculativePerHour: 1e6},
		{Rate: 5, Burst: 20, Concurrency: 4, SpeculativePerHour: 1e6},
		{Concurrency: 6, SpeculativePerHour: 1e6},
		{Rate: 3, Burst: 4, Concurrency: 3, SpeculativePerHour: 40},
		{SpeculativePerHour: 1e6},
	}
	runs, lasts := 1, time.Minute // with 20 s of each load
	if os.Getenv("MCPSCHEDD_SOAK") == "1" {
		runs, lasts = 20, 3*time.Minute
	}
	for i := range runs * len(rules) {
		rule := rules[i%len(rules)]
		t.Run(fmt.Sprintf("%d %+v", i, rule), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(uint64(i), 1))
				h := limit.New(map[string]limit.Rule{github: rule})
				l := &ledger{t: t, rule: rule, start: time.Now()}
				var calls sync.WaitGroup
				pauses := []time.Duration{30 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second} // overload, load, light load
				for l.now() < lasts {
					seed := rnd.Uint64()
					calls.Go(func() { l.call(h, rand.New(rand.NewPCG(seed, 2))) })
					pause := pauses[int(l.now()/(20*time.Second))%len(pauses)]
					time.Sleep(1 + time.Duration(rnd.Int64N(int64(pause))))
					synctest.Wait()
					l.mu.Lock()
					paused := l.paused
					l.mu.Unlock()
					if what := stuck(h.Stats()[0], paused, rule); what != "" {
						t.Fatalf("%v: %s: %+v", l.now(), what, h.Stats()[0])
					}
				}
				calls.Wait()
				l.check()
				s := h.Stats()[0]
				if s.InFlight+s.Prefetches+s.Waiting+s.WaitingPrefetches != 0 {
					t.Errorf("calls left: %+v", s)
				}
				if len(l.real) < 100 || len(l.prefetches) < 5 {
					t.Errorf("%d real calls, %d prefetches: the test proves little", len(l.real), len(l.prefetches))
				}
			})
		})
	}
}
