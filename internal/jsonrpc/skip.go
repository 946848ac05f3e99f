package jsonrpc

import "bytes"

// The skip functions are for what has been scanned before: they look for ends
// only. On anything else they stay within b, and mean nothing.

// skipValue returns the place behind the value that begins at b[i], and i if
// none does.
func skipValue(b []byte, i int) int {
	if i >= len(b) {
		return i
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipContainer(b, i)
	}
	for i < len(b) {
		switch b[i] {
		case ',', ']', '}', ' ', '\t', '\n', '\r':
			return i
		}
		i++
	}
	return i
}

func skipContainer(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = skipString(b, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return i
}

// skipString returns the place behind the string whose quote is b[i]. It leaps
// from quote to quote and looks back for backslashes, of which each is looked at
// once.
func skipString(b []byte, i int) int {
	start := i + 1
	for {
		n := bytes.IndexByte(b[start:], '"')
		if n < 0 {
			return len(b)
		}
		quote := start + n
		i = quote
		for i > start && b[i-1] == '\\' {
			i--
		}
		start = quote + 1
		if (quote-i)%2 == 0 {
			return start
		}
	}
}
