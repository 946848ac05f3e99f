package excerpt

import (
	"slices"
	"strconv"
	"unicode/utf8"

	"mcpschedd/internal/jsonrpc"
)

const (
	minCut   = 20  // minimum characters of a part of a value; less is omitted
	minShare = 32  // minimum characters per field; below it the first fields are complete instead
	maxName  = 256 // maximum bytes of an omitted field's name in a pointer; one with a longer name has only its index

	// Each level of nesting is scanned again by the level around it. Values nested deeper are
	// either complete or omitted.
	maxDepth = 32
)

// cutter builds one excerpt.
type cutter struct {
	out  []byte
	left []Omission
}

// child is an item or a field.
type child struct {
	raw   []byte // as written
	value []byte // a suffix of raw
	name  string // of a field; the index of an item
	size  int    // characters, including the comma
}

// value appends an excerpt of a value without its first shift children or bytes of text.
func (c *cutter) value(value []byte, room int, at string, shift, depth int) {
	switch value[0] {
	case '{', '[':
		c.container(value, room, at, shift, depth)
	case '"':
		c.text(value, room, at, shift)
	default: // only at the top level: nested ones are omitted whole
		c.out = append(c.out, "null"...)
		c.left = append(c.left, Omission{Pointer: at, What: "text", Count: len(value), Bytes: len(value)})
	}
}

// container appends the children of an array or object that fit, and records each run of
// omitted ones.
func (c *cutter) container(value []byte, room int, at string, shift, depth int) {
	children, count, bytes := scan(value, shift, room)
	array := value[0] == '['
	c.out = append(c.out, value[0])
	next, spare := 0, 0 // the first child neither kept nor recorded; room that children did not use
	record := func(to int) {
		if to <= next {
			return
		}
		l := Omission{Pointer: at, What: "fields", From: next + shift, Count: to - next}
		if to < count {
			l.Bytes = total(children[next:to])
		} else {
			l.Bytes = bytes - total(children[:next])
		}
		switch {
		case array:
			l.What = "items"
		case l.Count == 1 && next < len(children) && len(children[next].name) <= maxName:
			l = Omission{Pointer: children[next].at(at), What: "field", Count: 1, Bytes: len(children[next].value)}
		}
		c.left = append(c.left, l)
	}
	for i, room := range share(children, room-1, array || len(children) < count) { // the closing bracket replaces one comma
		one := &children[i]
		head := utf8.RuneCount(one.raw) - utf8.RuneCount(one.value)
		if room += spare; room < one.size && (depth >= maxDepth || room < head+minCut || !cuttable(one.value)) {
			if array {
				break // later items would get other indexes
			}
			spare = room
			continue
		}
		record(i)
		if next > 0 {
			c.out = append(c.out, ',')
		}
		next = i + 1
		before := len(c.out)
		c.out = append(c.out, one.raw...)
		if room < one.size {
			c.out = c.out[:len(c.out)-len(one.value)]
			c.value(one.value, room-head-1, one.at(at), 0, depth+1)
		}
		spare = room - utf8.RuneCount(c.out[before:]) - 1
	}
	record(count)
	c.out = append(c.out, value[0]+2) // '[' and ']', '{' and '}' are two apart
}

// at returns the pointer to a child.
func (ch *child) at(parent string) string { return parent + "/" + jsonrpc.PointerToken(ch.name) }

// cuttable reports whether a value can be cut.
func cuttable(value []byte) bool { return value[0] == '"' || value[0] == '{' || value[0] == '[' }

// scan returns the children from an index on that may fit, and the count and bytes of all from
// there on.
func scan(value []byte, shift, room int) (children []child, count, bytes int) {
	i := 0
	add := func(raw, value []byte, name string) {
		if i++; i <= shift {
			return
		}
		if count++; count <= max(room, 0)/2+1 { // the shortest child takes two characters
			children = append(children, child{raw, value, name, utf8.RuneCount(raw) + 1})
		}
		bytes += len(raw)
	}
	for e := range jsonrpc.Elements(value) {
		add(e, e, strconv.Itoa(i))
	}
	for m := range jsonrpc.Members(value) {
		add(m.Raw, m.Value, string(m.Name))
	}
	return children, count, bytes
}

func total(children []child) (bytes int) {
	for i := range children {
		bytes += len(children[i].raw)
	}
	return bytes
}

// share divides room among children. By max-min fairness, children smaller than a fair share
// leave the rest of it to the others. With wholeFirst, or if that share is too small, the first
// children get all the room that they need; if none has enough, the first gets all of it.
func share(children []child, room int, wholeFirst bool) (rooms []int) {
	var sizes []int
	for i := range children {
		sizes = append(sizes, children[i].size)
	}
	level, left := 0, room
	for i, size := range slices.Sorted(slices.Values(sizes)) {
		if level = left / (len(sizes) - i); size > level {
			break
		}
		left -= size
	}
	for left = room; len(rooms) < len(sizes); {
		size := sizes[len(rooms)]
		if whole := wholeFirst || level < minShare; !whole {
			size = min(size, level)
		} else if size > left {
			break
		}
		left -= size
		rooms = append(rooms, size)
	}
	if rooms == nil && len(sizes) > 0 {
		rooms = []int{room}
	}
	return rooms
}

// text appends the beginning of a string.
func (c *cutter) text(value []byte, room int, at string, shift int) {
	text, _ := jsonrpc.String(value)
	for shift = max(0, min(shift, len(text))); shift < len(text) && !utf8.RuneStart(text[shift]); {
		shift-- // to the start of the character
	}
	text = text[shift:]
	n := 0
	room -= 2 // the quotes
	for i, r := range text {
		if room -= utf8.RuneCount(jsonrpc.AppendString(nil, string(r))) - 2; room < 0 {
			break
		}
		n = i + utf8.RuneLen(r)
	}
	c.out = jsonrpc.AppendString(c.out, text[:n])
	if rest := text[n:]; rest != "" {
		c.left = append(c.left, Omission{
			Pointer: at, What: "text", From: n + shift, Count: utf8.RuneCountInString(rest), Bytes: len(rest),
		})
	}
}
