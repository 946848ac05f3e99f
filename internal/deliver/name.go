package deliver

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"mcpschedd/internal/jsonrpc"
)

const maxName = 240 // maximum bytes of a call's name

// Name describes a call for the model in one line of at most 240 bytes: the tool, and in
// parentheses the value of its only argument, or name=value for each of several. The middle of
// longer arguments is elided.
//
// Argument values come from servers. A name must not be able to end the sentence around it or to
// hide text, so brackets, quotes, backticks, '&' of HTML, control and bidirectional characters
// and other invisible characters are removed.
func Name(tool string, arguments []byte) string {
	tool = sanitize(tool, maxName/2)
	var parts []string
	all := jsonrpc.NewIndex(arguments)
	for m := range all.All() {
		part := text(m.Value)
		if all.Len() > 1 {
			part = string(m.Name) + "=" + part
		}
		parts = append(parts, part)
	}
	return tool + "(" + sanitize(strings.Join(parts, ", "), maxName-len(tool)-len("()")) + ")"
}

// text returns a string without its quotes, and any other value as written.
func text(value []byte) string {
	if s, ok := jsonrpc.String(value); ok {
		return s
	}
	return string(value)
}

// sanitize removes markup and invisible characters from a server's text and returns one line of
// at most the given number of bytes. It elides the middle: paths and URLs often share a prefix.
func sanitize(s string, limit int) string {
	const gap = "…"
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !allowed(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if s = strings.Join(strings.Fields(s), " "); len(s) <= limit {
		return s
	}
	half := (limit - len(gap)) / 2
	return strings.ToValidUTF8(s[:half], "") + gap + strings.ToValidUTF8(s[len(s)-half:], "")
}

// allowed reports whether a name may contain the character.
func allowed(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(`_-./:,;=+%@?~^$*#\`, r)
	case unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
		return false // letters and marks without a visible glyph
	}
	return unicode.In(r, unicode.L, unicode.M, unicode.N) || r == '…'
}
