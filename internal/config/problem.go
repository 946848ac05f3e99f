package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is an error or a warning, with its position in the file.
type Problem struct {
	File    string // as passed to Load or Parse, or the path of tuned.toml
	Line    int    // from 1
	Column  int    // from 1, in bytes; 0 except for syntax errors
	Key     string // full key as in [Config.Positions]; "" for syntax errors
	Message string // the expected and the actual value
}

// String returns "file:line: key: message", or "file:line:column: message" for a syntax error.
func (p Problem) String() string {
	at := fmt.Sprintf("%s:%d:", p.File, p.Line)
	if p.Column > 0 {
		at += fmt.Sprintf("%d:", p.Column)
	}
	if p.Key != "" {
		at += " " + p.Key + ":"
	}
	return at + " " + p.Message
}

// Error holds all problems of a file and the tuned.toml beside it, at least one, sorted by line.
type Error struct {
	Problems []Problem

	partial *Config // the values that could be read; nil after a syntax error or for an unknown schema_version
	path    string
	digest  [32]byte
}

// Error returns the problems, one per line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Summary returns the first three problems, one per line, and the number of the others.
func (e *Error) Summary() string {
	const shown = 3
	text := (&Error{Problems: e.Problems[:min(shown, len(e.Problems))]}).Error()
	if more := len(e.Problems) - shown; more > 0 {
		text += fmt.Sprintf("\nand %d more", more)
	}
	return text
}

// sorted sorts ps in place and returns it. The order is deterministic, although the file's tables
// are decoded into maps.
func sorted(ps []Problem) []Problem {
	slices.SortFunc(ps, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Key, b.Key),
			cmp.Compare(a.Message, b.Message))
	})
	return ps
}

// findings collects the problems and warnings of one file.
type findings struct {
	file     string
	pos      positions
	problems []Problem
	warnings []Problem
}

func (f *findings) problem(key, format string, args ...any) {
	f.problems = append(f.problems, f.pos.problem(f.file, key, format, args...))
}

func (f *findings) warn(key, format string, args ...any) {
	f.warnings = append(f.warnings, f.pos.problem(f.file, key, format, args...))
}

// failed reports whether the key already has a problem, so that a check does not add another.
func (f *findings) failed(key string) bool {
	return slices.ContainsFunc(f.problems, func(p Problem) bool { return p.Key == key })
}
