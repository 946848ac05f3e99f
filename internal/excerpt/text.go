package excerpt

import (
	"strings"
	"unicode/utf8"
)

// Text is what of a text fits from a byte on, and where it goes on; next is -1 if
// nothing is left. It divides no character, and breaks behind the end of a line if
// one is in its last quarter. It is never empty before the end: where not even one
// character fits, it is that one.
//
// An offset within a character is that of its beginning; one out of range, the
// nearest that is not.
func Text(text string, offset int, l Limit) (part string, next int) {
	offset = start(text, offset)
	rest := text[offset:]
	l.fit(utf8.RuneCountInString(rest), func(room int) []byte {
		part = rest[:chars(rest, room)]
		return []byte(part)
	})
	switch {
	case len(part) == len(rest):
		return part, -1
	case part == "":
		_, n := utf8.DecodeRuneInString(rest)
		part = rest[:n]
	default:
		if i := strings.LastIndexByte(part, '\n'); i >= len(part)*3/4 {
			part = part[:i+1]
		}
	}
	if offset += len(part); offset == len(text) {
		return part, -1
	}
	return part, offset
}

// Shorten is a text of so many characters at most, which ends in "…" where that is
// not all of it.
func Shorten(text string, most int) string {
	if n := chars(text, most); n < len(text) {
		return text[:chars(text, most-1)] + "…"
	}
	return text
}

// chars is how many bytes the first characters of a text have.
func chars(text string, n int) int {
	for i := range text {
		if n--; n < 0 {
			return i
		}
	}
	return len(text)
}

// start is the beginning of the character that an offset is in.
func start(text string, offset int) int {
	offset = min(max(offset, 0), len(text))
	for i := offset - 1; i >= max(offset-utf8.UTFMax+1, 0); i-- {
		if _, n := utf8.DecodeRuneInString(text[i:]); i+n > offset {
			return i
		}
	}
	return offset
}
