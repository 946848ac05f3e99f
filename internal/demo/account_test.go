package demo_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/demo"
)

// Guesses that are neither used nor given up by the end of the session are wasted.
func TestWasted(t *testing.T) {
	var a demo.Account
	p := &a.Totals.Prefetch
	p.Issued, p.Open, p.Used = 7, 2, 4
	p.Wasted = map[string]int{"expired": 2, "never_asked": 1, "error": 0}
	all, causes := demo.Wasted(&a)
	if want := map[string]int{"expired": 2, "never_asked": 3, "error": 0}; all != 5 || !cmp.Equal(causes, want) {
		t.Errorf("got %d, %v; want 5, %v", all, causes, want)
	}
	if p.Wasted["never_asked"] != 1 {
		t.Error("what mcpschedd said was changed")
	}
	if all, causes := demo.Wasted(&demo.Account{}); all != 0 || demo.Listed(causes) != "" {
		t.Errorf("of nothing: got %d, %v", all, causes)
	}
}

func TestListed(t *testing.T) {
	got := demo.Listed(map[string]int{"in_flight": 2, "cap": 10, "budget": 2, "gate": 0})
	if want := "10 cap, 2 budget, 2 in flight"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
