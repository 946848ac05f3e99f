package predict

import (
	"encoding/json"
	"strings"
)

// appendQuoted appends s, which is valid UTF-8, as a canonical JSON string: with
// the fewest escapes.
func appendQuoted(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	for i := range len(s) {
		c := s[i]
		switch short := strings.IndexByte("\"\\\b\f\n\r\t", c); {
		case short >= 0:
			dst = append(dst, '\\', `"\bfnrt`[short])
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&0xf])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// unquote reads a JSON string with escapes.
func unquote(s string) (string, bool) {
	var t string
	err := json.Unmarshal([]byte(s), &t)
	return t, err == nil
}
