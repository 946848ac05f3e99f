//go:build unix

package paths_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"mcpschedd/internal/paths"
)

// A configuration may come through a pipe, as with --config <(…). One without a writer is an error,
// and is not waited for.
func TestReadPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.toml")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := paths.Read(path); err == nil {
		t.Errorf("without a writer: got %q", text)
	}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := in.WriteString("a = 1\n"); err != nil {
		t.Fatal(err)
	}
	in.Close()
	if text, err := paths.Read(fmt.Sprint("/dev/fd/", out.Fd())); err != nil || string(text) != "a = 1\n" {
		t.Errorf("with a writer: got %q, %v", text, err)
	}
}
