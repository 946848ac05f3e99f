package jsonrpc

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// String decodes a JSON string as written, with its quotes; false if v is none.
// Half a surrogate pair becomes U+FFFD.
func String(v []byte) (string, bool) {
	if len(v) == 0 || v[0] != '"' || scanString(v, 0) != len(v) {
		return "", false
	}
	v = v[1 : len(v)-1]
	if !escaped(v) {
		return string(v), true
	}
	return string(appendUnescaped(make([]byte, 0, len(v)), v)), true
}

// escaped says whether the text between two quotes holds escapes.
func escaped(s []byte) bool { return bytes.IndexByte(s, '\\') >= 0 }

// appendUnescaped appends what s, a valid text between two quotes, stands for.
// That is never longer than s.
func appendUnescaped(dst, s []byte) []byte {
	for {
		i := bytes.IndexByte(s, '\\')
		if i < 0 || i+1 >= len(s) {
			return append(dst, s...)
		}
		dst = append(dst, s[:i]...)
		c := s[i+1]
		s = s[i+2:]
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			var r rune
			r, s = unescapeRune(s)
			dst = utf8.AppendRune(dst, r)
			continue
		}
		dst = append(dst, c)
	}
}

// unescapeRune decodes the digits behind a \u, and the \uXXXX that follows if the
// two are a surrogate pair.
func unescapeRune(s []byte) (rune, []byte) {
	if len(s) < 4 {
		return utf8.RuneError, nil
	}
	r := hex4(s)
	s = s[4:]
	if utf16.IsSurrogate(r) {
		if len(s) >= 6 && s[0] == '\\' && s[1] == 'u' {
			if pair := utf16.DecodeRune(r, hex4(s[2:])); pair != utf8.RuneError {
				return pair, s[6:]
			}
		}
		r = utf8.RuneError
	}
	return r, s
}

// AppendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD; HTML is
// left alone. U+2028 and U+2029 are escaped, because Node's readline takes them
// for line ends.
func AppendString(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	done := 0 // s[:done] is in dst
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && size == 1:
				dst = append(dst, s[done:i]...)
				dst = append(dst, "\ufffd"...)
				done = i + size
			case r == '\u2028' || r == '\u2029':
				dst = append(dst, s[done:i]...)
				dst = append(dst, `\u202`...)
				dst = append(dst, digits[r&0xf])
				done = i + size
			}
			i += size
			continue
		}
		dst = append(dst, s[done:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&0xf])
		}
		i++
		done = i
	}
	dst = append(dst, s[done:]...)
	return append(dst, '"')
}

// Flatten makes one line of b, a parsed message, in place: CR and LF become
// spaces. In valid JSON they are white space between tokens and nothing else.
func Flatten(b []byte) {
	for _, c := range []byte("\r\n") {
		for rest := b; ; {
			i := bytes.IndexByte(rest, c)
			if i < 0 {
				break
			}
			rest[i] = ' '
			rest = rest[i+1:]
		}
	}
}
