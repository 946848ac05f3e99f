package state_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"mcpschedd/internal/state"
)

func put(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
	return name
}

// holds fails the test unless a file has a text and a mode.
func holds(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	got, err := os.ReadFile(name)
	if err != nil || string(got) != text {
		t.Errorf("%s holds %q, %v; want %q", name, got, err, text)
	}
	if s, err := os.Stat(name); err == nil && s.Mode().Perm() != mode {
		t.Errorf("%s has mode %v, want %v", name, s.Mode(), mode)
	}
}

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func open(t *testing.T, name string) *state.File {
	t.Helper()
	f, err := state.OpenFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFileWrite(t *testing.T) {
	dir := t.TempDir()
	name := put(t, filepath.Join(dir, "c.toml"), "old", 0o640)
	if err := open(t, name).Write([]byte("new")); err != nil {
		t.Fatal(err)
	}
	holds(t, name, "new", 0o640)
	if got := names(t, dir); got != "c.toml" {
		t.Errorf("left behind: %s", got)
	}
}

func TestFileWriteFollowsALink(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "dotfiles"), 0o700); err != nil {
		t.Fatal(err)
	}
	target := put(t, filepath.Join(dir, "dotfiles", "c.toml"), "old", 0o600)
	link := filepath.Join(dir, "c.toml")
	if err := os.Symlink(filepath.Join("dotfiles", "c.toml"), link); err != nil {
		t.Skip(err)
	}
	if err := open(t, link).Write([]byte("new")); err != nil {
		t.Error(err)
	}
	holds(t, target, "new", 0o600)
	if s, err := os.Lstat(link); err != nil || s.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v, %v", s, err)
	}
	if err := os.Remove(target); err != nil {
		t.Fatal(err)
	}
	if _, err := state.OpenFile(link); err == nil {
		t.Error("a dangling link: got no error")
	}
}

func TestFileRemove(t *testing.T) {
	dir := t.TempDir()
	name := put(t, filepath.Join(dir, "c.toml"), "old", 0o444)
	if err := open(t, name).Remove(); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("what is read-only: got %v", err)
	}
	holds(t, name, "old", 0o444)
	if err := os.Chmod(name, 0o600); err != nil {
		t.Fatal(err)
	}
	f := open(t, name)
	put(t, name, "mine", 0o600)
	if err := f.Remove(); err == nil || !strings.Contains(err.Error(), "meanwhile") {
		t.Errorf("what has been changed meanwhile: got %v", err)
	}
	holds(t, name, "mine", 0o600)
	if err := open(t, name).Remove(); err != nil {
		t.Error(err)
	}
	if got := names(t, dir); got != "" {
		t.Errorf("left behind: %s", got)
	}
}

func TestFileWriteMakesIt(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a", "b", "c.toml")
	f := open(t, name)
	if f.Text != nil {
		t.Errorf("a missing file holds %q", f.Text)
	}
	if err := f.Write([]byte("new")); err != nil {
		t.Error(err)
	}
	holds(t, name, "new", 0o600)
	if got := names(t, filepath.Dir(name)); got != "c.toml" {
		t.Errorf("made %s", got)
	}
}

func TestFileWriteLeavesAlone(t *testing.T) {
	t.Run("what is read-only", func(t *testing.T) {
		dir := t.TempDir()
		name := put(t, filepath.Join(dir, "c.toml"), "old", 0o444)
		if err := open(t, name).Write([]byte("new")); err == nil || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("got %v", err)
		}
		holds(t, name, "old", 0o444)
		if got := names(t, dir); got != "c.toml" {
			t.Errorf("left behind: %s", got)
		}
	})
	t.Run("what has been changed meanwhile", func(t *testing.T) {
		dir := t.TempDir()
		name := put(t, filepath.Join(dir, "c.toml"), "old", 0o600)
		f := open(t, name)
		put(t, name, "mine", 0o600)
		if err := f.Write([]byte("new")); err == nil || !strings.Contains(err.Error(), "meanwhile") {
			t.Errorf("got %v", err)
		}
		holds(t, name, "mine", 0o600)
		if got := names(t, dir); got != "c.toml" {
			t.Errorf("left behind: %s", got)
		}
	})
	t.Run("what has been made meanwhile", func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "c.toml")
		f := open(t, name)
		put(t, name, "mine", 0o600)
		if err := f.Write([]byte("new")); err == nil {
			t.Error("no error")
		}
		holds(t, name, "mine", 0o600)
	})
	t.Run("what is no file", func(t *testing.T) {
		if _, err := state.OpenFile(t.TempDir()); err == nil {
			t.Error("no error")
		}
	})
}

// TestFileWriteAtOnceWithReaders: concurrent readers see the old text or the new one.
func TestFileWriteAtOnceWithReaders(t *testing.T) {
	name := put(t, filepath.Join(t.TempDir(), "c.toml"), strings.Repeat("a", 1<<16), 0o600)
	done := make(chan struct{})
	var readers sync.WaitGroup
	readers.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			text, err := os.ReadFile(name)
			if err != nil || len(text) != 1<<16 || strings.Count(string(text), string(text[:1])) != 1<<16 {
				t.Errorf("a partial file was seen: %d bytes, %v", len(text), err)
				return
			}
		}
	})
	for i := range 50 {
		if err := open(t, name).Write([]byte(strings.Repeat(string(rune('b'+i%20)), 1<<16))); err != nil {
			t.Error(err)
		}
	}
	close(done)
	readers.Wait()
}
