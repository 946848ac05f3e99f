package excerpt

import (
	"slices"
	"strconv"
	"unicode/utf8"

	"mcpschedd/internal/jsonrpc"
)

const (
	minCut   = 16 // minimum characters of a cut string that could be omitted instead
	minShare = 48 // minimum characters per field; below it the first fields are complete instead

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
	name  []byte // only for a field
	head  int    // characters before the value; 0 for an item
	size  int    // characters including the comma
}

// value appends an excerpt of a value that is larger than room. shift is the number of its
// children or bytes that were skipped before it.
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

// container appends the children of an array or object that fit, and records the omitted ones.
func (c *cutter) container(value []byte, room int, at string, shift, depth int) {
	children, count, bytes := scan(value, room)
	array := value[0] == '['
	var rooms []int
	if l := fairShare(children, room-1); !array && len(children) == count && l >= minShare {
		for i := range children {
			rooms = append(rooms, min(children[i].size, l))
		}
	} else {
		rooms = wholeFirst(children, room-1) // the closing bracket replaces one comma
	}
	c.out = append(c.out, value[0])
	next, spare := 0, 0 // next: the first child neither kept nor recorded
	name := func(to int) {
		if next == to {
			return
		}
		l := Omission{Pointer: at, What: "items", From: next + shift, Count: to - next, Bytes: bytes}
		if to < count {
			l.Bytes = sum(children[next:to])
		} else {
			l.Bytes -= sum(children[:next])
		}
		switch {
		case array:
		case l.Count == 1 && next < len(children):
			l = Omission{Pointer: children[next].pointer(at, 0), What: "field", Count: 1, Bytes: len(children[next].value)}
		default:
			l.What = "fields"
		}
		c.left = append(c.left, l)
	}
	for i, room := range rooms {
		ch := &children[i]
		if room += spare; room < ch.minSize(depth) {
			if array {
				break // later items would get other indexes
			}
			spare = room
			continue
		}
		name(i)
		if next > 0 {
			c.out = append(c.out, ',')
		}
		next = i + 1
		spare = room - c.child(ch, room, ch.pointer(at, i+shift), depth)
	}
	name(count)
	c.out = append(c.out, value[0]+2) // brackets are two apart
}

// scan returns the children that may fit, and the count and bytes of all children.
func scan(value []byte, room int) (children []child, count, bytes int) {
	add := func(raw, name, value []byte) {
		count++
		bytes += len(raw)
		if count <= max(room, 0)/2+1 { // the shortest child takes two characters
			head := utf8.RuneCount(raw[:len(raw)-len(value)])
			children = append(children, child{raw, value, name, head, head + utf8.RuneCount(value) + 1})
		}
	}
	for e := range jsonrpc.Elements(value) {
		add(e, nil, e)
	}
	for m := range jsonrpc.Members(value) {
		add(m.Raw, m.Name, m.Value)
	}
	return children, count, bytes
}

func sum(children []child) (bytes int) {
	for i := range children {
		bytes += len(children[i].raw)
	}
	return bytes
}

// fairShare returns the max-min fair share of room: children smaller than it leave the rest of
// theirs to the others.
func fairShare(children []child, room int) int {
	sizes := make([]int, len(children))
	for i := range children {
		sizes[i] = children[i].size
	}
	slices.Sort(sizes)
	for i, size := range sizes {
		if level := room / (len(sizes) - i); size > level {
			return level
		}
		room -= size
	}
	return max(room, minShare) // all children fit
}

// wholeFirst gives the first children all the room they need, and the next one the rest if that
// is more than half of the room.
func wholeFirst(children []child, room int) (rooms []int) {
	left := room
	for i := range children {
		if children[i].size > left {
			if left > room/2 {
				rooms = append(rooms, left)
			}
			break
		}
		left -= children[i].size
		rooms = append(rooms, children[i].size)
	}
	return rooms
}

// child appends an excerpt of a child, and returns its characters including the comma.
func (c *cutter) child(ch *child, room int, at string, depth int) int {
	if room >= ch.size {
		c.out = append(c.out, ch.raw...)
		return ch.size
	}
	c.out = append(c.out, ch.raw[:len(ch.raw)-len(ch.value)]...)
	before := len(c.out)
	c.value(ch.value, room-ch.head-1, at, 0, depth+1)
	return ch.head + utf8.RuneCount(c.out[before:]) + 1
}

// minSize returns the minimum characters of a child that is not omitted.
func (ch *child) minSize(depth int) int {
	switch {
	case ch.value[0] == '"':
		return min(ch.head+minCut+3, ch.size)
	case (ch.value[0] == '{' || ch.value[0] == '[') && depth < maxDepth:
		return min(ch.head+3, ch.size)
	}
	return ch.size
}

// text appends the beginning of a string.
func (c *cutter) text(value []byte, room int, at string, shift int) {
	text, _ := jsonrpc.String(value)
	n := 0
	room -= 2 // the quotes
	for i, r := range text {
		if room -= escapedWidth(r); room < 0 {
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

// escapedWidth returns the maximum length of a character in JSON.
func escapedWidth(r rune) int {
	switch {
	case r == '"' || r == '\\' || r == '\n' || r == '\r' || r == '\t':
		return 2
	case r < 0x20 || r == '\u2028' || r == '\u2029':
		return 6
	}
	return 1
}

func (ch *child) pointer(at string, index int) string {
	if ch.head == 0 {
		return at + "/" + strconv.Itoa(index)
	}
	return at + "/" + jsonrpc.PointerToken(string(ch.name))
}
