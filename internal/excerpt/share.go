package excerpt

import (
	"slices"
	"unicode/utf8"

	"mcpschedd/internal/jsonrpc"
)

const (
	leastShare = 48 // characters of each field; where there is less, the first fields are whole instead
	mostShown  = 4  // items that are cut, where whole ones would leave half of the room empty
)

// container is an array or object, as far as it was looked at.
type container struct {
	array    bool
	children []child // the first: as many as could fit
	count    int     // all
	bytes    int     // of all
	room     int     // that it was looked at for
}

// child is an item or a field.
type child struct {
	raw   []byte // as written
	value []byte // the end of raw
	name  []byte // of a field
	head  int    // characters before the value; 0: it is an item
	size  int    // characters, with the comma
}

// look finds the children of a container that may fit, and counts the others.
func (c *cutter) look(value []byte, room int) *container {
	k := c.known[&value[0]]
	if k != nil && (k.room >= room || len(k.children) == k.count) {
		return k
	}
	c.work -= len(value)
	k = &container{array: value[0] == '[', room: room}
	c.known[&value[0]] = k
	most := max(room, 0)/2 + 1 // the shortest takes one character and its comma
	if k.array {
		for e := range jsonrpc.Elements(value) {
			if k.add(len(e), most) {
				k.children = append(k.children, child{raw: e, value: e, size: utf8.RuneCount(e) + 1})
			}
		}
		return k
	}
	for m := range jsonrpc.Members(value) {
		if k.add(len(m.Raw), most) {
			head := utf8.RuneCount(m.Raw[:len(m.Raw)-len(m.Value)])
			k.children = append(k.children, child{
				raw: m.Raw, value: m.Value, name: m.Name, head: head, size: head + utf8.RuneCount(m.Value) + 1,
			})
		}
	}
	return k
}

// add counts a child, and reports whether it is among the first.
func (k *container) add(bytes, most int) bool {
	k.count++
	k.bytes += bytes
	return k.count <= most
}

// size is the bytes of children; to is one that was looked at, or all.
func (k *container) size(from, to int) int {
	sum := 0
	if to == k.count {
		for i := range k.children[:from] {
			sum += len(k.children[i].raw)
		}
		return k.bytes - sum
	}
	for i := from; i < to; i++ {
		sum += len(k.children[i].raw)
	}
	return sum
}

// least is how many characters a child takes at least, if anything of it is there.
func (c *cutter) least(ch *child, depth int) int {
	switch ch.value[0] {
	case '{', '[':
		if c.known[&ch.value[0]] != nil || depth <= maxDepth && len(ch.value) <= c.work {
			return min(ch.head+3, ch.size)
		}
	case '"':
		return min(ch.head+leastCut+3, ch.size)
	}
	return ch.size
}

// share divides room among the first children; the others get none.
func (k *container) share(room int) []int {
	if !k.array && len(k.children) == k.count {
		if level := k.level(0, k.count, room); level >= leastShare {
			return k.fill(nil, k.count, level)
		}
	}
	return k.first(room)
}

// level is the share that no child gets more than, where the room is divided among
// children from one up to another: those that are smaller leave what they do not
// need to the others.
func (k *container) level(from, to, room int) int {
	sizes := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		sizes = append(sizes, k.children[i].size)
	}
	slices.Sort(sizes)
	for i, size := range sizes {
		level := room / (len(sizes) - i)
		if size > level {
			return level
		}
		room -= size
	}
	return max(room, leastShare) // all of them fit
}

// fill adds the rooms of the children up to another one.
func (k *container) fill(rooms []int, to, level int) []int {
	for i := len(rooms); i < to; i++ {
		rooms = append(rooms, min(k.children[i].size, level))
	}
	return rooms
}

// first gives the first children all they need. If that leaves more than half of
// the room, the next few share it.
func (k *container) first(room int) []int {
	var rooms []int
	left := room
	for i := range k.children {
		if k.children[i].size > left {
			break
		}
		left -= k.children[i].size
		rooms = append(rooms, k.children[i].size)
	}
	n := len(rooms)
	more := min(n+mostShown, n+max(left/leastShare, 1), len(k.children))
	if n == more || left <= room/2 {
		return rooms
	}
	return k.fill(rooms, more, k.level(n, more, left))
}
