package jsonrpc

import (
	"iter"
	"strconv"
	"strings"
)

// At returns the raw value that a JSON pointer (RFC 6901) refers to, or nil if there
// is none. The pointer "" refers to the whole value.
func At(value []byte, pointer string) []byte {
	for token := range PointerTokens(pointer) {
		switch {
		case len(value) > 0 && value[0] == '{':
			value = Get(value, token)
		case len(value) > 0 && value[0] == '[':
			value = element(value, token)
		default:
			return nil
		}
		if value == nil {
			return nil
		}
	}
	return value
}

// element returns the element of an array at the index that a pointer's token gives, in
// decimal digits without leading zeros; nil if there is none.
func element(array []byte, token string) []byte {
	index, err := strconv.ParseUint(token, 10, 31)
	if err != nil || strconv.FormatUint(index, 10) != token {
		return nil
	}
	for item := range Elements(array) {
		if index == 0 {
			return item
		}
		index--
	}
	return nil
}

// PointerTokens yields the tokens of a valid pointer, unescaped.
func PointerTokens(pointer string) iter.Seq[string] {
	return func(yield func(string) bool) {
		started := false // not with what precedes the first slash: nothing
		for token := range strings.SplitSeq(pointer, "/") {
			if started && !yield(unescaper.Replace(token)) {
				return
			}
			started = true
		}
	}
}

// ValidPointer reports whether text is a JSON pointer.
func ValidPointer(text string) bool {
	return (text == "" || text[0] == '/') && !strings.Contains(escapes.Replace(text), "~")
}

// PointerToken escapes a member's name or an index for use in a pointer.
func PointerToken(name string) string { return escaper.Replace(name) }

var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~") // in one pass: "~01" is "~1"
	escapes   = strings.NewReplacer("~1", "", "~0", "")
)
