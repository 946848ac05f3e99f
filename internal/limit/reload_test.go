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

// TestReloadWakes: a faster rate applies to calls that are already waiting.
func TestReloadWakes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := limit.New(map[string]limit.Rule{"*": {Rate: 0.001}})
		enter(t, h, github)
		began := time.Now()
		go func() {
			time.Sleep(time.Second)
			h.Configure(map[string]limit.Rule{"*": {Rate: 1}})
		}()
		if _, err := h.Enter(t.Context(), github); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(began).Round(time.Millisecond); got != 1999*time.Millisecond {
			t.Errorf("waited %v, want 1.999s", got)
		}
	})
}

// TestForgets: idle hosts without state are evicted; hosts that cool down or have a bucket that is
// not full stay.
func TestForgets(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := limit.New(map[string]limit.Rule{github: {Rate: 0.001, Burst: 1}})
		enter(t, h, github).Leave(good)
		enter(t, h, "limited").Leave(limit.Outcome{Limited: true})
		busy := enter(t, h, "busy")
		for i := range 20000 {
			enter(t, h, fmt.Sprint("host ", i)).Leave(good)
		}
		if got := len(h.Stats()); got > 1024+256 {
			t.Errorf("got %d hosts, want some 1024", got)
		}
		wantRefused(t, h, "limited", limit.ErrCoolingDown)
		if _, ok := h.TryEnter(github); ok {
			t.Error("the bucket was forgotten")
		}
		busy.Leave(good)
		for i := range 20000 {
			enter(t, h, fmt.Sprint("limited ", i)).Leave(limit.Outcome{Limited: true})
		}
		if got := len(h.Stats()); got > 4096+256 {
			t.Errorf("got %d hosts, want some 4096", got)
		}
	})
}
