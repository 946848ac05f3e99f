package record_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/record"
)

// Events that were flushed before a process was killed are in its file. All of the file can be
// read, except a partial last line.
func TestKilled(t *testing.T) {
	for round := range 3 {
		dir := t.TempDir()
		child := startChild(t, "forever", dir)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		var followed []record.Event
		next := record.Follow(dir, time.Time{}, func(e *record.Event) { followed = append(followed, *e) }, halfLine(t))
		lines := bufio.NewScanner(out)
		for n := 0; n < 5+9*round && lines.Scan(); n++ {
		}
		flushed, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		poll := func() {
			if err := next(); err != nil {
				t.Error(err)
			}
		}
		poll()
		_ = child.Process.Kill()
		_ = child.Wait()
		poll()

		var all []record.Event
		if err := record.Read(t.Context(), []string{dir}, func(e *record.Event) { all = append(all, *e) }, halfLine(t)); err != nil {
			t.Fatal(err)
		}
		for what, got := range map[string][]int64{"Read": numbers(all)["s"], "Follow": numbers(followed)["s"]} {
			if inSequence(t, "s", got, len(got)); len(got) < flushed {
				t.Errorf("%s: got %d calls of the %d that were flushed", what, len(got), flushed)
			}
		}
		for _, f := range must(record.Files(dir)) {
			if f.Running {
				t.Errorf("%s: counts as being written to, although its process was killed", f.Path)
			}
		}
		left, _ := filepath.Glob(filepath.Join(dir, "*.lock"))
		for _, path := range left {
			before := time.Now().Add(-time.Minute)
			os.Chtimes(path, before, before)
		}
		l := record.Open(record.Options{Dir: dir, Status: noStatus}) // removes leftovers
		l.Flush()
		if got, _ := filepath.Glob(filepath.Join(dir, "*.lock")); len(got) != 1 || got[0] != filepath.Join(dir, l.Process()+".lock") {
			t.Errorf("got locks %v, want only that of the running process", got)
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

// halfLine accepts one problem: the last line of the killed process.
func halfLine(t *testing.T) func(record.Problem) {
	n := 0
	return func(p record.Problem) {
		if n++; n > 1 || p.Text != "the last line is cut short" {
			t.Errorf("problem: %v", p)
		}
	}
}

// Eight processes write into one folder while readers read it repeatedly and follow it.
func TestManyProcesses(t *testing.T) {
	dir := t.TempDir()
	var followed []record.Event
	next := record.Follow(dir, time.Time{}, func(e *record.Event) { followed = append(followed, *e) }, func(p record.Problem) { t.Errorf("problem: %v", p) })
	poll := func() {
		if err := next(); err != nil {
			t.Error(err)
		}
	}
	poll()
	var children []*exec.Cmd
	for range 8 {
		child := startChild(t, "calls", dir)
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
		if files, err := record.Files(dir); err == nil && len(files) > 0 {
			for session, seqs := range numbers(read(t, files[0].Path)) {
				inSequence(t, session, seqs, len(seqs))
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	poll()
	for what, all := range map[string][]record.Event{"Read": read(t, dir), "Follow": followed} {
		sessions, begins, ends := numbers(all), 0, 0
		for session, seqs := range sessions {
			inSequence(t, session, seqs, childCalls)
		}
		for _, e := range all {
			switch e.Kind {
			case record.Begin:
				begins++
			case record.End:
				ends++
			}
			if e.Kind == record.Call && !strings.Contains(e.Process, "-"+e.Session[1:]+"-") {
				t.Fatalf("%s: session %s has process %s", what, e.Session, e.Process)
			}
		}
		if len(sessions) != 16 || begins < 8 || ends != 8 {
			t.Errorf("%s: got %d sessions, %d begins and %d ends, want 16, one for each part and 8", what, len(sessions), begins, ends)
		}
	}
}
