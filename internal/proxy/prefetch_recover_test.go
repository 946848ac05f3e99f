package proxy_test

import (
	"log/slog"
	"testing"

	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/speculate"
)

// If saving a model panics, the model is not saved again, and prediction continues.
func TestPanicInKeeping(t *testing.T) {
	o := prefetching(t, mcptest.Options{Name: "one"})
	var log logged
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	o.Upstreams[0].Learned = func(merge func(speculate.State) (speculate.State, error)) error {
		if _, err := merge(speculate.State{}); err != nil {
			return err
		}
		panic("a fault of prediction")
	}
	s := start(t, o)
	for nth := range int64(3) {
		c := connect(t, s, handshake)
		c.call("list", `{}`)
		until(t, s, "two prefetches", settled(2*nth+2))
		if how := disposition(t, c.call("echo", `{"n":11}`)); how != "hit" {
			t.Errorf("got %s, want a hit", how)
		}
	}
	if n := log.count("prediction panicked"); n != 1 {
		t.Errorf("logged %d times, want once", n)
	}
}
