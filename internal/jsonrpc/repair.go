package jsonrpc

import (
	"bytes"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
)

// Repair returns b with U+FFFD in place of every invalid UTF-8 sequence, or nil if b is
// valid. It replaces as the WHATWG decoder of browsers, Node and Python does, so that a
// client reads the same text as without the proxy. The JSON structure stays the same: an
// invalid sequence never contains a byte that is significant in JSON.
func Repair(b []byte) []byte {
	if utf8.Valid(b) {
		return nil
	}
	repaired, err := unicode.UTF8.NewDecoder().Bytes(b)
	if err != nil {
		return nil // unreachable: the decoder never fails
	}
	return repaired
}

// salvageID returns the id in head, the beginning of a message that is malformed,
// truncated or too long; nil if it cannot be determined. It never returns the id of a
// nested object.
//
// Most malformed messages have invalid UTF-8, a raw tab or a bad escape in a tool's
// text, so salvageID accepts any bytes in strings.
func salvageID(head []byte) []byte {
	var id []byte
	for p, ok := firstMember(head); ok; p, ok = nextMember(head, p) {
		next := space(head, p.valueEnd)
		if next == len(head) || head[next] != ',' && head[next] != '}' {
			break // in a truncated text, 12 may be the beginning of 123
		}
		if p.named(head, "id") {
			if id != nil {
				return nil // a repeated id is ambiguous
			}
			id = p.of(head)
		}
	}
	if id == nil || !beginsID(id[0]) || !Valid(id) {
		return nil
	}
	return id
}

// trailingID returns the id in the tail of a message if id is the last member, else nil.
// The member right before the last brace cannot belong to a nested object.
func trailingID(tail []byte) []byte {
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
