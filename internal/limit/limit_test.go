package limit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/limit"
)

const github = "api.github.com"

var good = limit.Outcome{}

// begun receives the names of calls in the order in which they begin.
type begun chan string

// real and prefetch start a call that holds its slot for hold.
func (b begun) real(t *testing.T, h *limit.Hosts, name string, hold time.Duration) {
	go func() {
		slot, err := h.Enter(t.Context(), github)
		b.hold(t, name, slot, err, hold)
	}()
	synctest.Wait()
}

func (b begun) prefetch(t *testing.T, h *limit.Hosts, name string, promoted <-chan struct{}, hold time.Duration) {
	go func() {
		slot, err := h.EnterSpare(t.Context(), github, promoted)
		b.hold(t, name, slot, err, hold)
	}()
	synctest.Wait()
}

func (b begun) hold(t *testing.T, name string, slot *limit.Slot, err error, hold time.Duration) {
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	b <- name
	select {
	case <-time.After(hold):
	case <-t.Context().Done():
	}
	slot.Leave(good)
}

func (b begun) order() []string {
	var names []string
	for len(b) > 0 {
		names = append(names, <-b)
	}
	return names
}

func enter(t *testing.T, h *limit.Hosts, host string) *limit.Slot {
	t.Helper()
	slot, ok := h.TryEnter(host)
	if !ok {
		t.Fatalf("%s: a real call must wait", host)
	}
	return slot
}

func wantRefused(t *testing.T, h *limit.Hosts, host string, want error) {
	t.Helper()
	if err := h.MayPrefetch(host); err != want {
		t.Errorf("MayPrefetch at %v: got %v, want %v", time.Now().Format(time.TimeOnly), err, want)
	}
	if want == nil {
		return
	}
	if _, err := h.EnterSpare(t.Context(), host, nil); err != want {
		t.Errorf("Prefetch at %v: got %v, want %v", time.Now().Format(time.TimeOnly), err, want)
	}
}

// A paused call gives its slot away. It takes the next free one before calls that have not begun, and
// goes on without if it is given up or has ended. Of several pauses the last one counts.
func TestPause(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := limit.New(map[string]limit.Rule{github: {Concurrency: 1}})
		b := make(begun, 10)
		resume := func(ctx context.Context, slot *limit.Slot, name string) {
			go func() {
				slot.Resume(ctx)
				b <- name
			}()
			synctest.Wait()
		}
		want := func(names ...string) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(names, b.order()); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
		}
		first := enter(t, h, github)
		b.real(t, h, "second", time.Second)
		b.real(t, h, "third", time.Second)
		want()
		first.Pause()
		first.Pause()
		want("second")
		resume(t.Context(), first, "one of two")
		want("one of two")
		resume(t.Context(), first, "first")
		want()
		time.Sleep(time.Second)
		want("first")
		first.Pause()
		want("third")
		gone, leave := context.WithCancel(t.Context())
		resume(gone, first, "given up")
		leave()
		want("given up")
		if n := h.Stats()[0].InFlight; n != 2 {
			t.Errorf("got %d calls in flight, want the one that was given up too", n)
		}
		first.Pause()
		resume(t.Context(), first, "ended")
		first.Leave(good)
		want("ended")
		first.Pause()
		first.Resume(t.Context())
		time.Sleep(time.Second)
		synctest.Wait()
		if s := h.Stats()[0]; s.InFlight+s.Waiting != 0 {
			t.Errorf("calls left: %+v", s)
		}
	})
}

// TestPauseAndPrefetches: a prefetch does not take the slot of a paused call.
func TestPauseAndPrefetches(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := limit.New(map[string]limit.Rule{github: {Concurrency: 1}})
		b := make(begun, 3)
		paused := enter(t, h, github)
		paused.Pause()
		b.prefetch(t, h, "prefetch", nil, 0)
		began := time.Now()
		paused.Resume(t.Context())
		if waited := time.Since(began); waited > 0 || len(b) > 0 {
			t.Errorf("the call waited %v to go on, and %d prefetches have begun, want none", waited, len(b))
		}
		paused.Leave(good)
		synctest.Wait()
		if len(b) != 1 {
			t.Error("the prefetch has not begun after the call")
		}
	})
}

// TestHarmAfterPause: a resumed call that waits while an earlier prefetch holds a slot is harmed by it.
func TestHarmAfterPause(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := limit.New(map[string]limit.Rule{github: {Concurrency: 2}})
		b := make(begun, 3)
		b.prefetch(t, h, "prefetch", nil, 2*time.Second)
		paused := enter(t, h, github)
		paused.Pause()
		b.real(t, h, "real", 3*time.Second)
		paused.Resume(t.Context())
		if total, _ := h.ReadHarm(github); total != 2*time.Second {
			t.Errorf("got harm of %v, want 2 s", total)
		}
		paused.Leave(good)
		time.Sleep(3 * time.Second)
	})
}

// TestNoOvertaking: a token that arrives belongs to the waiting call, even before the timer has
// fired.
func TestNoOvertaking(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := limit.New(map[string]limit.Rule{"*": {Rate: 1}})
		enter(t, h, github)
		order := make(begun, 3)
		order.real(t, h, "real", 0)
		time.Sleep(time.Second)
		if _, ok := h.TryEnter(github); ok {
			t.Error("a call that does not wait took the token")
		}
		order.prefetch(t, h, "prefetch", nil, 0)
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"real", "prefetch"}, order.order()); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

func TestNothingSet(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := limit.New(map[string]limit.Rule{"other": {Rate: 1}, github: {SpeculativePerHour: 5}})
		for range 1000 {
			slot := enter(t, h, github)
			slot.Leave(limit.Outcome{Limited: true, RetryAfter: time.Hour})
			enter(t, h, github)
		}
		if got := h.Stats()[0]; got.InFlight != 1000 || got.Limited != 1000 || got.Tokens != nil {
			t.Errorf("got %+v, want 1000 in flight, 1000 limited, no tokens", got)
		}
	})
}

// TestCautionWithoutRules: without rules, four prefetches run at once.
func TestCautionWithoutRules(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := limit.New(nil)
		order := make(begun, 6)
		for range 6 {
			order.prefetch(t, h, "prefetch", nil, time.Minute)
		}
		if got := len(order.order()); got != 4 {
			t.Errorf("got %d prefetches at once, want 4", got)
		}
		time.Sleep(2 * time.Minute)
	})
}

// TestLocalHasNoQuota: a local process has no hourly limit, unless the user sets one for it or for
// all other hosts.
func TestLocalHasNoQuota(t *testing.T) {
	const local = "upstream:files"
	for _, tt := range []struct {
		name  string
		rules map[string]limit.Rule
		host  string
		want  int // of 1000 prefetches
	}{
		{"nothing set", nil, local, 1000},
		{"something else set", map[string]limit.Rule{local: {Concurrency: 8}}, local, 1000},
		{"set", map[string]limit.Rule{local: {SpeculativePerHour: 7}}, local, 7},
		{"set for every other host", map[string]limit.Rule{"*": {SpeculativePerHour: 7}}, local, 7},
		{"a host", nil, github, 200},
		{"a host with that in its name", nil, "an.upstream:8080", 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := limit.New(map[string]limit.Rule{"gone": {}})
			h.Configure(tt.rules)
			got := 0
			for range 1000 {
				if slot, err := h.EnterSpare(t.Context(), tt.host, nil); err == nil {
					slot.Leave(good)
					got++
				}
			}
			if got != tt.want {
				t.Errorf("got %d prefetches in an hour, want %d", got, tt.want)
			}
		})
	}
}

func TestQuotaIsAnyHour(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := limit.New(map[string]limit.Rule{"*": {SpeculativePerHour: 30}})
		var began []time.Time
		for range 10 * 3600 / 17 {
			if slot, err := h.EnterSpare(t.Context(), github, nil); err == nil {
				began = append(began, time.Now())
				slot.Leave(good)
			}
			time.Sleep(17 * time.Second)
		}
		for i := 30; i < len(began); i++ {
			if span := began[i].Sub(began[i-30]); span < time.Hour {
				t.Errorf("31 prefetches began within %v", span)
			}
		}
		if len(began) < 280 {
			t.Errorf("got %d prefetches in ten hours, want about 300", len(began))
		}
	})
}

func TestPromotedNeedsNoQuota(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := limit.New(map[string]limit.Rule{"*": {SpeculativePerHour: 1, Concurrency: 2}})
		order := make(begun, 9)
		order.prefetch(t, h, "prefetch", nil, time.Second)
		promoted := make(chan struct{})
		close(promoted)
		order.prefetch(t, h, "promoted", promoted, time.Second)
		if diff := cmp.Diff([]string{"prefetch", "promoted"}, order.order()); diff != "" {
			t.Errorf("began (-want +got):\n%s", diff)
		}
		wantRefused(t, h, github, limit.ErrQuota)
	})
}

func TestHarm(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := limit.New(map[string]limit.Rule{"*": {Concurrency: 1}})
		order := make(begun, 9)
		order.prefetch(t, h, "prefetch", nil, time.Second)
		order.real(t, h, "delayed by a prefetch", 2*time.Second)
		order.real(t, h, "delayed by both", 0)
		time.Sleep(4 * time.Second)
		order.real(t, h, "not delayed", time.Second)
		order.real(t, h, "delayed by a real call", 0)
		time.Sleep(2 * time.Second)
		for _, unread := range []time.Duration{4 * time.Second, 0} {
			if total, got := h.ReadHarm(github); total != 4*time.Second || got != unread {
				t.Errorf("got harm of %v, %v unread, want 4 s, the wait of calls while a prefetch held a slot, and %v", total, got, unread)
			}
		}
		want := []limit.HostStats{{Host: github, LastHour: 1, HarmMS: 4000}}
		if diff := cmp.Diff(want, h.Stats()); diff != "" {
			t.Errorf("stats (-want +got):\n%s", diff)
		}
	})
}
