package main

import (
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"testing"

	"mcpschedd/internal/config"
)

// TestEditsAtOnce: if servers are added concurrently, none is lost.
func TestEditsAtOnce(t *testing.T) {
	homely(t)
	path := filepath.Join(t.TempDir(), "config.toml")
	var adding sync.WaitGroup
	for i := range 8 {
		adding.Go(func() {
			c := addCommand()
			c.SetErr(io.Discard)
			c.SetArgs([]string{"--config", path, fmt.Sprintf("s%d", i), "--", "x"})
			if err := c.Execute(); err != nil {
				t.Error(err)
			}
		})
	}
	adding.Wait()
	if c, err := config.Default().Load(path); err != nil || len(c.Upstreams) != 8 {
		t.Errorf("got %v, %v, want 8 servers", c.Upstreams, err)
	}
}
