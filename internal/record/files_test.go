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

// Files beyond the age or size limit are removed, the oldest first. Files of other programs stay.
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
		running.Flush()
	}
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
	keep := []string{filepath.Join(dir, running.Process()+".lock"),
		old("20260102T000000-1-000a.001.jsonl", 400, 5*day), old("20260102T000000-2-000a.000.jsonl.gz", 500, 3*day),
		old("copied.jsonl", 5000, 500*day), old("key", 32, 500*day), old("20260102T000000-1-000a.000.jsonl.bak", 5000, 500*day)}
	gone := []string{parts[0].Path, parts[1].Path, parts[2].Path,
		old("20260102T000000-1-000a.000.jsonl", 400, 6*day), // beyond the size limit
		old("20260101T000000-3-000a.000.jsonl", 10, 11*day), // beyond the age limit
		old("20260101T000000-4-000a.lock", 0, 11*day),       // of a killed process
		old("20260101T000000-4-000a.status.json.123456.tmp", 10, 11*day)}

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

// A process that writes many events keeps within the limits while it runs.
func TestRetentionAtRotation(t *testing.T) {
	dir := t.TempDir()
	l := record.Open(record.Options{Dir: dir, RotateBytes: 128 << 10, KeepBytes: 512 << 10})
	for seq := range int64(50_000) {
		if seq%5000 == 0 {
			l.Flush()
		}
		l.Add(record.Event{Kind: record.Call, Session: "s", Seq: seq + 1})
	}
	l.Close()
	var size int64
	for _, f := range must(record.Files(dir)) {
		size += f.Size
	}
	all := numbers(read(t, dir))["s"]
	if size > 768<<10 || len(all) < 40 || all[len(all)-1] != 50_000 || !slices.IsSorted(all) {
		t.Errorf("got %d bytes and %d calls, want the last ones", size, len(all))
	}
}
