package limit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/age"
	"mcpschedd/internal/bubble"
	"mcpschedd/internal/limit"
)

// laptop is a machine whose sleep and wall clock the test sets.
type laptop struct {
	start time.Time
	slept time.Duration
}

func newLaptop(h *limit.Hosts) *laptop {
	l := &laptop{start: time.Now()}
	h.SetClock(func() age.Moment {
		awake := time.Since(l.start)
		return age.At(awake, awake+l.slept)
	})
	return l
}

// TestSleep: hosts do not sleep while a laptop does. In the morning their buckets are full, and
// cool-downs and quotas over. The sleep does not count as a wait.
func TestSleep(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := limit.New(map[string]limit.Rule{github: {Rate: 0.001, Burst: 3, SpeculativePerHour: 1, Concurrency: 1}})
		l := newLaptop(h)
		slot, err := h.Prefetch(t.Context(), github, nil)
		if err != nil {
			t.Fatal(err)
		}
		wantRefused(t, h, github, limit.ErrQuota)
		go func() {
			if slot, err := h.Enter(t.Context(), github); err == nil { // it waits for the prefetch's slot
				slot.Leave(limited(time.Hour))
			}
		}()
		synctest.Wait()
		time.Sleep(time.Second)
		l.slept += 8 * time.Hour
		slot.Leave(good)
		synctest.Wait()
		if s := h.Stats()[0]; s.WaitedMS != 1000 || s.HarmMS != 1000 || s.LastHour != 0 || *s.Tokens != 2 {
			t.Errorf("got %+v, %v tokens, want 1 s waited, all of it harm, no prefetch in the last hour, and 2 tokens", s, *s.Tokens)
		}
		wantRefused(t, h, github, limit.ErrCoolingDown)
		if got := time.Until(h.Stats()[0].CoolingUntil); got != time.Hour {
			t.Errorf("cools down for %v, want an hour", got)
		}
		l.slept += time.Hour
		if got := time.Until(h.Stats()[0].CoolingUntil); got != 0 {
			t.Errorf("after an hour's sleep it cools down for another %v", got)
		}
		enter(t, h, github).Leave(good) // what finds out whether the host answers again
		wantRefused(t, h, github, nil)
	})
}

// TestSetBack: a wall clock that is set back does not delay calls.
func TestSetBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := limit.New(map[string]limit.Rule{github: {Rate: 1, Burst: 1}})
		l := newLaptop(h)
		enter(t, h, github).Leave(good)
		l.slept -= 8 * time.Hour
		began := time.Now()
		slot, err := h.Enter(t.Context(), github)
		if err != nil {
			t.Fatal(err)
		}
		slot.Leave(good)
		if got := time.Since(began); got.Round(time.Millisecond) != time.Second {
			t.Errorf("waited %v, want 1 s", got)
		}
	})
}
