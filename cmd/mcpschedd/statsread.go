package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"mcpschedd/internal/config"
	"mcpschedd/internal/record"
)

// reading tallies events while reading them.
type reading struct {
	tally *record.Tally
	since time.Time // earlier events are not counted
	tail  *record.Tail

	events      int64
	first, last time.Time
	killed      []string // notes on processes that ended without an end event

	reporter
}

const mostRows = 1 << 14 // most sessions with a row of their own

// newReading returns an empty reading. With io.Discard as stderr, problems are only counted.
func newReading(since time.Time, stderr io.Writer) *reading {
	return &reading{tally: record.NewTally(mostRows), since: since, reporter: newReporter(stderr)}
}

// add counts an event.
func (r *reading) add(e *record.Event) {
	if e.At.Before(r.since) && e.Kind != record.Begin && e.Kind != record.Session && e.Kind != record.End {
		return
	}
	if e.Killed {
		r.killed = append(r.killed, fmt.Sprintf("Process %s did not end properly (killed?); its last event is from %s.", e.Process, formatTime(e.At)))
	} else {
		r.events++
	}
	r.progress("%d events", r.events)
	if !e.At.IsZero() && (r.first.IsZero() || e.At.Before(r.first)) {
		r.first = e.At
	}
	if e.At.After(r.last) {
		r.last = e.At
	}
	r.tally.Add(e)
}

// bad reports an unreadable line.
func (r *reading) bad(p record.Problem) {
	r.problem(p)
	r.tally.Problem(p.Error())
}

// notes returns notes on killed processes and unreadable lines.
func (r *reading) notes() (notes []string) {
	switch n := len(r.killed); {
	case n > 3:
		notes = append(notes, r.killed[n-1], fmt.Sprintf("And %d more.", n-1))
	default:
		notes = append(notes, r.killed...)
	}
	switch {
	case r.problems == 1:
		notes = append(notes, "1 line of the event log could not be read.")
	case r.problems > 1:
		notes = append(notes, fmt.Sprintf("%d lines of the event log could not be read.", r.problems))
	}
	return notes
}

// files reads event logs. It is an error if they have no events.
func (r *reading) files(ctx context.Context, names []string) (*snapshot, error) {
	err := record.Read(ctx, names, r.add, r.bad)
	if ctx.Err() == nil {
		r.rest()
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, err
	case r.events == 0: // the reasons were printed
		return nil, fmt.Errorf("%s: no events", strings.Join(names, ", "))
	case err != nil:
		return nil, err
	}
	s := r.snapshot(r.last)
	s.period = fmt.Sprintf("in %d events, %s to %s", r.events, formatTime(r.first), formatTime(r.last))
	return s, nil
}

// snapshot returns the data to print now.
func (r *reading) snapshot(now time.Time) *snapshot {
	return &snapshot{
		stats: r.tally.Stats(now), notes: r.notes(),
		rows: func() []record.SessionRow {
			rows := r.tally.Rows()
			if left := r.tally.Stats(now).Sessions - len(rows); left > 0 {
				r.warn("the %d sessions that ended first are left out; read fewer files to see them", left)
			}
			return rows
		},
	}
}

// eventsDir is where this user's processes write their events and states.
type eventsDir struct {
	path   string
	off    bool // events are disabled
	config *config.Config
}

func eventsDirOf(configFile string) (eventsDir, error) {
	c, dir, err := loadWithState(configFile)
	if err != nil {
		return eventsDir{}, err
	}
	return eventsDir{path: dir.Path(eventsFolder), off: c.Telemetry.Events == "off", config: c}, nil
}

// eventsOff is the note if events are disabled.
const eventsOff = `[telemetry] events is "off", so savings are not recorded. Each process has its figures in the resource mcpschedd://stats; mcpschedd stats --http URL shows those of a process that serves HTTP.`

// follow reads the events since the last call, and the states of the processes.
func (r *reading) follow(d eventsDir) (*snapshot, error) {
	if r.tail == nil {
		r.tail = record.NewTail(d.path, r.since)
	}
	if err := r.tail.Poll(r.add, r.bad); err != nil {
		return nil, fmt.Errorf("%w: cannot read the event logs and the state of running processes", err)
	}
	s := r.snapshot(time.Now())
	s.period = "today"
	s.stats.SetRunning(record.ReadStatuses(d.path))
	idle := s.stats.Totals.Calls+s.stats.Totals.Plans == 0
	if s.silent = idle && d.off; d.off {
		s.notes = append(s.notes, eventsOff)
	}
	if len(s.stats.Running) > 0 {
		return s, nil
	}
	running := "mcpschedd is not running."
	if _, runs := daemonOf(d.config); runs {
		running = "The daemon is running, without clients."
	}
	if s.notes = append(s.notes, running); !idle {
		return s, nil
	}
	switch {
	case holds(d.path, ".jsonl"):
		s.notes = append(s.notes, "To see other days: mcpschedd stats "+d.path)
	case len(d.config.Upstreams) > 0:
		s.notes = append(s.notes, "A client starts mcpschedd when the client itself starts; mcpschedd connect must be among its servers.")
	default:
		s.notes = append(s.notes, "To begin: mcpschedd import --all --write replaces the servers of your MCP clients with mcpschedd; mcpschedd demo shows what that saves.")
	}
	return s, nil
}
