package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one mistake or remark, and where in the file it stands.
type Problem struct {
	File    string // as it was named when loading
	Line    int    // from 1
	Column  int    // from 1, in bytes; 0 except for syntax errors
	Key     string // full key as in [Config.Positions]; "" for syntax errors
	Message string // what was expected, what stands there
}

// String is file:line: key: message, or file:line:column: message.
func (p Problem) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:", p.File, p.Line)
	if p.Column > 0 {
		fmt.Fprintf(&b, "%d:", p.Column)
	}
	if p.Key != "" {
		fmt.Fprintf(&b, " %s:", p.Key)
	}
	return b.String() + " " + p.Message
}

// Error is everything that is wrong with a file, by line. There is at least one.
type Error struct {
	Problems []Problem

	read   *Config // what could be read; nil if the file cannot be parsed
	path   string
	digest [32]byte
}

// Error is one problem per line of text.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// sortProblems orders by line, then by key and words, so that one file always
// gives one text although tables are decoded into maps.
func sortProblems(ps []Problem) {
	slices.SortFunc(ps, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Key, b.Key),
			cmp.Compare(a.Message, b.Message))
	})
}
