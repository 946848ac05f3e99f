package jsonrpc

import (
	"bytes"
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

// SalvageID finds the id in head, the beginning of a message that is broken, cut
// or too long; nil if it cannot be told. It is never that of a nested object.
//
// The structure must be sound up to the comma or brace behind the id, but strings
// may hold anything: what breaks a message is most often a tool's text with wrong
// UTF-8, a raw tab or a bad escape in it.
func SalvageID(head []byte) []byte {
	text := neutral(head)
	i := space(text, 0)
	if i == len(text) || text[i] != '{' {
		return nil
	}
	var id []byte
	found := 0
	scanObject(text, i, 1, func(at place) {
		if string(at.name(text)) == "id" {
			id = at.of(head)
			found++
		}
	}, nil)
	if found != 1 || !beginsID(id[0]) || !Valid(id) {
		return nil // of two ids it cannot be told which is meant
	}
	return id
}

// neutral returns a copy of b in which strings are valid, byte for byte in the same
// places: escapes and whatever is not printable ASCII have become question marks,
// and white space spaces.
func neutral(b []byte) []byte {
	b = bytes.Clone(b)
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '\\':
			b[i] = '?'
			if i+1 < len(b) {
				i++
				b[i] = '?'
			}
		case c == '\t' || c == '\n' || c == '\r':
			b[i] = ' '
		case c < 0x20 || c >= 0x80:
			b[i] = '?'
		}
	}
	return b
}

// lastID finds the id in the end of a message of which it is the last member, nil if it
// cannot be told. What stands right before the last brace belongs to no nested
// object.
func lastID(tail []byte) []byte {
	body, ok := bytes.CutSuffix(bytes.TrimRight(tail, " \t\r"), []byte("}"))
	at := bytes.LastIndex(body, []byte(`"id"`))
	if !ok || at < 0 {
		return nil
	}
	before := bytes.TrimRight(body[:at], " \t")
	id, ok := bytes.CutPrefix(bytes.TrimLeft(body[at+len(`"id"`):], " \t"), []byte(":"))
	id = bytes.Trim(id, " \t")
	if !ok || !Valid(id) || !beginsID(id[0]) || !bytes.HasSuffix(before, []byte(",")) && !bytes.HasSuffix(before, []byte("{")) {
		return nil
	}
	return bytes.Clone(id)
}
