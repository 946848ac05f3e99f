package jsonrpc

import (
	"bytes"
	"encoding/json"
)

// String decodes v, a JSON string with its quotes; false if v is not a string. Half a
// surrogate pair becomes U+FFFD.
func String(v []byte) (string, bool) {
	if len(v) == 0 || v[0] != '"' || scanString(v, 0) != len(v) {
		return "", false
	}
	return unquote(v), true
}

// Text returns the text of the first member of obj called name, or "" if that is no string.
func Text(obj []byte, name string) string {
	text, _ := String(Get(obj, name))
	return text
}

// unquote decodes v, a valid JSON string.
func unquote(v []byte) string {
	if !escaped(v) {
		return string(v[1 : len(v)-1])
	}
	var text string
	_ = json.Unmarshal(v, &text) // cannot fail: v is valid
	return text
}

// escaped reports whether a JSON string contains escapes.
func escaped(v []byte) bool { return bytes.IndexByte(v, '\\') >= 0 }

// AppendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD. HTML is not
// escaped. U+2028 and U+2029 are escaped, because Node's readline treats them as line
// ends.
func AppendString(dst []byte, s string) []byte {
	if plain(s) {
		return append(append(append(dst, '"'), s...), '"')
	}
	return append(dst, Marshal(string([]rune(s)))...) // []rune has U+FFFD where s is invalid
}

// Marshal returns v as JSON on one line, without HTML escapes. It panics if v cannot be
// marshaled; strings, finite numbers, and structs, slices and string-keyed maps of them can.
func Marshal(v any) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// plain reports whether s needs no escapes, as most names do not.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x80 || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// Flatten turns b, valid JSON, into one line in place by replacing CR and LF with
// spaces. In valid JSON they occur only as white space between tokens.
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
