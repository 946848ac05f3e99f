//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// After mcpschedd has run as root, its user learns which folder is in the way, and what to do.
func TestFolderOfRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make such a folder")
	}
	home, err := os.MkdirTemp("", "s") // the parent of t.TempDir is closed to others
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	if err := os.Chown(home, 12347, -1); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("MCPSCHEDD_CONFIG", "")
	if err := os.Chmod(home, 0o755); err != nil {
		t.Fatal(err)
	}
	for made, args := range map[string][]string{
		".local":                 {"stats"},
		".local/state/mcpschedd": {"stats"},
		".config/mcpschedd":      {"check"},
	} {
		at := filepath.Join(home, made)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(at, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Seteuid(12347); err != nil {
			t.Fatal(err)
		}
		var printed bytes.Buffer
		run(t.Context(), args, &printed, &printed)
		if err := syscall.Seteuid(0); err != nil {
			t.Fatal(err)
		}
		if want := "hint: " + at + " belongs to root: sudo chown -R "; !strings.Contains(printed.String(), want) {
			t.Errorf("%s: got %q, want %q", made, printed.String(), want)
		}
		if err := os.RemoveAll(filepath.Join(home, strings.Split(made, "/")[0])); err != nil {
			t.Fatal(err)
		}
	}
}
