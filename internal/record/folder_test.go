package record_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/record"
)

// Files beyond the age or size limit are removed, the oldest first, but never the file that a
// running process writes, and no files of other programs.
func TestRetention(t *testing.T) {
	dir := t.TempDir()
	old := func(name string, size int, age time.Duration) string {
		path := write(t, filepath.Join(dir, name), strings.Repeat("x", size))
		then := time.Now().Add(-age)
		if err := os.Chtimes(path, then, then); err != nil {
			t.Fatal(err)
		}
		return path
	}
	running := record.Open(record.Options{Dir: dir, RotateBytes: 200})
	for range 3 {
		running.Add(record.Event{Kind: record.Call, Edge: strings.Repeat("x", 100)})
	}
	running.Flush()
	parts := must(record.Files(dir))
	if len(parts) != 3 {
		t.Fatalf("got %d parts, want 3", len(parts))
	}
	for _, p := range parts {
		then := time.Now().Add(-1000 * time.Hour)
		if err := os.Chtimes(p.Path, then, then); err != nil {
			t.Fatal(err)
		}
	}
	const day = 24 * time.Hour
	keep := []string{parts[2].Path, filepath.Join(dir, running.Process()+".lock"),
		old("20260102T000000-1-000a.001.jsonl", 400, 5*day), old("20260102T000000-2-000a.000.jsonl.gz", 500, 3*day),
		old("copied.jsonl", 5000, 500*day), old("key", 32, 500*day), old("20260102T000000-1-000a.000.jsonl.bak", 5000, 500*day)}
	gone := []string{parts[0].Path, parts[1].Path,
		old("20260102T000000-1-000a.000.jsonl", 400, 6*day), // too much
		old("20260101T000000-3-000a.000.jsonl", 10, 11*day), // too old
		old("20260101T000000-4-000a.lock", 0, 11*day)}       // of a process that was killed

	l := record.Open(record.Options{Dir: dir, KeepBytes: 1000, KeepAge: 10 * day, Status: noStatus})
	l.Flush()
	for _, path := range keep {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("want it kept: %v", err)
		}
	}
	for _, path := range gone {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is still there", path)
		}
	}
	l.Close()
	running.Close()
}

func noStatus() record.Status { return record.Status{} }

// Fixed: when the clock jumped a month ahead, all files were removed. Old files are removed only
// if there is a newer one; files beyond the size limit always are.
func TestRetentionWhenAllIsOld(t *testing.T) {
	const day = 24 * time.Hour
	dir := t.TempDir()
	old := func(name string, size int, age time.Duration) string {
		path := write(t, filepath.Join(dir, name), strings.Repeat("x", size))
		then := time.Now().Add(-age)
		if err := os.Chtimes(path, then, then); err != nil {
			t.Fatal(err)
		}
		return path
	}
	begin := func(keep int64) {
		l := record.Open(record.Options{Dir: dir, KeepBytes: keep, Status: noStatus})
		l.Flush()
		l.Close()
	}
	old("20260101T000000-1-0000000a.000.jsonl", 400, 33*day)
	old("20260101T000000-2-0000000a.000.jsonl", 400, 32*day)
	old("20260101T000000-3-0000000a.000.jsonl", 400, 31*day)
	begin(1 << 20)
	if names := paths(t, dir); len(names) != 3 {
		t.Errorf("all are old: got %v, want all three", names)
	}
	begin(1000)
	if names := paths(t, dir); len(names) != 2 || names[0] != "20260101T000000-2-0000000a.000.jsonl" {
		t.Errorf("too much: got %v, want the last two", names)
	}
	fresh := filepath.Base(old("20260101T000000-4-0000000a.000.jsonl", 400, 29*day))
	begin(1 << 20)
	if names := paths(t, dir); !slices.Equal(names, []string{fresh}) {
		t.Errorf("one is not old: got %v, want %s", names, fresh)
	}
}

// A process that writes much stays within the limits while it runs.
func TestRetentionAtRotation(t *testing.T) {
	dir := t.TempDir()
	l := record.Open(record.Options{Dir: dir, RotateBytes: 1000, KeepBytes: 3000})
	for seq := range int64(500) {
		l.Add(record.Event{Kind: record.Call, Session: "s", Seq: seq + 1})
	}
	l.Close()
	var size int64
	for _, f := range must(record.Files(dir)) {
		size += f.Size
	}
	all := numbers(read(t, dir))["s"]
	if size > 4000 || len(all) < 40 || all[len(all)-1] != 500 || !slices.IsSorted(all) {
		t.Errorf("got %d bytes and calls %v, want the last ones", size, all)
	}
}
