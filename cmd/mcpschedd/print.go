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
