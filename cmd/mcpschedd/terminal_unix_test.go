//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWritable(t *testing.T) {
	dir := t.TempDir()
	locked := filepath.Join(dir, "locked")
	if err := os.Mkdir(locked, 0o500); err != nil {
		t.Fatal(err)
	}
	everywhere := os.Geteuid() == 0 // to root nothing is locked
	for path, want := range map[string]bool{
		dir: true, filepath.Join(dir, "new", "newer"): true,
		locked: everywhere, filepath.Join(locked, "new"): everywhere,
	} {
		if got := writable(path); got != want {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
}
