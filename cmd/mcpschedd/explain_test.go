package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcpschedd/internal/predict"
	"mcpschedd/internal/speculate"
)

// A tool that was barred from prefetching is explained as such. What was learned is read without a lock,
// as the state directory may be one that must not be written to.
func TestExplainBarred(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "c.toml")
	text := fmt.Sprintf(`server.state_dir = %q
upstreams.notes = { command = "no-such-command", remote = true }
tools."notes/*".side_effect_class = "read_only"
`, filepath.Join(folder, "state"))
	writeFile(t, file, text)
	explained := func(tool string) string {
		t.Helper()
		var out strings.Builder
		if err := explain("notes/"+tool, explainFlags{config: file}, &out, io.Discard); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := explained("ask"); !strings.Contains(got, "prefetched: yes") {
		t.Errorf("before anything was learned: got %s", got)
	}
	if got, err := os.ReadDir(folder); err != nil || len(got) != 1 {
		t.Errorf("got %v, %v, want only the configuration", got, err)
	}
	c, err := load(file)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := stateDir(c)
	if err != nil {
		t.Fatal(err)
	}
	err = proxyOptions(ownWorkplace(), c, dir, slog.New(slog.DiscardHandler)).Upstreams[0].Learned(func(stored speculate.State) (speculate.State, error) {
		m := predict.New(predict.Options{})
		m.Bar("ask", "its prefetch asked the client a question")
		m.RecordTrial("peek", false)
		return m.Merge(stored)
	})
	if err != nil {
		t.Fatal(err)
	}
	locks, err := filepath.Glob(dir.Path("learned/*.lock"))
	if err != nil || len(locks) == 0 {
		t.Fatalf("got %v, %v, want the locks of the update", locks, err)
	}
	for _, lock := range locks {
		if err := os.Remove(lock); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := explained("ask"), "prefetched: no, it is barred for good: its prefetch asked the client a question\n"; !strings.Contains(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := explained("peek"); !strings.Contains(got, "prefetched: yes") { // the operator declares it read-only
		t.Errorf("got %s, want that it is prefetched", got)
	}
	tuning, err := newTuning(c, io.Discard)
	if err == nil {
		_, err = tuning.upstreams[0].learnedState()
	}
	if err != nil {
		t.Error(err)
	}
	if locks, _ := filepath.Glob(dir.Path("learned/*.lock")); len(locks) > 0 {
		t.Errorf("got the locks %v of what is only read", locks)
	}
}
