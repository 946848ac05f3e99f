package jsonrpc

import (
	"bytes"
	"regexp"
	"unicode/utf8"
)

// Repair returns b with U+FFFD in place of invalid UTF-8, or nil if b is valid. The JSON structure
// stays the same: an invalid sequence never contains a byte that is significant in JSON.
func Repair(b []byte) []byte {
	if utf8.Valid(b) {
		return nil
	}
	return bytes.ToValidUTF8(b, []byte("\uFFFD"))
}

// In a message that is malformed, truncated or too long, the id is found only where it cannot
// belong to a nested object: as the first member, except for the version, or as the last one.
var (
	firstID = regexp.MustCompile(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(` + anyID + `)\s*[,}]`)
	lastID  = regexp.MustCompile(`[{,]\s*"id"\s*:\s*(` + anyID + `)\s*\}\s*$`)
)

const anyID = `"(?:[^"\\]|\\.)*"|-?[0-9.eE+-]+`

// salvageID returns the id of a message with this beginning and this end, which may be nil; nil if
// it is not found. Most malformed messages have invalid UTF-8, a raw tab or a bad escape in a
// tool's text.
func salvageID(head, tail []byte) []byte {
	found := firstID.FindSubmatch(head)
	if found == nil {
		found = lastID.FindSubmatch(tail)
	}
	if found == nil || !Valid(found[1]) {
		return nil
	}
	return bytes.Clone(found[1])
}
