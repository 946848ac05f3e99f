//go:build linux || darwin

package dedup_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/dedup"
)

// TestComparisonOfFile: a comparison is not conclusive if the file has changed.
func TestComparisonOfFile(t *testing.T) {
	for _, tt := range []struct {
		name                     string
		prefetched, asked, ended string // content of the file at that time
		want                     dedup.Comparison
	}{
		{"unchanged", "one", "one", "one", dedup.Differs},
		{"changed before the call", "one", "another", "another", dedup.NotCompared},
		{"changed while the call was under way", "one", "one", "another", dedup.NotCompared},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore(t)
			q := query(never)
			q.Reuse.File = filepath.Join(t.TempDir(), "file")
			holds := func(text string) {
				if old, err := os.ReadFile(q.Reuse.File); err != nil || string(old) != text {
					put(t, q.Reuse.File, text, time.Hour)
				}
			}
			holds(tt.prefetched)
			begin(t, s, q).settle()
			holds(tt.asked)
			x := wait(t, s, trying(q))
			holds(tt.ended)
			x.flight.Finish([]byte("real"), false, true)
			if got := x.outcome(t); got.Comparison != tt.want {
				t.Errorf("got a trial of %d, want %d", got.Comparison, tt.want)
			}
		})
	}
}

// TestFile changes the file during the fetch, or between it and the next call.
func TestFile(t *testing.T) {
	nothing := func(*testing.T, string) {}
	write := func(text string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) { put(t, path, text, time.Hour) }
	}
	remove := func(t *testing.T, path string) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	replace := func(t *testing.T, path string) { // by a file of the same size and age
		put(t, path+".new", "old", time.Hour)
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name                   string
		first, during, between func(t *testing.T, path string)
		want                   dedup.Disposition
	}{
		{"unchanged", nothing, nothing, nothing, dedup.Hit},
		{"another size", nothing, nothing, write("longer"), dedup.Fetched},
		{"another time", nothing, nothing, func(t *testing.T, path string) { put(t, path, "old", 2*time.Hour) }, dedup.Fetched},
		{"replaced", nothing, nothing, replace, dedup.Fetched},
		{"other rights", nothing, nothing, func(t *testing.T, path string) {
			for before := dedup.Look(path); dedup.Look(path) == before; { // timestamps of files only advance every few ms
				if err := os.Chmod(path, 0o400); err != nil {
					t.Fatal(err)
				}
			}
		}, dedup.Fetched},
		{"removed", nothing, nothing, remove, dedup.Fetched},
		{"changed meanwhile", nothing, write("longer"), nothing, dedup.Fetched},
		{"removed meanwhile", nothing, remove, write("old"), dedup.Fetched},
		{"too young", func(t *testing.T, path string) { put(t, path, "old", 2*time.Second) }, nothing, nothing, dedup.Fetched},
		{"old enough", func(t *testing.T, path string) { put(t, path, "old", 2*time.Second+1) }, nothing, nothing, dedup.Hit},
		{"not there", remove, nothing, nothing, dedup.Fetched},
		{"a folder", func(t *testing.T, path string) {
			remove(t, path)
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
			makeOld(t, path, time.Hour)
		}, nothing, nothing, dedup.Fetched},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s := newStore(t)
				path := filepath.Join(t.TempDir(), "file")
				put(t, path, "old", time.Hour)
				q := query(dedup.Reuse{Pure: true, File: path})
				tt.first(t, path)
				x := wait(t, s, q)
				tt.during(t, path)
				x.flight.Finish([]byte("answer"), false, true)
				tt.between(t, path)
				if got := (&source{store: s}).ask(t, q); got.How != tt.want {
					t.Errorf("got %s, want %s", got.How, tt.want)
				}
			})
		})
	}
}

// TestFileChangedBetweenCalls: a call that comes after a change does not join a fetch from before it.
func TestFileChangedBetweenCalls(t *testing.T) {
	s := newStore(t)
	q := query(dedup.Reuse{Pure: true, File: filepath.Join(t.TempDir(), "file")})
	for _, text := range []string{"old", "changed"} {
		put(t, q.Reuse.File, text, time.Hour)
		if x := wait(t, s, q); x.flight == nil {
			t.Errorf("%s: the call has joined", text)
		}
	}
	if x := wait(t, s, q); x.flight != nil {
		t.Error("unchanged: the call has not joined")
	}
}

// TestFileYoungWhenSent: a file that was just written may change again with the same times,
// however long the fetch takes.
func TestFileYoungWhenSent(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newStore(t)
		path := filepath.Join(t.TempDir(), "file")
		put(t, path, "old", time.Second)
		x := wait(t, s, query(dedup.Reuse{Pure: true, File: path}))
		time.Sleep(time.Hour)
		x.flight.Finish([]byte("answer"), false, true)
		if got := s.Stats().Entries; got != 0 {
			t.Errorf("got %d entries, want none", got)
		}
	})
}

// put writes a file and sets its modification time.
func put(t *testing.T, path, text string, ago time.Duration) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	makeOld(t, path, ago)
}

func makeOld(t *testing.T, path string, ago time.Duration) {
	t.Helper()
	if err := os.Chtimes(path, time.Time{}, time.Now().Add(-ago)); err != nil {
		t.Fatal(err)
	}
}
