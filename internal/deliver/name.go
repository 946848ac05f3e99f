package deliver

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"mcpschedd/internal/jsonrpc"
)

const (
	maxName = 80      // bytes of a call's name
	maxRead = 4 << 10 // bytes of arguments that are looked at
)

// Name writes a call in few words for the model: the tool, and in parentheses the
// value of its only argument, or name=value for each of several. It has at most 80
// bytes and one line; of longer arguments the beginning and the end are left.
//
// Values come from what servers said, so a name must not be able to end the
// sentence it stands in, nor to hide anything: brackets, quotes, backticks, HTML's &,
// controls, marks of direction and whatever else is invisible are left out.
func Name(tool string, arguments []byte) string { return name(tool, arguments, maxName) }

func name(tool string, arguments []byte, most int) string {
	tool = harmless(tool, most/2)
	var parts []string
	all := jsonrpc.NewIndex(arguments)
	for m := range all.All() {
		part := text(m.Value)
		if all.Len() > 1 {
			part = string(m.Name) + "=" + part
		}
		parts = append(parts, part)
	}
	return tool + "(" + harmless(strings.Join(parts, ", "), most-len(tool)-len("()")) + ")"
}

// text is what a value says: a string without its quotes, anything else as it is
// written.
func text(value []byte) string {
	if s, ok := jsonrpc.String(value); ok {
		return s
	}
	return string(value)
}

// harmless leaves of a server's text only what is neither markup nor easily
// overlooked, in one line of at most the given number of bytes.
func harmless(s string, most int) string {
	var b strings.Builder
	gap := false
	for _, r := range s[:min(len(s), maxRead)] {
		switch {
		case unicode.IsSpace(r):
			gap = b.Len() > 0
			continue
		case !shown(r):
			continue
		case gap:
			b.WriteByte(' ')
			gap = false
		}
		b.WriteRune(r)
	}
	return middleCut(b.String(), most)
}

// shown reports whether a character may stand in a name.
func shown(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(`_-./:,;=+%@?~^$*#\\`, r)
	case unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
		return false // letters and marks, but not to be seen
	}
	return unicode.In(r, unicode.L, unicode.M, unicode.N) || r == '…'
}

// middleCut takes the middle out of what is longer than most bytes: paths and
// addresses begin alike.
func middleCut(s string, most int) string {
	const gap = "…"
	if len(s) <= most {
		return s
	}
	keep := max(most-len(gap), 0)
	head, tail := s[:keep/2], s[len(s)-keep/2:]
	return strings.ToValidUTF8(head, "") + gap + strings.ToValidUTF8(tail, "")
}
