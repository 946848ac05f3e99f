package excerpt

import (
	"strconv"
	"unicode/utf8"

	"mcpschedd/internal/jsonrpc"
)

const (
	leastCut = 16 // characters left of a string that is cut, where it may be left out instead

	// What is nested deeper, or too large to be looked at once more after the levels
	// above it, is there whole or not at all: brackets around brackets take no longer
	// than any other value of their length.
	maxDepth = 64
	looks    = 8       // at each byte of a value, on average
	moreWork = 4 << 20 // bytes that may be looked at beyond that
)

// cutter cuts one value, to one size after another.
type cutter struct {
	pointer string               // to the value
	offset  int                  // items, fields or bytes that stand before it in the whole
	known   map[*byte]*container // by the first byte
	work    int                  // bytes that may still be looked at
	out     []byte
	left    []Left
}

func (c *cutter) cut(value []byte, size, room int) {
	c.out, c.left = nil, nil
	if size <= room {
		c.out = value
		return
	}
	c.value(value, room, c.pointer, c.offset, 0)
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
	k := c.look(value, room)
	rooms := k.share(room - 1) // each child has a comma, and a bracket stands for one of them
	c.out = append(c.out, value[0])
	next, spare := 0, 0 // next: the first child that is neither kept nor named
	for i := range rooms {
		ch := &k.children[i]
		room := rooms[i] + spare
		if room < c.least(ch, depth+1) {
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
		spare = room - c.child(ch, room, ch.pointer(at, i+shift), depth+1)
	}
	c.name(k, next, k.count, at, shift)
	c.out = append(c.out, value[0]+2) // brackets are two apart
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
	c.value(ch.value, room-ch.head-1, at, 0, depth)
	return ch.head + utf8.RuneCount(c.out[before:]) + 1
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
	inner := value[1 : len(value)-1]
	n := units(inner, room-2)
	c.out = append(c.out, value[:1+n]...)
	c.out = append(c.out, '"')
	kept, _ := jsonrpc.String(c.out[len(c.out)-n-2:])
	all, _ := jsonrpc.String(value)
	rest := all[len(kept):]
	if rest == "" {
		return // a limit that not even its quotes are within
	}
	c.left = append(c.left, Left{
		Pointer: at, What: "text", From: len(kept) + shift, Count: utf8.RuneCountInString(rest), Bytes: len(rest),
	})
}

// units is how many bytes of the inside of a string are up to so many characters,
// where no escape, nor the two of a surrogate pair, is divided.
func units(inner []byte, room int) int {
	i := 0
	for i < len(inner) {
		bytes, chars := unit(inner[i:])
		if room -= chars; room < 0 {
			break
		}
		i += bytes
	}
	return i
}

func unit(s []byte) (bytes, chars int) {
	switch {
	case s[0] < utf8.RuneSelf && s[0] != '\\':
		return 1, 1
	case s[0] != '\\':
		_, bytes = utf8.DecodeRune(s)
		return bytes, 1
	case len(s) < 2 || s[1] != 'u':
		return min(2, len(s)), 2
	case len(s) >= 12 && s[6] == '\\' && s[7] == 'u' && surrogate(s[2:], 'b') && surrogate(s[8:], 'f'):
		return 12, 12
	}
	return min(6, len(s)), 6
}

// surrogate reports whether four digits are half of a surrogate pair: d800 to dbff
// if last is b, dc00 to dfff if it is f.
func surrogate(digits []byte, last byte) bool {
	second := digits[1] | 0x20
	if digits[0]|0x20 != 'd' {
		return false
	}
	if last == 'b' {
		return second == '8'|0x20 || second == '9'|0x20 || second == 'a' || second == 'b'
	}
	return 'c' <= second && second <= 'f'
}

func (ch *child) pointer(at string, index int) string {
	if ch.head == 0 {
		return at + "/" + strconv.Itoa(index)
	}
	return at + "/" + jsonrpc.PointerToken(string(ch.name))
}
