package main

import (
	"context"
	"errors"
	"io"
	"testing"

	"mcpschedd/internal/bubble"
)

// A call that the daemon does not serve fails with the daemon's reason.
func TestCallNotServed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		refused := errors.New("no server is configured for /elsewhere")
		_, err := callOnce(t.Context(), func(context.Context, io.Reader, io.Writer) error { return refused }, "x", nil)
		if !errors.Is(err, refused) {
			t.Errorf("got %v, want %v", err, refused)
		}
	})
}
