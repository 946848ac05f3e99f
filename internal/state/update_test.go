package state_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gofrs/flock"

	"mcpschedd/internal/state"
)

func TestUpdate(t *testing.T) {
	dir, err := state.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const writers, times = 8, 25
	increment := func(old []byte) ([]byte, error) {
		n, _ := strconv.Atoi(string(old)) // no text counts as 0
		return []byte(strconv.Itoa(n + 1)), nil
	}
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range times {
				err := dir.Update("sub/n", increment)
				for errors.Is(err, context.DeadlineExceeded) { // on a slow machine the others may hold the lock for too long
					err = dir.Update("sub/n", increment)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	got, err := dir.Read("sub/n")
	if want := strconv.Itoa(writers * times); err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q: an update was lost", got, err, want)
	}
	info, err := os.Stat(dir.Path("sub/n"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v, want 0600", info.Mode(), err)
	}
}

func TestUpdateRefused(t *testing.T) {
	dir, err := state.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.Write("n", []byte("as it was")); err != nil {
		t.Fatal(err)
	}
	bad := errors.New("no")
	if err := dir.Update("n", func([]byte) ([]byte, error) { return nil, bad }); !errors.Is(err, bad) {
		t.Errorf("got %v, want next's own error", err)
	}
	held := flock.New(dir.Path("n.lock"))
	if err := held.Lock(); err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	called := false
	err = dir.Update("n", func([]byte) ([]byte, error) { called = true; return nil, nil })
	if err == nil || !strings.Contains(err.Error(), "another process holds it") || called {
		t.Errorf("got %v, called %v, want an error about the lock", err, called)
	}
	if got, err := dir.Read("n"); err != nil || string(got) != "as it was" {
		t.Errorf("got %q, %v, want the file unchanged", got, err)
	}
}

// An update that changes nothing does not write: where it cannot, as on a full disk, it succeeds.
func TestUpdateOfNothing(t *testing.T) {
	dir, err := state.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.Update("n", func(old []byte) ([]byte, error) { return old, nil }); err != nil {
		t.Error(err)
	}
	if _, err := dir.Read("n"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want no file", err)
	}
}

// A command that only reads needs neither the lock nor the right to write.
func TestOnlyRead(t *testing.T) {
	dir, err := state.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.Write("n", []byte("as it was")); err != nil {
		t.Fatal(err)
	}
	reading := state.OnlyRead(dir.Path(""))
	for name, want := range map[string]string{"n": "as it was", "sub/n": ""} {
		var have []byte
		err := reading.Update(name, func(old []byte) ([]byte, error) { have = old; return []byte("new"), nil })
		if err != nil || string(have) != want {
			t.Errorf("%s: got %q, %v, want %q", name, have, err, want)
		}
	}
	if err := reading.Write("m", nil); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(dir.Path(""))
	if got, _ := dir.Read("n"); err != nil || len(entries) != 1 || string(got) != "as it was" {
		t.Errorf("got %v, %q, %v, want only the file, unchanged", entries, got, err)
	}
}
