package excerpt

import (
	"slices"
	"strconv"
	"unicode/utf8"

	"mcpschedd/internal/jsonrpc"
)

const (
	leastCut   = 16 // characters left of a string that is cut, where it may be left out instead
	leastShare = 48 // characters of each field; where there is less, the first fields are whole instead

	// Each level of brackets is read once more than the one around it; what is nested deeper
	// than this is there whole or not at all.
	maxDepth = 32
)

// cutter cuts one value.
type cutter struct {
	out  []byte
	left []Left
}

// child is an item or a field.
type child struct {
	raw   []byte // as written
	value []byte // the end of raw
	name  []byte // of a field
	head  int    // characters before the value; 0: it is an item
	size  int    // characters, with the comma
}

// value appends as much as fits of a value that is larger than room. shift is how
// much of it stands before it in the whole.
func (c *cutter) value(value []byte, room int, at string, shift, depth int) {
	switch value[0] {
	case '{', '[':
		c.container(value, room, at, shift, depth)
	case '"':
		c.text(value, room, at, shift)
	default: // the outermost alone: others are left out
		c.out = append(c.out, "null"...)
		c.left = append(c.left, Left{Pointer: at, What: "text", Count: len(value), Bytes: len(value)})
	}
}

// container appends those children of an array or object that fit, and names the
// others.
func (c *cutter) container(value []byte, room int, at string, shift, depth int) {
	children, count, bytes := look(value, room)
	array := value[0] == '['
	var rooms []int
	if l := level(children, room-1); !array && len(children) == count && l >= leastShare {
		for i := range children {
			rooms = append(rooms, min(children[i].size, l))
		}
	} else {
		rooms = whole(children, room-1) // each child has a comma, and a bracket stands for one of them
	}
	c.out = append(c.out, value[0])
	next, spare := 0, 0 // next: the first child that is neither kept nor named
	name := func(to int) {
		if next == to {
			return
		}
		l := Left{Pointer: at, What: "items", From: next + shift, Count: to - next, Bytes: bytes}
		if to < count {
			l.Bytes = sum(children[next:to])
		} else {
			l.Bytes -= sum(children[:next])
		}
		switch {
		case array:
		case l.Count == 1 && next < len(children):
			l = Left{Pointer: children[next].pointer(at, 0), What: "field", Count: 1, Bytes: len(children[next].value)}
		default:
			l.What = "fields"
		}
		c.left = append(c.left, l)
	}
	for i, room := range rooms {
		ch := &children[i]
		if room += spare; room < ch.least(depth) {
			if array {
				break // what follows would get another index
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

// look finds the children of a container that may fit, and counts all.
func look(value []byte, room int) (children []child, count, bytes int) {
	add := func(raw, name, value []byte) {
		count++
		bytes += len(raw)
		if count <= max(room, 0)/2+1 { // the shortest takes one character and its comma
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

// level is the share that no child gets more than where they share a room: those that
// are smaller leave what they do not need to the others.
func level(children []child, room int) int {
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
	return max(room, leastShare) // all of them fit
}

// whole gives the first children all they need, and the next one what is left if that is
// more than half of the room.
func whole(children []child, room int) (rooms []int) {
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

// child appends what of a child fits, and returns the characters it takes with its
// comma.
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

// least is how many characters a child takes at least, if anything of it is there.
func (ch *child) least(depth int) int {
	switch {
	case ch.value[0] == '"':
		return min(ch.head+leastCut+3, ch.size)
	case (ch.value[0] == '{' || ch.value[0] == '[') && depth < maxDepth:
		return min(ch.head+3, ch.size)
	}
	return ch.size
}

// text appends the beginning of a string.
func (c *cutter) text(value []byte, room int, at string, shift int) {
	text, _ := jsonrpc.String(value)
	n := 0
	room -= 2 // its quotes
	for i, r := range text {
		if room -= width(r); room < 0 {
			break
		}
		n = i + utf8.RuneLen(r)
	}
	c.out = jsonrpc.AppendString(c.out, text[:n])
	if rest := text[n:]; rest != "" {
		c.left = append(c.left, Left{
			Pointer: at, What: "text", From: n + shift, Count: utf8.RuneCountInString(rest), Bytes: len(rest),
		})
	}
}

// width is how many characters a character takes in JSON at most.
func width(r rune) int {
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
