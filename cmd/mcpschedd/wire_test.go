package main

import (
	"testing"
	"time"

	"mcpschedd/internal/config"
)

// What nothing else changes may be used for longer, unless an age is set, which then holds
// for every upstream.
func TestMaxAge(t *testing.T) {
	e := config.Default().Enrichment
	if r := enrichment(&e); r.Age(false) != 30*time.Second || r.Age(true) != 5*time.Minute {
		t.Errorf("by default: got %v, and %v where the upstream is exclusive; want 30s and 5m", r.Age(false), r.Age(true))
	}
	e.MaxAge = config.Duration(20 * time.Second)
	if r := enrichment(&e); r.Age(false) != 20*time.Second || r.Age(true) != 20*time.Second {
		t.Errorf("set to 20s: got %v, and %v where the upstream is exclusive", r.Age(false), r.Age(true))
	}
}
