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

// salvageID finds the id in head, the beginning of a message that is broken, cut
// or too long; nil if it cannot be told. It is never that of a nested object.
//
// What breaks a message is most often a tool's text with wrong UTF-8, a raw tab or a bad
// escape in it, so strings may hold anything.
func salvageID(head []byte) []byte {
	var id []byte
	for p, ok := firstMember(head); ok; p, ok = nextMember(head, p) {
		behind := space(head, p.valueEnd)
		if behind == len(head) || head[behind] != ',' && head[behind] != '}' {
			break // 12 may be the beginning of 123
		}
		if p.named(head, "id") {
			if id != nil {
				return nil // of two ids it cannot be told which is meant
			}
			id = p.of(head)
		}
	}
	if id == nil || !beginsID(id[0]) || !Valid(id) {
		return nil
	}
	return id
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
