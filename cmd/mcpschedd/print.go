package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"mcpschedd/internal/record"
)

// printJSON prints a value as indented JSON.
func printJSON(w io.Writer, v any) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(v)
}

// say prints a message line to w, without control characters.
func say(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "mcpschedd: %s\n", record.Printable(fmt.Sprintf(format, args...)))
}

const (
	progressEvery = 2 * time.Second // interval of progress lines
	maxProblems   = 10              // problems printed individually
)

// reporter prints the progress and the problems of a long run.
type reporter struct {
	stderr   io.Writer
	next     time.Time // time of the next progress line
	problems int
}

func newReporter(stderr io.Writer) reporter {
	return reporter{stderr: stderr, next: time.Now().Add(progressEvery)}
}

func (t *reporter) note(format string, args ...any) { say(t.stderr, "note: "+format, args...) }

func (t *reporter) warn(format string, args ...any) { say(t.stderr, "warning: "+format, args...) }

// progress prints a line if the last one is at least progressEvery ago.
func (t *reporter) progress(format string, args ...any) {
	if now := time.Now(); now.After(t.next) {
		t.next = now.Add(progressEvery)
		say(t.stderr, format, args...)
	}
}

// problem counts a problem, and prints it if it is one of the first maxProblems.
func (t *reporter) problem(p record.Problem) {
	if t.problems++; t.problems <= maxProblems {
		t.warn("%s", p.Error())
	}
}

// rest prints the number of problems that were not printed.
func (t *reporter) rest() {
	if more := t.problems - maxProblems; more > 0 {
		t.warn("and %d more", more)
	}
}
