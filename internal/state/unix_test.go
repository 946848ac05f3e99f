//go:build unix

package state_test

import (
	"syscall"
	"testing"

	"mcpschedd/internal/state"
)

// A pipe in the place of a file is an error, and is not waited for.
func TestReadPipe(t *testing.T) {
	dir, err := state.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(dir.Path("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := dir.Read("a"); err == nil {
		t.Errorf("got %q", text)
	}
}
