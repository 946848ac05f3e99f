package state_test

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/state"
)

func TestWrite(t *testing.T) {
	dir, err := state.Open(filepath.Join(t.TempDir(), "new", "folder"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Read("offers/a.json"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before: got %v, want an error that it does not exist", err)
	}
	for _, want := range []string{"first, and longer", "second"} {
		if err := dir.Write("offers/a.json", []byte(want)); err != nil {
			t.Fatal(err)
		}
		if got, err := dir.Read("offers/a.json"); err != nil || string(got) != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	entries, err := os.ReadDir(dir.Path("offers"))
	if err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v, want only the file", entries, err)
	}
	for name, want := range map[string]fs.FileMode{"offers/a.json": 0o600, "offers": 0o700 | fs.ModeDir, "": 0o700 | fs.ModeDir} {
		info, err := os.Stat(dir.Path(name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("%q: got mode %v, want %v", name, info.Mode(), want)
		}
	}
}

func TestRemoveUnused(t *testing.T) {
	dir, err := state.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir.RemoveUnused(t.Context(), "learned", time.Hour) // which does not exist yet
	for name, age := range map[string]time.Duration{
		"learned/old": 2 * time.Hour, "learned/old.lock": 2 * time.Hour, "learned/new": 0, "learned/new.lock": 2 * time.Hour, "offers/old": 2 * time.Hour,
	} {
		written := time.Now().Add(-age)
		if err := cmp.Or(dir.Write(name, []byte("x")), os.Chtimes(dir.Path(name), written, written)); err != nil {
			t.Fatal(err)
		}
	}
	dir.RemoveUnused(t.Context(), "learned", time.Hour)
	left, _ := filepath.Glob(dir.Path("*/*"))
	if want := []string{dir.Path("learned/new"), dir.Path("learned/new.lock"), dir.Path("offers/old")}; !slices.Equal(left, want) {
		t.Errorf("got %v, want %v", left, want)
	}
}

// TestWriteFails: if a file cannot be replaced, it is unchanged and no temporary file is left.
func TestWriteFails(t *testing.T) {
	dir, err := state.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir.Path("taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := dir.Write("taken", []byte("x")); err == nil {
		t.Error("got no error for a name that is a folder")
	}
	if err := dir.Write(strings.Repeat("x", 250), nil); err == nil || !strings.HasSuffix(err.Error(), "; nothing was changed") { // too long only with its ending
		t.Errorf("got %v, want that nothing was changed", err)
	}
	entries, err := os.ReadDir(dir.Path("."))
	if err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v, want only the folder", entries, err)
	}
}
