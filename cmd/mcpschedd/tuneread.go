package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/record"
	"mcpschedd/internal/replay"
	"mcpschedd/internal/tune"
)

// read reads all that is named, or what the proxy itself has kept. What cannot be read
// is told and left out; it is an error if nothing is left.
func (t *tuning) read(ctx context.Context, f *tuneFlags) error {
	var failed error
	if len(f.events)+len(f.traces)+len(f.logs) == 0 {
		t.readOwn(ctx)
	}
	if len(f.events) > 0 {
		failed = t.readEvents(ctx, f.events)
	}
	for _, name := range f.traces {
		failed = cmp.Or(failed, t.readTrace(name))
	}
	for _, dir := range f.logs {
		failed = cmp.Or(failed, t.readLogs(ctx, dir))
	}
	if more := t.problems - toldProblems; more > 0 {
		fmt.Fprintf(t.stderr, "mcpschedd: warning: and %d more\n", more)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, s := range t.sources {
		if s.Calls > 0 {
			return nil
		}
	}
	return failed
}

// toldProblems is how many are told one by one.
const toldProblems = 50

// bad tells what could not be read.
func (t *tuning) bad(file string, line int, why string) {
	if t.problems++; t.problems <= toldProblems {
		t.warn(record.Problem{File: file, Line: line, Text: why}.Error())
	}
}

func (t *tuning) warn(text string) { fmt.Fprintf(t.stderr, "mcpschedd: warning: %s\n", plain(text)) }

func (t *tuning) note(text string) { fmt.Fprintf(t.stderr, "mcpschedd: note: %s\n", plain(text)) }

// progress says now and then how far a long run is.
func (t *tuning) progress(format string, args ...any) {
	if now := time.Now(); now.After(t.next) {
		t.next = now.Add(progressEvery)
		fmt.Fprintf(t.stderr, "mcpschedd: %s\n", plain(fmt.Sprintf(format, args...)))
	}
}

// readOwn reads what the proxy has kept of its own work. What there is none of is
// noted, for nobody has asked for it by name.
func (t *tuning) readOwn(ctx context.Context) {
	if folder := t.dir.Path(eventsFolder); !holds(folder, ".jsonl") {
		t.note("no event logs in " + folder)
	} else if err := t.readEvents(ctx, []string{folder}); err != nil && ctx.Err() == nil {
		t.note("no event logs could be read: " + err.Error())
	}
	if folder := t.dir.Path("learned"); !holds(folder, "") {
		t.note("nothing that was learned in " + folder)
	}
	for _, k := range t.upstreams {
		if err := t.readLearned(k); err != nil {
			t.warn(fmt.Sprintf("what was learned of upstream %q: %v", k.name(), err))
		}
	}
}

// holds reports whether a folder has a file whose name has that part.
func holds(folder, part string) bool {
	files, _ := os.ReadDir(folder) // as good as none, if it cannot be read
	return slices.ContainsFunc(files, func(f os.DirEntry) bool { return strings.Contains(f.Name(), part) })
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// errOnlyRead ends an update that is none.
var errOnlyRead = errors.New("only read")

// readLearned reads what was learned of an upstream, where there is such a thing.
func (t *tuning) readLearned(k lastKnown) error {
	if !exists(t.dir.Path("learned")) {
		return nil
	}
	err := k.Learned(func(state []byte) ([]byte, error) {
		if len(state) > 0 {
			t.miner.Learned(k.name(), state)
		}
		return nil, errOnlyRead
	})
	if errors.Is(err, errOnlyRead) {
		return nil
	}
	return err
}

// readEvents reads event logs.
func (t *tuning) readEvents(ctx context.Context, names []string) error {
	s := tune.Source{Name: several(names)}
	sessions := make(map[string]struct{})
	lines := 0
	err := record.Read(ctx, names, func(e *record.Event) {
		if lines++; lines%4096 == 0 {
			t.progress("%d events", lines)
		}
		if e.Kind == record.Call {
			s.Calls++
			if len(sessions) < mostTurns {
				sessions[e.Session] = struct{}{}
			}
			widen(&s, e.At.UnixMilli())
		}
		t.miner.Event(e)
	}, func(p record.Problem) { t.bad(p.File, p.Line, p.Text) })
	s.Sessions = len(sessions)
	t.sources = append(t.sources, s)
	return err
}

// several is what many names are called.
func several(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return fmt.Sprintf("%s and %d more", names[0], len(names)-1)
}

// widen makes a moment part of a source's period.
func widen(s *tune.Source, ms int64) {
	s.To = max(s.To, ms)
	if s.From == 0 || ms < s.From {
		s.From = ms
	}
}

// readTrace reads recorded calls.
func (t *tuning) readTrace(name string) error {
	t.progress("%s", name)
	calls, err := replay.ReadFile(name)
	if err != nil {
		t.warn(err.Error())
		return err
	}
	s := tune.Source{Name: name, Calls: len(calls), Sessions: len(replay.Sessions(calls))}
	for i := range calls {
		for _, at := range []*int64{calls[i].Start, calls[i].End} {
			if at != nil {
				widen(&s, *at)
			}
		}
	}
	t.miner.Trace(name, calls)
	t.sources = append(t.sources, s)
	return nil
}

// readLogs reads a client's own logs.
func (t *tuning) readLogs(ctx context.Context, dir string) error {
	l := tune.ClaudeLogs{
		Bare: t.bare, Each: t.miner.Trace, Bad: t.bad,
		Reading: func(file string) { t.progress("%s", file) },
	}
	for _, k := range t.upstreams {
		l.Upstreams = append(l.Upstreams, k.name())
	}
	found, err := l.Read(ctx, dir)
	if err != nil {
		t.warn(err.Error())
		return err
	}
	for _, note := range found.Notes() {
		t.note(dir + ": " + note)
	}
	t.sources = append(t.sources, tune.Source{Name: dir, Calls: found.Calls, Sessions: found.Sessions, From: found.From, To: found.To})
	return nil
}

// bare is the upstream whose tool bears a name by itself; "" if that is not known.
func (t *tuning) bare(tool string) string {
	var owners []string
	for _, k := range t.upstreams {
		if k.has(tool) || len(t.upstreams) == 1 {
			owners = append(owners, k.name())
		}
	}
	if len(owners) != 1 {
		return ""
	}
	return owners[0]
}
