package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"

	"mcpschedd/internal/record"
	"mcpschedd/internal/replay"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/tune"
)

// read reads the named files, or the proxy's own event logs, and learned state. Unreadable input is
// reported and skipped; it is an error if nothing is left.
func (t *tuning) read(ctx context.Context, f *tuneFlags) error {
	var failed error
	var logs []string
	for _, name := range f.files {
		if replay.IsTrace(name) {
			failed = cmp.Or(failed, t.readTrace(name))
		} else {
			logs = append(logs, name)
		}
	}
	if folder := t.dir.Path(eventsFolder); len(f.files)+len(f.logs) == 0 {
		t.adviseRecording(holds(folder, ".jsonl"))
		if holds(folder, ".jsonl") {
			logs = append(logs, folder)
		}
	}
	if len(logs) > 0 {
		failed = cmp.Or(failed, t.readEvents(ctx, logs))
	}
	for _, dir := range f.logs {
		failed = cmp.Or(failed, t.readLogs(ctx, dir))
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case failed != nil && t.calls == 0:
		return failed
	}
	for _, k := range t.upstreams {
		if err := t.readLearned(k); err != nil {
			t.warn("learned state of upstream %q: %v", k.name(), err)
		}
	}
	return nil
}

// adviseRecording prints which settings to enable so that there is something to read.
func (t *tuning) adviseRecording(recorded bool) {
	if t.config.Telemetry.Events != "on" {
		t.note(`nothing is recorded; set [telemetry] events = "on", and use the proxy for a while`)
	} else if !recorded {
		t.note("no event logs yet in %s; use the proxy for a while, or pass --claude-logs ~/.claude/projects", t.dir.Path(eventsFolder))
	}
	if !t.config.Enrichment.Learn || t.config.Enrichment.Mode == "off" {
		t.note(`no follow-ups are learned; set [enrichment] learn = true, and mode = "on" or "shadow"`)
	}
}

// holds reports whether a directory has a file whose name contains part.
func holds(folder, part string) bool {
	files, _ := os.ReadDir(folder) // an unreadable directory counts as empty
	return slices.ContainsFunc(files, func(f os.DirEntry) bool { return strings.Contains(f.Name(), part) })
}

// errOnlyRead ends an update that only reads.
var errOnlyRead = errors.New("only read")

// readLearned reads the learned state of an upstream, if any.
func (t *tuning) readLearned(k lastKnown) error {
	if _, err := os.Stat(t.dir.Path("learned")); err != nil {
		return nil // opening the state would create the directory
	}
	err := k.Learned(func(learned speculate.State) (speculate.State, error) {
		if len(learned.Server) == 0 {
			return learned, errOnlyRead
		}
		return learned, cmp.Or(t.tuner.AddLearned(k.name(), learned), errOnlyRead)
	})
	if errors.Is(err, errOnlyRead) {
		return nil
	}
	return err
}

// readEvents reads event logs.
func (t *tuning) readEvents(ctx context.Context, names []string) error {
	return record.Read(ctx, names, func(e *record.Event) {
		if e.Kind == record.Call {
			t.calls++
		}
		t.tuner.AddEvent(e)
	}, t.problem)
}

// readTrace reads recorded calls.
func (t *tuning) readTrace(name string) error {
	calls, err := replay.ReadFile(name)
	if err != nil {
		t.warn("%v", err)
		return err
	}
	t.calls += len(calls)
	t.tuner.AddCalls(calls)
	return nil
}

// readLogs reads Claude Code's session logs.
func (t *tuning) readLogs(ctx context.Context, dir string) error {
	l := tune.ClaudeLogs{
		UpstreamOf: t.bare, Bad: func(file string, line int, why string) { t.problem(record.Problem{File: file, Line: line, Text: why}) },
		Each: func(calls []replay.Call) {
			t.calls += len(calls)
			t.tuner.AddCalls(calls)
		},
	}
	for _, k := range t.upstreams {
		l.Upstreams = append(l.Upstreams, k.name())
	}
	unknown, err := l.Read(ctx, dir)
	if err != nil {
		t.warn("%v", err)
		return err
	}
	for _, server := range slices.Sorted(maps.Keys(unknown)) {
		t.note("%s: left out %d calls of server %q, which is not an upstream here", dir, unknown[server], server)
	}
	return nil
}

// bare returns the upstream of a tool listed under its bare name; "" if it is ambiguous.
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
