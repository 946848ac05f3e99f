// Package excerpt cuts JSON values and texts to a limit and describes the omitted parts.
//
// An excerpt of a JSON value is JSON of the same shape. Fields and items are either present or
// omitted, and long strings are cut between two characters. Each omission has a pointer and an
// offset with which the rest can be read:
//
//	out, left := excerpt.Cut(value, 2000)
//	// out  {"total":134,"items":[{"id":1,"title":"a"},{"id":2,"title":"b"}]}
//	// left [{Pointer: "/items", What: "items", From: 2, Count: 132, Bytes: 417331}]
//	more, left := excerpt.Read(value, left[0].Pointer, left[0].From, 2000)
//
// An object divides its space by max-min fairness (water filling): small fields are complete
// before a large one gets more than an equal share. An array keeps its first items complete,
// since ten complete items are more useful than a piece of each. So does an object with so many
// fields that each share would be very small.
//
// All functions are pure. Space is measured in characters, by [Shorten] in bytes; [Limit.Fit]
// converts a token limit. The package does not decide which values are worth reading and does not
// store whole values.
package excerpt

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"mcpschedd/internal/jsonrpc"
)

// Omission is a part of a value that an excerpt omits. [Read] with its Pointer and From returns
// it. (If an object has two fields of one name, a pointer refers to the first.)
type Omission struct {
	Pointer string `json:"pointer"`          // the containing array, object or string; for a "field" the field itself
	What    string `json:"what"`             // "items", "fields" (consecutive), "field" (one with a name of usual length) or "text"
	From    int    `json:"offset,omitempty"` // index of the first omitted child; for a text the byte offset
	Count   int    `json:"count,omitempty"`  // number of items, fields or characters
	Bytes   int    `json:"bytes"`            // of the omitted JSON; for a text in UTF-8
}

// Cut returns an excerpt of a JSON value with at most chars Unicode characters, and the omitted
// parts. A value that fits is returned unchanged. If nothing fits, the result is empty brackets
// or quotes, or null for a number or a word, whatever the limit.
func Cut(value []byte, chars int) (out []byte, left []Omission) { return Read(value, "", 0, chars) }

// Read is like Cut for the part of a value at pointer, without its first offset items, fields or
// bytes of text. Omissions are relative to the whole value. It returns nil if the pointer refers
// to nothing.
func Read(value []byte, pointer string, offset, chars int) (out []byte, left []Omission) {
	if !jsonrpc.ValidPointer(pointer) {
		return nil, nil
	}
	part := jsonrpc.At(bytes.TrimSpace(value), pointer)
	if len(part) == 0 {
		return nil, nil
	}
	if offset = max(offset, 0); utf8.RuneCount(part) <= chars && (offset == 0 || !cuttable(part)) {
		return part, nil
	}
	c := &cutter{}
	c.value(part, chars, pointer, offset, 0)
	return c.out, c.left
}

// Shorten truncates a text to limit bytes of valid UTF-8, ending in "…" if it was truncated. The
// result is "" if nothing fits before that, and keeps no memory of a text that was truncated.
func Shorten(text string, limit int) string {
	const ending = "…"
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	first := strings.ToValidUTF8(text[:max(0, limit-len(ending))], "") // without a divided character
	if first == "" {
		return ""
	}
	return first + ending
}

// Limit is the maximum size of a text.
type Limit struct {
	Tokens int              // zero or less means no limit
	Chars  int              // Unicode characters; zero or less means no limit
	Count  func([]byte) int // counts tokens; nil means bytes/4
}

// CountTokens returns the number of tokens of a text.
func (l Limit) CountTokens(text []byte) int {
	if l.Count == nil {
		return len(text) / 4
	}
	return l.Count(text)
}

// Allows reports whether a text is within the limit.
func (l Limit) Allows(text []byte) bool { return l.use(text) <= 1 }

// use returns the part of the limit that a text uses: more than 1 if it is too long. Tokens are
// counted only if there could be too many: a token has at least one byte.
func (l Limit) use(text []byte) (part float64) {
	if l.Chars > 0 {
		part = float64(utf8.RuneCount(text)) / float64(l.Chars)
	}
	if l.Tokens > 0 && len(text) > l.Tokens && part <= 1 {
		part = max(part, float64(l.CountTokens(text))/float64(l.Tokens))
	}
	return part
}

const (
	charsPerToken = 4   // initial estimate
	minUse        = 0.8 // a text that uses this part of its limit is not enlarged
	maxRounds     = 10
)

// Fit searches for a long text within the limit. build returns a text that contains an excerpt of
// at most chars characters; size is at least the characters of the whole value, such as its bytes. After a
// text that is too long Fit asks for a shorter one than it should need, and after a short one once for one
// that should stay below the limit. It returns nil if even the text without any of the value is too long.
func (l Limit) Fit(size int, build func(chars int) []byte) (best []byte) {
	chars := size
	if l.Tokens > 0 {
		chars = min(chars, l.Tokens*charsPerToken)
	}
	if l.Chars > 0 {
		chars = min(chars, l.Chars)
	}
	for range maxRounds {
		text := build(chars)
		have, use := utf8.RuneCount(text), l.use(text)
		spare := float64(size) // characters
		if use > 0 {
			spare = float64(have)/use - float64(have)
		}
		switch {
		case use > 1 && (best != nil || chars == 0):
			return best
		case use > 1:
			chars = max(min(chars, have)+int(spare*1.25)-8, 0)
		case best != nil || use > minUse || chars >= size:
			return text
		default:
			best = text
			chars = min(chars+int(spare*0.9), size)
		}
	}
	return best
}

// Cut returns an excerpt of a JSON value within the limit, or the shortest one if even that is
// too long. Fit returns only the text, so the chosen one is cut once more for its omissions.
func (l Limit) Cut(value []byte) (out []byte, left []Omission) {
	chosen := 0
	l.Fit(len(value), func(chars int) []byte {
		text, _ := Cut(value, chars)
		if l.Allows(text) {
			chosen = max(chosen, chars)
		}
		return text
	})
	return Cut(value, chosen)
}
