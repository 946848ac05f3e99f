package events_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/events"
)

// What was flushed before a process is killed is there, and all that is there can be
// read but for half a line at its end.
func TestKilled(t *testing.T) {
	for round := range 3 {
		dir := t.TempDir()
		child := start(t, "forever", dir)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		tail := events.NewTail(dir)
		lines := bufio.NewScanner(out)
		for n := 0; n < 5+9*round && lines.Scan(); n++ {
		}
		flushed, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		var tailed []events.Event
		poll := func() {
			if err := tail.Poll(func(e *events.Event) { tailed = append(tailed, *e) }, halfLine(t)); err != nil {
				t.Error(err)
			}
		}
		poll()
		_ = child.Process.Kill()
		_ = child.Wait()
		poll()

		var all []events.Event
		if err := events.Read(t.Context(), []string{dir}, func(e *events.Event) { all = append(all, *e) }, halfLine(t)); err != nil {
			t.Fatal(err)
		}
		for who, got := range map[string][]int64{"Read": numbers(all)["s"], "Tail": numbers(tailed)["s"]} {
			if inSequence(t, "s", got, len(got)); len(got) < flushed {
				t.Errorf("%s: got %d calls of the %d that were flushed", who, len(got), flushed)
			}
		}
		for _, f := range must(events.Files(dir)) {
			if f.Running {
				t.Errorf("%s: said to be written to by a process that was killed", f.Path)
			}
		}
		l := events.Open(events.Options{Dir: dir}) // tidies up
		l.Flush()
		if stale, _ := filepath.Glob(filepath.Join(dir, "*.lock")); len(stale) != 1 {
			t.Errorf("got locks %v, want that of the running process alone", stale)
		}
		l.Close()
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// halfLine accepts one problem: what the killed process was writing.
func halfLine(t *testing.T) func(events.Problem) {
	n := 0
	return func(p events.Problem) {
		if n++; n > 1 || p.Text != "the last line is cut short" {
			t.Errorf("problem: %v", p)
		}
	}
}

// Eight processes write into one folder, while some are read from beginning to end
// over and over, and followed.
func TestManyProcesses(t *testing.T) {
	dir := t.TempDir()
	tail := events.NewTail(dir)
	var tailed []events.Event
	poll := func() {
		err := tail.Poll(func(e *events.Event) { tailed = append(tailed, *e) }, func(p events.Problem) { t.Errorf("problem: %v", p) })
		if err != nil {
			t.Error(err)
		}
	}
	poll()
	var children []*exec.Cmd
	for range 8 {
		child := start(t, "calls", dir)
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, child)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for _, child := range children {
			if err := child.Wait(); err != nil {
				t.Error(err)
			}
		}
		cancel()
	}()
	for ctx.Err() == nil {
		poll()
		if files, err := events.Files(dir); err == nil && len(files) > 0 {
			for session, seqs := range numbers(read(t, files[0].Path)) {
				inSequence(t, session, seqs, len(seqs))
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	poll()
	for who, all := range map[string][]events.Event{"Read": read(t, dir), "Tail": tailed} {
		sessions, begins, ends := numbers(all), 0, 0
		for session, seqs := range sessions {
			inSequence(t, session, seqs, childCalls)
		}
		for _, e := range all {
			switch e.Kind {
			case events.Begin:
				begins++
			case events.End:
				ends++
			}
			if e.Kind == events.Call && !strings.Contains(e.Process, "-"+e.Session[1:]+"-") {
				t.Fatalf("%s: session %s is said to be of process %s", who, e.Session, e.Process)
			}
		}
		if len(sessions) != 16 || begins != 8 || ends != 8 {
			t.Errorf("%s: got %d sessions, %d begins and %d ends, want 16, 8 and 8", who, len(sessions), begins, ends)
		}
	}
}

func TestKey(t *testing.T) {
	sameKeys(t, filepath.Join(t.TempDir(), "new"))
}

// The key that earlier versions kept beside the logs goes on elsewhere, and is there no
// longer.
func TestKeyIsMoved(t *testing.T) {
	dir := t.TempDir()
	was, moved := filepath.Join(dir, "events", "key"), filepath.Join(dir, "hash-key")
	if err := os.Mkdir(filepath.Dir(was), 0o700); err != nil {
		t.Fatal(err)
	}
	const key = "0123456789abcdef0123456789ABCDEF"
	for _, start := range []string{"an update", "an earlier version was started once more"} {
		write(t, was, key)
		if start != "an update" {
			write(t, was, strings.ToUpper(key))
		}
		if got, want := sameKeys(t, dir), fmt.Sprintf("%x <nil>", key); got != want {
			t.Errorf("%s: got %s, want %s", start, got, want)
		}
		if _, err := os.Stat(was); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: got %v, want no key beside the logs", start, err)
		}
		if info, err := os.Stat(moved); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: got %v, %v, want 0600", start, info, err)
		}
	}
}

// A key that cannot be moved is good where it is, and said.
func TestKeyStays(t *testing.T) {
	dir := t.TempDir()
	was := write(t, filepath.Join(dir, "key"), "0123456789abcdef0123456789ABCDEF")
	key, err := events.Key(filepath.Join(was, "no-folder"), was)
	if len(key) != 32 || err == nil {
		t.Errorf("got a key of %d bytes and %v, want the one there is, and why it stays", len(key), err)
	}
}

// sameKeys starts processes that want the key at once, and returns what each of them got.
func sameKeys(t *testing.T, dir string) string {
	t.Helper()
	var children []*exec.Cmd
	outs := make([]strings.Builder, 6)
	for i := range outs {
		child := start(t, "key", dir)
		child.Stdout = &outs[i]
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, child)
	}
	for i, child := range children {
		if err := child.Wait(); err != nil || outs[i].String() != outs[0].String() || len(outs[i].String()) != 70 {
			t.Errorf("process %d: got %s, %v, the first one %s", i, &outs[i], err, &outs[0])
		}
	}
	return outs[0].String()
}
