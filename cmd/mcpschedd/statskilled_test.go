package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"mcpschedd/internal/record"
)

// alive creates the files of a running process: it holds its lock and has an open session. kill
// makes it look killed: the lock is free, and there is no last line.
func alive(t *testing.T, home string) (kill func()) {
	t.Helper()
	const process = "20260102T090000-4711-beef"
	dir := filepath.Join(home, "mcpschedd", eventsFolder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	lock := flock.New(filepath.Join(dir, process+".lock"))
	if ok, err := lock.TryLock(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	t.Cleanup(func() { lock.Close() })
	at := time.Now()
	var text []byte
	for _, e := range []record.Event{
		{Kind: record.Begin, At: at, V: record.Version, PID: 4711, Transport: "stdio"},
		{Kind: record.Session, At: at, Session: "s", Client: "test"},
		{Kind: record.Call, At: at, Session: "s", Seq: 1, Upstream: "github", Tool: "list", Disposition: record.Fetched, LatencyMS: 5},
	} {
		text = appendLine(text, &e)
	}
	status, err := json.Marshal(record.Status{Process: process, PID: 4711, Clients: []record.ClientStatus{{Client: "test", Sessions: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{process + ".000.jsonl": text, process + ".status.json": status} {
		writeFile(t, filepath.Join(dir, name), string(text))
	}
	return func() { lock.Close() }
}

// homely makes the folders of this user folders of the test.
func homely(t *testing.T) (home string) {
	home = t.TempDir()
	for _, name := range []string{"HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"} {
		t.Setenv(name, home)
	}
	t.Setenv("MCPSCHEDD_CONFIG", "")
	return home
}

// writeFile writes a file for this user alone.
func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// lookAt returns what stats and the dashboard show.
func lookAt(t *testing.T, view func() (record.View, error)) record.View {
	t.Helper()
	v, err := view()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// ownView returns a function that reads the files of this user.
func ownView(t *testing.T) func() (record.View, error) {
	t.Helper()
	view, err := viewOfToday("")
	if err != nil {
		t.Fatal(err)
	}
	return view
}

// If a process is killed while it is watched, its open sessions are no longer counted.
func TestStatsOfAKilledProcess(t *testing.T) {
	kill := alive(t, homely(t))
	view := ownView(t)
	if got := lookAt(t, view).Stats; got.Open != 1 || got.Totals.Calls != 1 {
		t.Errorf("while it runs: got %d open sessions, %d calls; want 1 and 1", got.Open, got.Totals.Calls)
	}
	kill()
	if got := lookAt(t, view).Stats; got.Open != 0 || got.Totals.Calls != 1 {
		t.Errorf("when it was killed: got %d open sessions, %d calls; want 0 and 1", got.Open, got.Totals.Calls)
	}
}

// appendLine appends an event as it is written.
func appendLine(to []byte, e *record.Event) []byte {
	text, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return append(append(to, text...), '\n')
}
