package state_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpschedd/internal/state"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

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

// holds fails unless a file holds a text and has a mode.
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

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	name := put(t, filepath.Join(dir, "c.toml"), "old", 0o640)
	for i, want := range []string{".bak-20260301T120000", ".bak-20260301T120000-2"} {
		backup, err := open(t, name).Replace([]byte("new"+strings.Repeat("!", i)), noon)
		if err != nil || backup != name+want {
			t.Errorf("kept as %q, %v; want %q", backup, err, name+want)
		}
	}
	holds(t, name, "new!", 0o640)
	holds(t, name+".bak-20260301T120000", "old", 0o600)
	holds(t, name+".bak-20260301T120000-2", "new", 0o600)
	if got := names(t, dir); strings.Contains(got, "tmp") {
		t.Errorf("left behind: %s", got)
	}
}

func TestReplaceFollowsALink(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "dotfiles"), 0o700); err != nil {
		t.Fatal(err)
	}
	target := put(t, filepath.Join(dir, "dotfiles", "c.toml"), "old", 0o600)
	link := filepath.Join(dir, "c.toml")
	if err := os.Symlink(filepath.Join("dotfiles", "c.toml"), link); err != nil {
		t.Skip(err)
	}
	backup, err := open(t, link).Replace([]byte("new"), noon)
	if err != nil || filepath.Dir(backup) != filepath.Dir(target) {
		t.Errorf("kept as %q, %v", backup, err)
	}
	holds(t, target, "new", 0o600)
	if s, err := os.Lstat(link); err != nil || s.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v, %v", s, err)
	}
	if err := os.Remove(target); err != nil {
		t.Fatal(err)
	}
	if _, err := state.OpenFile(link); err == nil {
		t.Error("a link to nowhere: no error")
	}
}

func TestReplaceMakesTheFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a", "b", "c.toml")
	f := open(t, name)
	if f.Text != nil {
		t.Errorf("a missing file holds %q", f.Text)
	}
	if backup, err := f.Replace([]byte("new"), noon); err != nil || backup != "" {
		t.Errorf("kept as %q, %v", backup, err)
	}
	holds(t, name, "new", 0o600)
	if got := names(t, filepath.Dir(name)); got != "c.toml" {
		t.Errorf("made %s", got)
	}
}

func TestReplaceLeavesAlone(t *testing.T) {
	t.Run("what is read-only", func(t *testing.T) {
		dir := t.TempDir()
		name := put(t, filepath.Join(dir, "c.toml"), "old", 0o444)
		if _, err := open(t, name).Replace([]byte("new"), noon); err == nil || !strings.Contains(err.Error(), "read-only") {
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
		if _, err := f.Replace([]byte("new"), noon); err == nil || !strings.Contains(err.Error(), "meanwhile") {
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
		if _, err := f.Replace([]byte("new"), noon); err == nil {
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

// Whoever reads meanwhile sees the old text or the new one, whole.
func TestReplaceAtOnceWithReaders(t *testing.T) {
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
		if _, err := open(t, name).Replace([]byte(strings.Repeat(string(rune('b'+i%20)), 1<<16)), noon.Add(time.Duration(i)*time.Second)); err != nil {
			t.Error(err)
		}
	}
	close(done)
	readers.Wait()
}
