package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"mcpschedd/internal/record"
)

// printJSON prints a value as programs read it, indented.
func printJSON(w io.Writer, v any) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(v)
}

// say prints a line about the work on stderr, without control characters of a terminal.
func say(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "mcpschedd: %s\n", record.Printable(fmt.Sprintf(format, args...)))
}

const (
	progressEvery = 2 * time.Second // how often a long run says how far it is
	toldProblems  = 10              // how many are told one by one
)

// teller says how a long run goes.
type teller struct {
	stderr   io.Writer
	next     time.Time // when to say how far it is
	problems int
}

func newTeller(stderr io.Writer) teller {
	return teller{stderr: stderr, next: time.Now().Add(progressEvery)}
}

func (t *teller) note(format string, args ...any) { say(t.stderr, "note: "+format, args...) }

func (t *teller) warn(format string, args ...any) { say(t.stderr, "warning: "+format, args...) }

// progress says now and then how far the run is.
func (t *teller) progress(format string, args ...any) {
	if now := time.Now(); now.After(t.next) {
		t.next = now.Add(progressEvery)
		say(t.stderr, format, args...)
	}
}

// problem tells what could not be read, if not much was told before.
func (t *teller) problem(p record.Problem) {
	if t.problems++; t.problems <= toldProblems {
		t.warn("%s", p.Error())
	}
}

// rest tells how many problems were not told.
func (t *teller) rest() {
	if more := t.problems - toldProblems; more > 0 {
		t.warn("and %d more", more)
	}
}
