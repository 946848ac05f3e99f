package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

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
	line := make([]string, len(words))
	for i, word := range words {
		if word == "" || strings.ContainsAny(word, " \t\n\"'`$&;|<>()*?[]{}~#!") {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		line[i] = word
	}
	return strings.Join(line, " ")
}

// say prints a message line to w, without control characters.
func say(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "mcpschedd: %s\n", record.Printable(fmt.Sprintf(format, args...)))
}
