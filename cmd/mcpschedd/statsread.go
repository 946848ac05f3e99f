package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"mcpschedd/internal/record"
)

// reading adds events up as they are read.
type reading struct {
	tally *record.Tally
	rows  bool // a line for each session is wanted

	events      int64
	first, last time.Time
	lives       lives
	killed      []killed // so far

	stderr   io.Writer
	problems int
	problem  string    // the last
	next     time.Time // to say how far it is
}

// Of a reading.
const (
	warnings     = 50      // that are printed
	askTheClock  = 1 << 12 // events
	keptSessions = 1024    // where no line is printed for each
	mostRows     = 1 << 14 // where one is
)

// newReading reads for f.
func newReading(f *statsFlags, stderr io.Writer) *reading {
	kept := keptSessions
	if f.csv {
		kept = mostRows
	}
	return &reading{tally: record.New(kept, nil), rows: f.csv, stderr: stderr, lives: make(lives), next: time.Now().Add(progressEvery)}
}

// read reads files. What cannot be read is said and passed over; nothing at all is an
// error.
func (r *reading) read(ctx context.Context, names []string) error {
	err := record.Read(ctx, names, r.add, r.bad)
	if ctx.Err() == nil {
		r.more()
	}
	return err
}

// add takes an event.
func (r *reading) add(e *record.Event) {
	r.events++
	if r.events%askTheClock == 0 {
		r.progress()
	}
	if !e.At.IsZero() {
		if r.first.IsZero() || e.At.Before(r.first) {
			r.first = e.At
		}
		if e.At.After(r.last) {
			r.last = e.At
		}
	}
	r.lives.saw(e)
	r.tally.Add(e)
}

// over ends, in the figures, what was killed. In rows such sessions have no end.
func (r *reading) over(runs map[string]bool) {
	dead := r.lives.killed(runs)
	for i := range dead {
		if !r.rows {
			r.tally.Add(dead[i].end())
		}
	}
	r.killed = append(dead, r.killed...)
}

// bad says what is wrong with a line, if not much was before.
func (r *reading) bad(p record.Problem) {
	r.problems++
	r.problem = p.Error()
	r.tally.Problem(r.problem)
	if r.stderr != nil && r.problems <= warnings {
		fmt.Fprintf(r.stderr, "mcpschedd: warning: %s\n", plain(r.problem))
	}
}

// trouble says for people that there are problems.
func (r *reading) trouble() string {
	if r.problems == 1 {
		return "1 problem with what was recorded"
	}
	return fmt.Sprintf("%d problems with what was recorded", r.problems)
}

// more says how many problems were not printed.
func (r *reading) more() {
	if n := r.problems - warnings; n > 0 && r.stderr != nil {
		fmt.Fprintf(r.stderr, "mcpschedd: warning: and %d more\n", n)
	}
}

func (r *reading) progress() {
	if now := time.Now(); now.After(r.next) && r.stderr != nil {
		r.next = now.Add(progressEvery)
		fmt.Fprintf(r.stderr, "mcpschedd: %d events\n", r.events)
	}
}

// end prints what was read in the way that f asks for; of says what it is of, and now
// is when it was so.
func (r *reading) end(f *statsFlags, stdout io.Writer, now time.Time, of []string) error {
	if f.csv {
		rows := r.tally.Rows()
		if left := r.tally.Stats(now).Sessions - len(rows); left > 0 {
			fmt.Fprintf(r.stderr, "mcpschedd: warning: %d sessions are left out, those that ended first; --events with fewer files has them\n", left)
		}
		return record.WriteCSV(stdout, rows)
	}
	return f.print(stdout, &seen{of: of, stats: r.tally.Stats(now)})
}

// recorded shows what recorded events say.
func (f *statsFlags) recorded(ctx context.Context, stdout, stderr io.Writer) error {
	r := newReading(f, stderr)
	if err := r.files(ctx, f.events); err != nil {
		return err
	}
	of := []string{fmt.Sprintf("%d events, %s to %s", r.events, moment(r.first), moment(r.last))}
	if r.problems > 0 {
		of[0] += "; " + r.trouble()
	}
	if text := unended(r.killed); text != "" {
		of = append(of, text)
	}
	return r.end(f, stdout, r.last, of)
}

// files reads all of what is recorded in files. No event at all is an error.
func (r *reading) files(ctx context.Context, names []string) error {
	runs := running(names) // before their lines are read: there are all of those that do not
	err := r.read(ctx, names)
	if err != nil && ctx.Err() != nil {
		return err
	}
	if r.events == 0 { // why, has been said
		return fmt.Errorf("%s: no events in it", strings.Join(names, ", "))
	}
	if err != nil {
		return err
	}
	r.over(runs)
	return nil
}

// plain is a text without what a terminal may obey.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}
