//go:build unix

package record_test

import (
	"bufio"
	"bytes"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/record"
)

// limitFiles limits the files of this process to 100,000 bytes, so that a write is cut off within
// a line.
func limitFiles() {
	signal.Ignore(syscall.SIGXFSZ)
	_ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 100_000, Max: 100_000})
}

// A line that fits only partly is removed, and the written and lost lines together are all lines.
// Lines that follow the lost ones are in another file, where the child was too slow to add all
// lines before the first were written.
func TestDiskFullInTheMiddleOfALine(t *testing.T) {
	dir := t.TempDir()
	out, err := startChild(t, "alone", dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	lost, err := strconv.Atoi(string(out))
	if err != nil {
		t.Fatal(err)
	}
	got := numbers(read(t, dir))["s"]
	if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Errorf("got calls %v, want each once and in order", got)
	}
	if len(got) == 0 || lost == 0 || len(got)+lost != childCalls { // the end of the process is in another file
		t.Errorf("got %d calls and %d lost lines, want %d together, and some of both", len(got), lost, childCalls)
	}
}

// A full disk causes one warning and is counted. Writing continues when there is space again.
func TestDiskFull(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	bubble.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var said bytes.Buffer
		o := record.Options{Dir: dir, Log: slog.New(slog.NewTextHandler(&said, nil))}
		full := true
		o.CreateWith(func(path string) (*os.File, error) {
			if !full {
				return record.Create(path)
			}
			if err := os.Symlink("/dev/full", path); err != nil {
				return nil, err
			}
			return os.OpenFile(path, os.O_WRONLY, 0)
		})
		l := record.Open(o)
		add := func(seq int64) {
			l.Add(record.Event{Kind: record.Call, Session: "s", Seq: seq})
			l.Flush()
		}
		add(1)
		full = false
		add(2)
		add(3)
		full = true
		l.Close()
		if got := numbers(read(t, dir))["s"]; len(got) != 2 || got[0] != 2 || l.Lost() != 1 {
			t.Errorf("got calls %v and %d lost, want 2 and 3, and 1", got, l.Lost())
		}
		if n := strings.Count(said.String(), "level=WARN"); n != 1 || !strings.Contains(said.String(), "no space left") {
			t.Errorf("got %d warnings, want one with the reason:\n%s", n, &said)
		}
		if names := paths(t, dir); len(names) != 1 {
			t.Errorf("got %v, want no empty parts", names)
		}
	})
}

// A file that blocks delays neither Add nor OnEvent, and lines beyond the queue are counted as lost.
func TestDiskHangs(t *testing.T) {
	const calls = 50_000
	dir := t.TempDir()
	told := 0
	o := record.Options{Dir: dir, RotateBytes: 1 << 40, OnEvent: func(record.Event) { told++ }}
	var pipe *os.File
	made := make(chan struct{})
	o.CreateWith(func(path string) (*os.File, error) {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			return nil, err
		}
		var err error
		pipe, err = os.OpenFile(path, os.O_RDWR, 0) // O_WRONLY would wait for a reader
		close(made)
		return pipe, err
	})
	l := record.Open(o)
	l.SetTimeout(10 * time.Millisecond)
	edge := strings.Repeat("x", 400)
	for seq := range int64(calls) { // does not block, although nothing is read from the file
		l.Add(record.Event{Kind: record.Call, Session: "s", Seq: seq + 1, Edge: edge})
	}
	l.Flush() // gives the file up
	<-made
	if told != calls+1 {
		t.Errorf("OnEvent was given %d, want %d", told, calls+1)
	}
	// The first events may be written before the pipe is full, the next ones are being written, and
	// the last ones are queued.
	if lost := l.Lost(); lost < calls-3*record.MaxQueued {
		t.Errorf("got %d lost lines, want more: the queue is too long", lost)
	}

	reader, err := os.Open(pipe.Name())
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan int)
	go func() {
		n := 0
		for s := bufio.NewScanner(reader); s.Scan(); {
			n++
		}
		lines <- n
	}()
	l.SetTimeout(time.Minute)
	l.Close()
	if got := <-lines; int64(got)+l.Lost() != calls+2 {
		t.Errorf("got %d lines and %d lost, want %d together", got, l.Lost(), calls+2)
	}
}

// If the folder is removed, a new one is created.
func TestFolderRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "events")
	l := record.Open(record.Options{Dir: dir})
	for seq := range int64(3) {
		l.Add(record.Event{Kind: record.Call, Session: "s", Seq: seq + 1})
		l.Flush()
		if got := numbers(read(t, dir))["s"]; len(got) != 1 || got[0] != seq+1 {
			t.Errorf("got calls %v, want %d", got, seq+1)
		}
		if files := must(record.Files(dir)); len(files) != 1 || !files[0].Running {
			t.Errorf("got %+v, want one that is being written to", files)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	if l.Lost() != 0 {
		t.Errorf("%d lost", l.Lost())
	}
}

func TestFileInTheFoldersPlace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "events")
	if err := os.WriteFile(dir, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	l := record.Open(record.Options{Dir: dir, Log: slog.New(slog.NewTextHandler(&said, nil))})
	for range 10 {
		l.Add(record.Event{Kind: record.Call})
		l.Flush()
	}
	l.Close()
	if n := strings.Count(said.String(), "level=WARN"); n != 1 || !strings.Contains(said.String(), "not a directory") || l.Lost() != 10 {
		t.Errorf("got %d warnings and %d lost, want 1 and 10:\n%s", n, l.Lost(), &said)
	}
	if got, err := os.ReadFile(dir); err != nil || string(got) != "mine" {
		t.Errorf("got %q, %v, want the file unchanged", got, err)
	}
}

// Reading does not block on a pipe that has the name of a log.
func TestPipesInTheFolder(t *testing.T) {
	dir := t.TempDir()
	l := record.Open(record.Options{Dir: dir})
	defer l.Close()
	l.Add(record.Event{Kind: record.Call, Session: "s", Seq: 1})
	l.Flush()
	elsewhere := write(t, filepath.Join(t.TempDir(), "x"), beginning+call(7))
	for _, link := range []string{"20260101T000000-1-0000abcd.000.jsonl", "linked.jsonl"} {
		if err := os.Symlink(elsewhere, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	for _, path := range []string{
		pipe, filepath.Join(dir, "20260101T000000-1-abcd.000.jsonl"), filepath.Join(dir, "x.jsonl"), filepath.Join(dir, "x.jsonl.gz"),
		filepath.Join(dir, l.Process()+".001.jsonl"), filepath.Join(dir, "20260101T000000-2-abcd.lock"),
	} {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for target, link := range map[string]string{pipe: "20260101T000000-3-abcd.000.jsonl", "/dev/zero": "zero.jsonl", "missing": "missing.jsonl"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder.jsonl"), 0o700); err != nil {
		t.Fatal(err)
	}
	seqs, problems, err := outcome(t, dir, dir)
	if len(seqs) != 3 || seqs[0] != 7 || seqs[1] != 1 || seqs[2] != 7 || problems != nil || err != nil {
		t.Errorf("Read: got calls %v, %q, %v, want those of the files and links", seqs, problems, err)
	}
	var followed []record.Event
	err = record.Follow(dir, time.Now().Add(time.Hour), func(e *record.Event) { followed = append(followed, *e) }, func(p record.Problem) { t.Errorf("problem: %v", p) })()
	if err != nil || len(followed) != 2 {
		t.Errorf("Follow: got %v, %v, want what the running process has written", followed, err)
	}

	go func() { // a pipe that is named in the arguments, as by a shell's <(…), is read
		_ = os.WriteFile(pipe, []byte(beginning+call(8)), 0)
	}()
	if seqs, problems, err := outcome(t, dir, pipe); len(seqs) != 1 || problems != nil || err != nil {
		t.Errorf("a pipe: got calls %v, %q, %v, want one", seqs, problems, err)
	}
}
