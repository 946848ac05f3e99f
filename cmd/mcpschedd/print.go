package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"
	"mvdan.cc/sh/v3/syntax"

	"mcpschedd/internal/record"
)

// output is the stdout of a command. It keeps the first error, with which the command fails then.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	o.err = cmp.Or(o.err, err)
	return n, err
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	if o, ok := w.(*output); ok {
		w = o.Writer
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// printJSON prints a value as indented JSON.
func printJSON(w io.Writer, v any) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(v)
}

// pasted returns a command line to paste into a shell.
func pasted(words []string) string {
	line := slices.Clone(words)
	for i, word := range words {
		if quoted, err := syntax.Quote(word, syntax.LangBash); err == nil { // an argument has no NUL
			line[i] = quoted
		}
	}
	return strings.Join(line, " ")
}

// sayEach prints each line behind a word.
func sayEach(w io.Writer, word string, lines []string) {
	for _, line := range lines {
		say(w, "%s: %s", word, line)
	}
}

// say prints a message line to w, without control characters.
func say(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "mcpschedd: %s\n", record.Printable(fmt.Sprintf(format, args...)))
}
