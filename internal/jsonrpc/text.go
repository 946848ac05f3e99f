package jsonrpc

import (
	"bytes"
	"encoding/json"
)

// String decodes a JSON string as written, with its quotes; false if v is none.
// Half a surrogate pair becomes U+FFFD.
func String(v []byte) (string, bool) {
	if len(v) == 0 || v[0] != '"' || scanString(v, 0) != len(v) {
		return "", false
	}
	return unquote(v), true
}

// unquote is what v, a valid string, stands for.
func unquote(v []byte) string {
	if !escaped(v) {
		return string(v[1 : len(v)-1])
	}
	var text string
	_ = json.Unmarshal(v, &text) // it is valid
	return text
}

// escaped reports whether a string holds escapes.
func escaped(v []byte) bool { return bytes.IndexByte(v, '\\') >= 0 }

// AppendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD; HTML is
// left alone. U+2028 and U+2029 are escaped, because Node's readline takes them
// for line ends.
func AppendString(dst []byte, s string) []byte {
	if plain(s) {
		return append(append(append(dst, '"'), s...), '"')
	}
	return append(dst, Marshal(string([]rune(s)))...) // which has U+FFFD where s is invalid
}

// Marshal is v as JSON on one line, with <, > and & as they are. It panics if there is no
// JSON of v, which there is of strings, numbers, and structs, maps and slices of them.
func Marshal(v any) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// plain reports whether a string is written as it is: most names are.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x80 || c == '"' || c == '\\' {
			return false
		}
	}
	return true
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
