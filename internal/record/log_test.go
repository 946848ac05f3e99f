package record_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/record"
)

// read reads files and folders, and fails the test for each problem.
func read(t *testing.T, names ...string) (all []record.Event) {
	t.Helper()
	err := record.Read(t.Context(), names, func(e *record.Event) { all = append(all, *e) }, func(p record.Problem) { t.Errorf("problem: %v", p) })
	if err != nil {
		t.Error(err)
	}
	return all
}

// numbers returns the Seq of the calls among events, by session.
func numbers(all []record.Event) map[string][]int64 {
	seqs := map[string][]int64{}
	for _, e := range all {
		if e.Kind == record.Call {
			seqs[e.Session] = append(seqs[e.Session], e.Seq)
		}
	}
	return seqs
}

// inSequence fails unless the calls of a session are 1 to n, each once and in order.
func inSequence(t *testing.T, session string, seqs []int64, n int) {
	t.Helper()
	for i, seq := range seqs {
		if seq != int64(i+1) {
			t.Errorf("session %s: call %d is number %d", session, i+1, seq)
			return
		}
	}
	if len(seqs) != n {
		t.Errorf("session %s: got %d calls, want %d", session, len(seqs), n)
	}
}

func paths(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "events")
	var told []record.Event
	l := record.Open(record.Options{
		Dir: dir, Key: []byte("k"), Begin: record.Event{Program: "1.0", Mode: "on"},
		OnEvent: func(e record.Event) { told = append(told, e) },
	})
	at := time.UnixMicro(1_770_000_000_000_001).UTC()
	l.Add(record.Event{Kind: record.Session, At: at, Session: "s", Client: "c 1"})
	l.Add(record.Event{Kind: record.Call, At: at, Session: "s", Seq: 1, Tool: "get", RawArguments: []byte(`{"a":1}`), ResultSum: 7, Disposition: record.Fetched})
	l.Flush()
	if n := len(told); n != 3 {
		t.Errorf("after Flush: OnEvent was told of %d events, want 3", n)
	}
	if n := len(read(t, dir)); n != 3 {
		t.Errorf("after Flush: %d events in the file, want 3", n)
	}
	files, err := record.Files(dir)
	if err != nil || len(files) != 1 || !files[0].Running || files[0].Process != l.Process() {
		t.Errorf("got %+v, %v, want one file that is being written to", files, err)
	}
	l.Add(record.Event{Kind: record.End, At: at, Session: "s"})
	l.Close()
	l.Close()

	got := read(t, dir)
	kinds := make([]record.Kind, len(got))
	for i, e := range got {
		kinds[i] = e.Kind
	}
	if want := []record.Kind{record.Begin, record.Session, record.Call, record.End, record.End}; !slices.Equal(kinds, want) {
		t.Errorf("got %v, want %v", kinds, want)
	}
	unwritten := cmpopts.IgnoreFields(record.Event{}, "RawArguments", "ResultSum", "ArgsHash", "ResultHash")
	if diff := cmp.Diff(told, got, unwritten, cmpopts.EquateApproxTime(time.Microsecond)); diff != "" {
		t.Errorf("events read differ from those passed to OnEvent (-passed +read):\n%s", diff)
	}
	if b := got[0]; b.V != record.Version || b.PID != os.Getpid() || b.Program != "1.0" || b.Process != l.Process() || b.At.IsZero() {
		t.Errorf("got %+v, want a first line that describes the process", b)
	}
	if lost := l.Lost(); lost != 0 {
		t.Errorf("got %d lines lost", lost)
	}
	names := paths(t, dir)
	if len(names) != 1 {
		t.Fatalf("got %v, want only the log", names)
	}
	for name, want := range map[string]fs.FileMode{names[0]: 0o600, ".": 0o700 | fs.ModeDir} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != want {
			t.Errorf("%s: got %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
}

// A process without events creates no file.
func TestNothingHappened(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		l := record.Open(record.Options{Dir: dir})
		time.Sleep(time.Second)
		synctest.Wait()
		if names := paths(t, dir); len(names) != 0 {
			t.Errorf("got %v, want nothing", names)
		}
		l.Close()
		if names := paths(t, dir); len(names) != 0 {
			t.Errorf("got %v, want nothing left", names)
		}
	})
}

func TestWrittenInTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		l := record.Open(record.Options{Dir: dir})
		defer l.Close()
		for n := range 3 {
			time.Sleep(time.Hour)
			l.Add(record.Event{Kind: record.Call, Session: "s", Seq: int64(n + 1)})
			time.Sleep(time.Second)
			synctest.Wait()
			inSequence(t, "s", numbers(read(t, dir))["s"], n+1)
		}
	})
}

func TestReconfigure(t *testing.T) {
	dir := t.TempDir()
	told := 0
	l := record.Open(record.Options{Dir: dir, Off: true, OnEvent: func(record.Event) { told++ }})
	call := func(seq int64) {
		l.Add(record.Event{Kind: record.Call, Session: "s", Seq: seq, RawArguments: []byte(`{"a":1}`)})
	}
	call(1)
	l.Flush()
	if names := paths(t, dir); len(names) != 0 {
		t.Errorf("switched off: got %v, want nothing", names)
	}
	call(2) // writing is off
	l.Reconfigure(true, false)
	call(3)
	l.Flush()
	l.Reconfigure(false, false)
	call(4)
	l.Flush()
	l.Reconfigure(true, true)
	call(5)
	l.Close()
	var got []string
	for _, e := range read(t, dir) {
		got = append(got, fmt.Sprint(e.Kind, e.Seq, string(e.Arguments)))
	}
	if want := []string{"begin0", `call3{"a":1}`, "call4"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if told != 7 || l.Lost() != 0 {
		t.Errorf("told of %d, %d lost; want 7 and 0", told, l.Lost())
	}
}

// Files are rotated at the maximum size, and no line is lost, with or without a reader.
func TestRotation(t *testing.T) {
	const sessions, calls, size = 8, 800, 256 << 10
	dir := t.TempDir()
	l := record.Open(record.Options{Dir: dir, RotateBytes: size})
	ctx, cancel := context.WithCancel(t.Context())
	followed := make(chan map[string][]int64)
	go func() { followed <- numbers(follow(t, ctx, dir)) }()
	var all sync.WaitGroup
	for n := range sessions {
		all.Go(func() {
			for i := range calls {
				l.Add(record.Event{Kind: record.Call, Session: string(rune('a' + n)), Seq: int64(i + 1), Tool: strings.Repeat("t", i%200)})
			}
		})
	}
	all.Wait()
	l.Close()
	cancel()
	files, err := record.Files(dir)
	if err != nil || len(files) < 4 {
		t.Errorf("got %d files, %v, want many", len(files), err)
	}
	for _, f := range files {
		if f.Size > size || f.Running {
			t.Errorf("got %+v, want %d bytes at most", f, size)
		}
	}
	inFile, passedOn := numbers(read(t, dir)), <-followed
	for n := range sessions {
		session := string(rune('a' + n))
		inSequence(t, session, inFile[session], calls)
		inSequence(t, session, passedOn[session], calls)
	}
	if l.Lost() != 0 {
		t.Errorf("%d lost", l.Lost())
	}
}

// follow polls a folder until ctx is done, and once more.
func follow(t *testing.T, ctx context.Context, dir string) (all []record.Event) {
	next := record.Follow(dir, time.Time{}, func(e *record.Event) { all = append(all, *e) }, func(p record.Problem) { t.Errorf("problem: %v", p) })
	poll := func() {
		if err := next(); err != nil {
			t.Error(err)
		}
	}
	for ctx.Err() == nil {
		poll()
		time.Sleep(5 * time.Millisecond)
	}
	poll()
	return all
}

// A line longer than RotateBytes is written; a line longer than maxLine is lost.
func TestLongLines(t *testing.T) {
	dir := t.TempDir()
	l := record.Open(record.Options{Dir: dir, RotateBytes: 1000})
	for seq, size := range []int{10, 5000, 10, 2 * record.MaxLine, record.MaxLine, 10} {
		l.Add(record.Event{Kind: record.Call, Seq: int64(seq), Edge: strings.Repeat("x", size)})
	}
	l.Close()
	var got []int64
	for _, e := range read(t, dir) {
		if e.Kind == record.Call {
			got = append(got, e.Seq)
		}
	}
	if want := []int64{0, 1, 2, 5}; !slices.Equal(got, want) || l.Lost() != 2 {
		t.Errorf("got %v and %d lost, want %v and 2", got, l.Lost(), want)
	}
}
