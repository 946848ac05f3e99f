package jsonrpc

import (
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
)

// Repair returns b with U+FFFD in place of every sequence of bytes that is no UTF-8,
// nil if there is none. It replaces as browsers, Node and Python do (the WHATWG
// decoder), so that a text reads as it would without us. What remains is the same
// JSON: a byte that means something to JSON is never part of such a sequence.
func Repair(b []byte) []byte {
	if utf8.Valid(b) {
		return nil
	}
	repaired, err := unicode.UTF8.NewDecoder().Bytes(b)
	if err != nil {
		return nil // it never fails, whatever it reads
	}
	return repaired
}
