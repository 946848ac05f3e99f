package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"mcpschedd/internal/record"
)

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

// say prints a message line to w, without control characters.
func say(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "mcpschedd: %s\n", record.Printable(fmt.Sprintf(format, args...)))
}
