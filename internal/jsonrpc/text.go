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
	text, _ := unescape(make([]byte, 0, len(v)), v)
	return string(text), true
}

// escaped says whether the text between two quotes holds escapes.
func escaped(s []byte) bool { return bytes.IndexByte(s, '\\') >= 0 }

// unescape appends what s, a valid text between two quotes, stands for. That is
// never longer than s. whole is false if half a surrogate pair has become U+FFFD.
func unescape(dst, s []byte) (_ []byte, whole bool) {
	whole = true
	for {
		i := bytes.IndexByte(s, '\\')
		if i < 0 || i+1 >= len(s) {
			return append(dst, s...), whole
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
			r, size := unescapeRune(s)
			whole = whole && size > 0
			dst = utf8.AppendRune(dst, r)
			s = s[min(max(size, 4), len(s)):]
			continue
		}
		dst = append(dst, c)
	}
}

// unescapeRune decodes the digits behind a \u, and the \uXXXX that follows if the
// two are a surrogate pair. size is how long that is, 0 for half a pair.
func unescapeRune(s []byte) (r rune, size int) {
	if len(s) < 4 {
		return utf8.RuneError, 0
	}
	if r = hex4(s); !utf16.IsSurrogate(r) {
		return r, 4
	}
	if len(s) >= 10 && s[4] == '\\' && s[5] == 'u' {
		if r = utf16.DecodeRune(r, hex4(s[6:])); r != utf8.RuneError {
			return r, 10
		}
	}
	return utf8.RuneError, 0
}

// AppendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD; HTML is
// left alone. U+2028 and U+2029 are escaped, because Node's readline takes them
// for line ends.
func AppendString(dst []byte, s string) []byte { return appendQuoted(dst, s, true) }

// appendQuoted is AppendString, which leaves U+2028 and U+2029 alone where readline
// is false.
func appendQuoted(dst []byte, s string, readline bool) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	done := 0 // s[:done] is in dst
	for i, r := range s {
		size := utf8.RuneLen(r)
		switch {
		case r == utf8.RuneError:
			if _, size = utf8.DecodeRuneInString(s[i:]); size > 1 {
				continue // it stands there as such
			}
		case r == '\u2028' || r == '\u2029':
			if !readline {
				continue
			}
		case r >= 0x20 && r != '"' && r != '\\':
			continue
		}
		dst = append(dst, s[done:i]...)
		done = i + size
		switch r {
		case utf8.RuneError:
			dst = append(dst, "\ufffd"...)
		case '"', '\\':
			dst = append(dst, '\\', byte(r))
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', digits[r>>12&0xf], digits[r>>8&0xf], digits[r>>4&0xf], digits[r&0xf])
		}
	}
	return append(append(dst, s[done:]...), '"')
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
