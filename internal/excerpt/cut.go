package excerpt

import (
	"strconv"
	"unicode/utf8"

	"mcpschedd/internal/jsonrpc"
)

const (
	leastCut = 16 // characters left of a string that is cut, where it may be left out instead

	// Each level of brackets is read once more than the one around it. Beyond so many
	// bytes what is nested is there whole or not at all, so that no value takes longer
	// than others of its length.
	looks    = 8       // at each byte of a value, on average
	moreWork = 4 << 20 // bytes that may be looked at beyond that
)

// cutter cuts one value, to one size after another.
type cutter struct {
	pointer string // to the value
	offset  int    // items, fields or bytes that stand before it in the whole
	most    int    // characters that are asked for at most
	work    int    // bytes that may still be looked at
	out     []byte
	left    []Left
}

func (c *cutter) cut(value *child, room int) {
	c.out, c.left = nil, nil
	if value.size <= room {
		c.out = value.value
		return
	}
	c.value(value, room, c.pointer, c.offset)
}

// value appends as much as fits of a value that is larger than room. shift is how
// much of it stands before it in the whole.
func (c *cutter) value(ch *child, room int, at string, shift int) {
	switch ch.value[0] {
	case '{', '[':
		c.container(ch, room, at, shift)
	case '"':
		c.text(ch.value, room, at, shift)
	default: // the outermost alone: others are left out
		c.out = append(c.out, "null"...)
		c.left = append(c.left, Left{Pointer: at, What: "text", Count: len(ch.value), Bytes: len(ch.value)})
	}
}

// container appends those children of an array or object that fit, and names the
// others.
func (c *cutter) container(ch *child, room int, at string, shift int) {
	k := c.look(ch)
	c.out = append(c.out, ch.value[0])
	next, spare := 0, 0                      // next: the first child that is neither kept nor named
	for i, room := range k.share(room - 1) { // each child has a comma, and a bracket stands for one of them
		ch := &k.children[i]
		if room += spare; room < c.least(ch) {
			if k.array {
				break // what follows would get another index
			}
			spare = room
			continue
		}
		c.name(k, next, i, at, shift)
		if next > 0 {
			c.out = append(c.out, ',')
		}
		next = i + 1
		spare = room - c.child(ch, room, ch.pointer(at, i+shift))
	}
	c.name(k, next, k.count, at, shift)
	c.out = append(c.out, ch.value[0]+2) // brackets are two apart
}

// child appends what of a child fits, and returns the characters it takes with its
// comma.
func (c *cutter) child(ch *child, room int, at string) int {
	if room >= ch.size {
		c.out = append(c.out, ch.raw...)
		return ch.size
	}
	c.out = append(c.out, ch.raw[:len(ch.raw)-len(ch.value)]...)
	before := len(c.out)
	c.value(ch, room-ch.head-1, at, 0)
	return ch.head + utf8.RuneCount(c.out[before:]) + 1
}

// least is how many characters a child takes at least, if anything of it is there.
func (c *cutter) least(ch *child) int {
	switch ch.value[0] {
	case '{', '[':
		if ch.inner != nil || len(ch.value) <= c.work {
			return min(ch.head+3, ch.size)
		}
	case '"':
		return min(ch.head+leastCut+3, ch.size)
	}
	return ch.size
}

// name names children that are left out.
func (c *cutter) name(k *container, from, to int, at string, shift int) {
	if from == to {
		return
	}
	l := Left{Pointer: at, What: "items", From: from + shift, Count: to - from, Bytes: k.size(from, to)}
	switch {
	case k.array:
	case l.Count == 1 && from < len(k.children):
		l.Pointer, l.What, l.From = k.children[from].pointer(at, 0), "field", 0
		l.Bytes = len(k.children[from].value)
	default:
		l.What = "fields"
	}
	c.left = append(c.left, l)
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
