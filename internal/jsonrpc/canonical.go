package jsonrpc

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// canonicalDepth is how deep objects and arrays may nest in a canonical text.
const canonicalDepth = 64

// AppendCanonical appends a JSON value in the one way in which all texts of the
// same value are written: members sorted by their names, no white space, strings
// with the fewest escapes. Numbers stay as written: to read 2^53 and 2^53+1 is to
// take them for the same, and nobody knows what a server takes for the same.
//
// It is false, and dst as it was, for what two servers may read as two values: a
// name that is twice in one object, be it in other letters (many take those for
// the same, and the last one counts), half a surrogate pair; and for what is no
// valid JSON or nested deeper than 64.
func AppendCanonical(dst, value []byte) ([]byte, bool) {
	out, i := canonicalValue(slices.Grow(dst, len(value)), value, space(value, 0), 1)
	if i < 0 || space(value, i) != len(value) {
		return dst, false
	}
	return out, true
}

// The canonical functions append what begins at b[i] and return the place behind
// it, or a negative one if it has no canonical text.

func canonicalValue(dst, b []byte, i, depth int) ([]byte, int) {
	if i >= len(b) {
		return dst, ^i
	}
	switch b[i] {
	case '"':
		return canonicalString(dst, b, i)
	case '{':
		return canonicalObject(dst, b, i, depth)
	case '[':
		return canonicalArray(dst, b, i, depth)
	}
	end := scanValue(b, i, depth)
	if end < 0 {
		return dst, end
	}
	return append(dst, b[i:end]...), end
}

func canonicalArray(dst, b []byte, i, depth int) ([]byte, int) {
	if depth > canonicalDepth {
		return dst, ^i
	}
	dst = append(dst, '[')
	i = space(b, i+1)
	if i < len(b) && b[i] == ']' {
		return append(dst, ']'), i + 1
	}
	for {
		if dst, i = canonicalValue(dst, b, i, depth+1); i < 0 {
			return dst, i
		}
		i = space(b, i)
		if i >= len(b) || b[i] != ',' && b[i] != ']' {
			return dst, ^i
		}
		dst = append(dst, b[i])
		if b[i] == ']' {
			return dst, i + 1
		}
		i = space(b, i+1)
	}
}

// written is where a member stands in a canonical text.
type written struct {
	name, nameEnd int // between the quotes
	end           int // of the value; the member begins one before name
}

func canonicalObject(dst, b []byte, i, depth int) ([]byte, int) {
	if depth > canonicalDepth {
		return dst, ^i
	}
	dst = append(dst, '{')
	i = space(b, i+1)
	if i < len(b) && b[i] == '}' {
		return append(dst, '}'), i + 1
	}
	var few [16]written
	members, plain := few[:0], true // plain: in order and in lower case, and so all different
	for {
		var m written
		if dst, m, i = canonicalMember(dst, b, i, depth); i < 0 {
			return dst, i
		}
		plain = plain && lowerCase(dst[m.name:m.nameEnd])
		if n := len(members); n > 0 && plain {
			plain = bytes.Compare(members[n-1].of(dst), m.of(dst)) < 0
		}
		members = append(members, m)
		i = space(b, i)
		if i >= len(b) || b[i] != ',' && b[i] != '}' {
			return dst, ^i
		}
		if b[i] == '}' {
			break
		}
		dst = append(dst, ',')
		i = space(b, i+1)
	}
	if !plain {
		if !distinct(dst, members) {
			return dst, ^i
		}
		dst = sortMembers(dst, members)
	}
	return append(dst, '}'), i + 1
}

func canonicalMember(dst, b []byte, i, depth int) ([]byte, written, int) {
	m := written{name: len(dst) + 1}
	if i >= len(b) || b[i] != '"' {
		return dst, m, ^i
	}
	if dst, i = canonicalString(dst, b, i); i < 0 {
		return dst, m, i
	}
	m.nameEnd = len(dst) - 1
	if i = scanColon(b, i); i < 0 {
		return dst, m, i
	}
	dst, i = canonicalValue(append(dst, ':'), b, i, depth+1)
	m.end = len(dst)
	return dst, m, i
}

// distinct reports whether no two members have the same name, whatever the case
// of its letters. It leaves them in any order.
func distinct(text []byte, members []written) bool {
	slices.SortFunc(members, func(a, b written) int { return compareFolded(a.of(text), b.of(text)) })
	for i, m := range members {
		if i > 0 && compareFolded(members[i-1].of(text), m.of(text)) == 0 {
			return false
		}
	}
	return true
}

// sortMembers brings the members at the end of dst into order.
func sortMembers(dst []byte, members []written) []byte {
	first, end := len(dst), len(dst)
	slices.SortFunc(members, func(a, b written) int { return bytes.Compare(a.of(dst), b.of(dst)) })
	for i, m := range members {
		if i > 0 {
			dst = append(dst, ',')
		}
		first = min(first, m.name-1)
		dst = append(dst, dst[m.name-1:m.end]...)
	}
	copy(dst[first:], dst[end:])
	return dst[:end] // as long as before: the same members and commas
}

// of returns what the name of a member of text stands for.
func (m written) of(text []byte) []byte {
	name := text[m.name:m.nameEnd]
	if escaped(name) {
		return appendUnescaped(nil, name)
	}
	return name
}

// lowerCase reports whether a name has no letters but small ones of ASCII.
func lowerCase(name []byte) bool {
	for _, c := range name {
		if 'A' <= c && c <= 'Z' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// compareFolded compares two names as if letters had no case.
func compareFolded(a, b []byte) int {
	for len(a) > 0 && len(b) > 0 {
		r, n := utf8.DecodeRune(a)
		s, m := utf8.DecodeRune(b)
		if r, s = folded(r), folded(s); r != s {
			return cmp.Compare(r, s)
		}
		a, b = a[n:], b[m:]
	}
	return cmp.Compare(len(a), len(b))
}

// folded returns the one of all cases of a letter that stands for them.
func folded(r rune) rune {
	switch {
	case 'a' <= r && r <= 'z':
		return r - 'a' + 'A'
	case r < utf8.RuneSelf:
		return r
	}
	for {
		next := unicode.SimpleFold(r)
		if next <= r {
			return next // round again, at the least of them
		}
		r = next
	}
}

func canonicalString(dst, b []byte, i int) ([]byte, int) {
	end := scanString(b, i)
	if end < 0 {
		return dst, end
	}
	s := b[i+1 : end-1]
	if !escaped(s) {
		return append(dst, b[i:end]...), end
	}
	dst = append(dst, '"')
	for {
		n := bytes.IndexByte(s, '\\')
		if n < 0 {
			return append(append(dst, s...), '"'), end
		}
		dst = append(dst, s[:n]...)
		c := s[n+1]
		s = s[n+2:]
		switch c {
		case '/':
			dst = append(dst, '/')
		case 'u':
			r, rest := unescapeRune(s)
			if r == utf8.RuneError && hex4(s) != utf8.RuneError {
				return dst, ^i // half a surrogate pair
			}
			dst, s = appendEscaped(dst, r), rest
		default:
			dst = append(dst, '\\', c)
		}
	}
}

// appendEscaped appends a character of a string: in the short form if it has one,
// escaped otherwise only if it must be.
func appendEscaped(dst []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	if short := strings.IndexRune("\"\\\b\f\n\r\t", r); short >= 0 {
		return append(dst, '\\', `"\bfnrt`[short])
	}
	if r < 0x20 {
		return append(dst, '\\', 'u', '0', '0', digits[r>>4], digits[r&0xf])
	}
	return utf8.AppendRune(dst, r)
}

// Unambiguous is [Index.Unambiguous] for an object that is asked nothing else.
func Unambiguous(obj []byte) bool {
	x := NewIndex(obj)
	return x.Unambiguous()
}
