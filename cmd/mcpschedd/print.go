package main

import (
	"encoding/json"
	"fmt"
	"io"

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

// maxProblems is the number of problems that are printed.
const maxProblems = 10

// reporter prints the problems of a long run.
type reporter struct {
	stderr   io.Writer
	problems int
}

func (t *reporter) note(format string, args ...any) { say(t.stderr, "note: "+format, args...) }

func (t *reporter) warn(format string, args ...any) { say(t.stderr, "warning: "+format, args...) }

// problem counts a problem, and prints it if it is one of the first.
func (t *reporter) problem(p record.Problem) {
	switch t.problems++; {
	case t.problems <= maxProblems:
		t.warn("%s", p.Error())
	case t.problems == maxProblems+1:
		t.warn("further problems are not printed")
	}
}
