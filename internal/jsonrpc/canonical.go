package jsonrpc

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// canonicalDepth is the deepest nesting of objects and arrays in a canonical text.
const canonicalDepth = 64

// AppendCanonical appends the canonical text of a JSON value: members sorted by name,
// no white space, strings with the fewest escapes. Numbers stay as written: decoding
// would make 2^53 and 2^53+1 equal, and a server may distinguish them.
//
// It returns dst unchanged and false for a value that two servers may read differently:
// an object with a repeated name, also one in another case (many servers ignore case and
// take the last one), or a string with half a surrogate pair. It also returns false if
// the value is not valid JSON or is nested deeper than 64.
func AppendCanonical(dst, value []byte) ([]byte, bool) {
	if !Valid(value) {
		return dst, false
	}
	value = bytes.Trim(value, " \t\r\n")
	if out, ok := canonicalValue(slices.Grow(dst, len(value)), value, 1); ok {
		return out, true
	}
	return dst, false
}

// canonicalValue appends the canonical text of a value that has no white space around
// it; false if there is none. depth is the nesting depth of the value if it is a container.
func canonicalValue(dst, value []byte, depth int) ([]byte, bool) {
	switch c := value[0]; {
	case c == '"':
		return canonicalString(dst, value)
	case c != '{' && c != '[':
		return append(dst, value...), true
	case depth > canonicalDepth:
		return dst, false
	case c == '{':
		return canonicalObject(dst, value, depth)
	}
	return canonicalArray(dst, value, depth)
}

func canonicalArray(dst, array []byte, depth int) (_ []byte, ok bool) {
	dst = append(dst, '[')
	for element := range Elements(array) {
		if dst[len(dst)-1] != '[' {
			dst = append(dst, ',')
		}
		if dst, ok = canonicalValue(dst, element, depth+1); !ok {
			return dst, false
		}
	}
	return append(dst, ']'), true
}

func canonicalObject(dst, object []byte, depth int) (_ []byte, ok bool) {
	index := NewIndex(object)
	if !index.Unambiguous() {
		return dst, false
	}
	slices.SortFunc(index.spans, func(a, b span) int { return bytes.Compare(a.name(object), b.name(object)) })
	dst = append(dst, '{')
	for i, p := range index.spans {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, ok = canonicalString(dst, object[p.key:p.keyEnd]); !ok {
			return dst, false
		}
		if dst, ok = canonicalValue(append(dst, ':'), p.of(object), depth+1); !ok {
			return dst, false
		}
	}
	return append(dst, '}'), true
}

// canonicalString appends a string as [AppendString] writes it; false if it may contain
// half a surrogate pair.
func canonicalString(dst, s []byte) ([]byte, bool) {
	const first = 0xe2 // first byte of U+2028 and U+2029, which AppendString escapes
	if !escaped(s) && bytes.IndexByte(s, first) < 0 {
		return append(dst, s...), true
	}
	text := unquote(s)
	return AppendString(dst, text), !strings.ContainsRune(text, utf8.RuneError)
}
