// Package excerpt says what of a value fits, and how to read the rest.
//
// An excerpt of a JSON value is JSON of the same shape. Fields and
// items are there or not, long strings end between two characters, and what is not
// there is named by a pointer and an offset that lead to it in the whole value:
//
//	out, left := excerpt.Cut(value, excerpt.Limit{Tokens: 500, Count: deliver.Tokens})
//	// out  {"total":134,"items":[{"id":1,"title":"a"},{"id":2,"title":"b"}]}
//	// left [{Pointer: "/items", What: "items", From: 2, Count: 132, Bytes: 417331}]
//	more, left := excerpt.Read(value, left[0].Pointer, left[0].From, limit)
//
// An object shares its room out evenly: small fields are whole before a large one
// gets more than the rest of them (max-min fairness, by water filling). An array
// keeps its first items whole, since ten whole ones tell more than a piece of each.
// So does an object of so many fields that each would get next to nothing.
//
// Everything here is a pure function of its arguments, and takes time in
// proportion to the value; only what may fit is counted in tokens. It leaves out
// what is worth reading, and keeping the whole.
package excerpt

import (
	"bytes"
	"unicode/utf8"

	"mcpschedd/internal/jsonrpc"
)

// Limit bounds an excerpt.
type Limit struct {
	Tokens int              // 0 and less: any number
	Chars  int              // Unicode characters of the JSON as written; 0 and less: any number
	Count  func([]byte) int // tokens of a text; nil: bytes/4
}

// Left is something of a value that an excerpt leaves out. [Read] with its Pointer
// and From reads it. (Of two fields of one name in an object, a pointer leads to the
// first.)
type Left struct {
	Pointer string // to the array, object or string it is left out of; of a "field" to itself
	What    string // items, fields (several in a row), field or text
	From    int    // index of the first that is left out; of a text the byte it goes on from
	Count   int    // items, fields, or characters of a text
	Bytes   int    // of these, as written; of a text, in UTF-8
}

// Cut is what of a JSON value fits, as JSON, and what does not. What fits as a
// whole is returned as it is. A value of which nothing fits leaves its brackets or
// quotes, or null for a number, whatever the limit.
func Cut(value []byte, l Limit) (out []byte, left []Left) {
	return Read(value, "", 0, l)
}

// Read is Cut of the part of a value that a pointer leads to, without its first
// items or fields, or bytes of text: as many as offset. What it leaves out is named
// as seen from the whole value. It is nil if the pointer leads nowhere.
func Read(value []byte, pointer string, offset int, l Limit) (out []byte, left []Left) {
	if !jsonrpc.ValidPointer(pointer) {
		return nil, nil
	}
	part := jsonrpc.At(bytes.TrimSpace(value), pointer)
	if len(part) == 0 {
		return nil, nil
	}
	part, offset = after(part, offset)
	whole := &child{value: part, size: utf8.RuneCount(part)}
	c := &cutter{pointer: pointer, offset: offset, most: l.most(whole.size), work: looks*len(part) + moreWork}
	l.fit(whole.size, func(room int) []byte {
		c.cut(whole, room)
		return c.out
	})
	return c.out, c.left
}

// after is a value without its first items, fields or bytes of text, and how many
// these were.
func after(value []byte, offset int) ([]byte, int) {
	if offset <= 0 {
		return value, 0
	}
	out := []byte{value[0]}
	add := func(raw []byte) {
		if offset--; offset >= 0 {
			return
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, raw...)
	}
	skipped := offset
	switch value[0] {
	case '[':
		for e := range jsonrpc.Elements(value) {
			add(e)
		}
	case '{':
		for m := range jsonrpc.Members(value) {
			add(m.Raw)
		}
	case '"':
		text, _ := jsonrpc.String(value)
		offset = start(text, offset)
		return jsonrpc.AppendString(nil, text[offset:]), offset
	default:
		return value, 0
	}
	return append(out, value[0]+2), skipped // brackets are two apart
}
