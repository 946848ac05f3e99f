package limit_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/limit"
)

func TestReload(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := limit.New(map[string]limit.Rule{"*": {Concurrency: 1, Rate: 0.001, Burst: 10}})
		order := make(begun, 9)
		for i := range 4 {
			order.real(t, h, fmt.Sprint(i), time.Hour)
		}
		step := func(what string, rules map[string]limit.Rule, began []string, tokens float64) {
			t.Helper()
			h.Configure(rules)
			synctest.Wait()
			if diff := cmp.Diff(began, order.order()); diff != "" {
				t.Errorf("%s: began (-want +got):\n%s", what, diff)
			}
			if got := h.Stats()[0].Tokens; tokens >= 0 && (got == nil || *got != tokens) {
				t.Errorf("%s: got %v tokens, want %v", what, *got, tokens)
			}
		}
		step("the same", map[string]limit.Rule{"*": {Concurrency: 1, Rate: 0.001, Burst: 10}}, []string{"0"}, 9)
		step("more slots", map[string]limit.Rule{"*": {Concurrency: 2, Rate: 0.001, Burst: 10}}, []string{"1"}, 8)
		step("fewer slots", map[string]limit.Rule{"*": {Concurrency: 1, Rate: 0.001, Burst: 10}}, nil, 8)
		step("a smaller bucket", map[string]limit.Rule{"*": {Rate: 0.001, Burst: 1}}, []string{"2"}, 0)
		step("an exact rule", map[string]limit.Rule{"*": {Concurrency: 1}, github: {Rate: 5}}, nil, 0)
		step("none", nil, []string{"3"}, -1)
	})
}

// TestForgets: idle hosts without a rule of their own are evicted.
func TestForgets(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := limit.New(map[string]limit.Rule{github: {Rate: 0.001, Burst: 1}})
		enter(t, h, github).Leave(good)
		busy := enter(t, h, "busy")
		for i := range 20000 {
			enter(t, h, fmt.Sprint("host ", i)).Leave(limit.Outcome{Limited: i%2 == 0})
		}
		if got := len(h.Stats()); got > 1024 {
			t.Errorf("got %d hosts, want at most 1024", got)
		}
		if _, ok := h.TryEnter(github); ok {
			t.Error("the bucket of a host with a rule was evicted")
		}
		busy.Leave(good)
	})
}

// TestForgetsLast: a host that cools down, or whose hourly limit is used up, is not forgotten while there
// are others to forget.
func TestForgetsLast(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := limit.New(map[string]limit.Rule{"*": {SpeculativePerHour: 1}})
		enter(t, h, github).Leave(limited(time.Minute))
		slot, err := h.EnterSpare(t.Context(), "used up", nil)
		if err != nil {
			t.Fatal(err)
		}
		slot.Leave(good)
		for i := range 20000 {
			enter(t, h, fmt.Sprint("host ", i)).Leave(good)
		}
		wantRefused(t, h, github, limit.ErrCoolingDown)
		wantRefused(t, h, "used up", limit.ErrQuota)
	})
}

// TestReloadOfQuota: prefetches that were left out because of the hourly limit count until it is changed, so that the
// stats do not ask for what has been done.
func TestReloadOfQuota(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := limit.New(map[string]limit.Rule{github: {SpeculativePerHour: 1}})
		slot, err := h.EnterSpare(t.Context(), github, nil)
		if err != nil {
			t.Fatal(err)
		}
		slot.Leave(good)
		wantRefused(t, h, github, limit.ErrQuota)
		for _, tt := range []struct{ quota, want int64 }{{1, 1}, {9, 0}} {
			h.Configure(map[string]limit.Rule{github: {SpeculativePerHour: int(tt.quota), Rate: 10}})
			if got := h.Stats()[0].OverQuota; got != tt.want {
				t.Errorf("%d per hour: got %d left out, want %d", tt.quota, got, tt.want)
			}
		}
	})
}

// TestReloadOfShared: a call that waits for a token of a slow rule asks for one of the new rule at once, or when
// the reply that is under way has arrived.
func TestReloadOfShared(t *testing.T) {
	for _, delay := range []time.Duration{0, 1500 * time.Millisecond} { // of replies
		bubble.Test(t, func(t *testing.T) {
			h := limit.New(map[string]limit.Rule{github: {Rate: 0.001}})
			h.SetShared(func(a limit.TokenRequest) (limit.Grant, error) {
				time.Sleep(delay)
				if a.Rate < 1 {
					return limit.Grant{}, nil
				}
				return limit.Grant{Tokens: a.Calls}, nil
			})
			order := make(begun, 1)
			order.real(t, h, "waits", 0)
			time.Sleep(time.Second)
			h.Configure(map[string]limit.Rule{github: {Rate: 10}})
			time.Sleep(2*delay + time.Second)
			if got := order.order(); len(got) != 1 {
				t.Errorf("replies after %v: the call still waits by the earlier rule", delay)
			}
		})
	}
}
