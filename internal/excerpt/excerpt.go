// Package excerpt says what of a value fits, and how to read the rest.
//
// An excerpt of a JSON value is JSON of the same shape. Fields and
// items are there or not, long strings end between two characters, and what is not
// there is named by a pointer and an offset that lead to it in the whole value:
//
//	out, left := excerpt.Cut(value, 2000)
//	// out  {"total":134,"items":[{"id":1,"title":"a"},{"id":2,"title":"b"}]}
//	// left [{Pointer: "/items", What: "items", From: 2, Count: 132, Bytes: 417331}]
//	more, left := excerpt.Read(value, left[0].Pointer, left[0].From, 2000)
//
// An object shares its room out evenly: small fields are whole before a large one
// gets more than the rest of them (max-min fairness, by water filling). An array
// keeps its first items whole, since ten whole ones tell more than a piece of each.
// So does an object of so many fields that each would get next to nothing.
//
// Everything here is a pure function of its arguments. Room is in characters; [Limit.Fit]
// finds how many of these a number of tokens is. It leaves out what is worth reading, and
// keeping the whole.
package excerpt

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"mcpschedd/internal/jsonrpc"
)

// Left is something of a value that an excerpt leaves out. [Read] with its Pointer
// and From reads it. (Of two fields of one name in an object, a pointer leads to the
// first.)
type Left struct {
	Pointer string `json:"pointer"`          // to the array, object or string it is left out of; of a "field" to itself
	What    string `json:"what"`             // items, fields (several in a row), field or text
	From    int    `json:"offset,omitempty"` // index of the first that is left out; of a text the byte it goes on from
	Count   int    `json:"count,omitempty"`  // items, fields, or characters of a text
	Bytes   int    `json:"bytes"`            // of these, as written; of a text, in UTF-8
}

// Cut is what of a JSON value fits into so many Unicode characters, as JSON, and what does
// not. What fits as a whole is returned as it is. A value of which nothing fits leaves its
// brackets or quotes, or null for a number, whatever the limit.
func Cut(value []byte, chars int) (out []byte, left []Left) { return Read(value, "", 0, chars) }

// Read is Cut of the part of a value that a pointer leads to, without its first
// items or fields, or bytes of text: as many as offset. What it leaves out is named
// as seen from the whole value. It is nil if the pointer leads nowhere.
func Read(value []byte, pointer string, offset, chars int) (out []byte, left []Left) {
	if !jsonrpc.ValidPointer(pointer) {
		return nil, nil
	}
	part := jsonrpc.At(bytes.TrimSpace(value), pointer)
	if len(part) == 0 {
		return nil, nil
	}
	part, offset = after(part, offset)
	if utf8.RuneCount(part) <= chars {
		return part, nil
	}
	c := &cutter{}
	c.value(part, chars, pointer, offset, 0)
	return c.out, c.left
}

// after is a value without its first items, fields or bytes of text, and how many
// these were.
func after(value []byte, offset int) ([]byte, int) {
	if offset <= 0 {
		return value, 0
	}
	if text, ok := jsonrpc.String(value); ok {
		offset = start(text, offset)
		return jsonrpc.AppendString(nil, text[offset:]), offset
	}
	if value[0] != '[' && value[0] != '{' {
		return value, 0
	}
	var rest [][]byte
	i := 0
	add := func(raw []byte) {
		if i++; i > offset {
			rest = append(rest, raw)
		}
	}
	for e := range jsonrpc.Elements(value) {
		add(e)
	}
	for m := range jsonrpc.Members(value) {
		add(m.Raw)
	}
	out := append([]byte{value[0]}, bytes.Join(rest, []byte(","))...)
	return append(out, value[0]+2), offset // brackets are two apart
}

// Text is what of a text fits into so many characters from a byte on, and where it goes
// on; next is -1 if nothing is left. It divides no character, and breaks behind the end
// of a line if one is in its last quarter. It is never empty before the end: where not
// even one character fits, it is that one.
//
// An offset within a character is that of its beginning; one out of range, the
// nearest that is not.
func Text(text string, offset, chars int) (part string, next int) {
	offset = start(text, offset)
	rest := text[offset:]
	part = first(rest, max(chars, 1))
	if i := strings.LastIndexByte(part, '\n'); len(part) < len(rest) && i >= len(part)*3/4 {
		part = part[:i+1]
	}
	if offset += len(part); offset < len(text) {
		return part, offset
	}
	return part, -1
}

// Shorten is a text of so many characters at most, which ends in "…" where that is
// not all of it.
func Shorten(text string, most int) string {
	if len(first(text, most)) < len(text) {
		return first(text, most-1) + "…"
	}
	return text
}

// first is the first characters of a text.
func first(text string, n int) string {
	for i := range text {
		if n--; n < 0 {
			return text[:i]
		}
	}
	return text
}

// start is the beginning of the character that an offset is in.
func start(text string, offset int) int {
	offset = min(max(offset, 0), len(text))
	for i := offset - 1; i >= max(offset-utf8.UTFMax+1, 0); i-- {
		if _, n := utf8.DecodeRuneInString(text[i:]); i+n > offset {
			return i
		}
	}
	return offset
}

// Limit bounds a text.
type Limit struct {
	Tokens int              // 0 and less: any number
	Chars  int              // Unicode characters; 0 and less: any number
	Count  func([]byte) int // tokens of a text; nil: bytes/4
}

const (
	usualChars = 4   // of a token, to begin with
	tightness  = 0.8 // how much of its tokens a text uses at least before no longer one is looked for
	rounds     = 10
)

// Fit is the longest text found that fits. build makes one with an excerpt of so many
// characters in it, and whatever else it has to say; size is that of the whole value. It
// is asked for less by what the last one had too much, or once for more. nil: not even
// without the value anything fits.
func (l Limit) Fit(size int, build func(chars int) []byte) (best []byte) {
	chars := size
	if l.Tokens > 0 {
		chars = min(chars, l.Tokens*usualChars)
	}
	if l.Chars > 0 {
		chars = min(chars, l.Chars)
	}
	for range rounds {
		text := build(chars)
		have := utf8.RuneCount(text)
		spare, tight := size, false // characters
		if l.Chars > 0 {
			spare = l.Chars - have
			tight = spare < have/8
		}
		if l.Tokens > 0 && spare >= 0 {
			tokens := max(l.Counted(text), 1)
			spare = min(spare, (l.Tokens-tokens)*have/tokens)
			tight = tight || float64(tokens) > tightness*float64(l.Tokens)
		}
		switch {
		case spare < 0 && (best != nil || chars == 0):
			return best
		case spare < 0:
			chars = max(min(chars, have)+spare*5/4-8, 0)
		case best != nil || tight || chars >= size:
			return text
		default:
			best = text
			chars = min(chars+spare*9/10, size)
		}
	}
	return best
}

// Counted is the number of tokens of a text.
func (l Limit) Counted(text []byte) int {
	if l.Count == nil {
		return len(text) / 4
	}
	return l.Count(text)
}
