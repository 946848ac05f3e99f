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

// container is what was found in an array or object.
type container struct {
	array    bool
	children []child // the first: as many as could fit
	count    int     // all
	bytes    int     // of all
}

// child is an item or a field.
type child struct {
	raw   []byte     // as written
	value []byte     // the end of raw
	name  []byte     // of a field
	head  int        // characters before the value; 0: it is an item
	size  int        // characters, with the comma
	inner *container // of an array or object that was looked at
}

// look finds the children of a container that may fit, and counts the others.
func (c *cutter) look(of *child) *container {
	if of.inner != nil {
		return of.inner
	}
	c.work -= len(of.value)
	k := &container{array: of.value[0] == '['}
	of.inner = k
	add := func(raw, name, value []byte) {
		k.count++
		k.bytes += len(raw)
		if k.count <= max(c.most, 0)/2+1 { // the shortest takes one character and its comma
			head := utf8.RuneCount(raw[:len(raw)-len(value)])
			k.children = append(k.children, child{raw: raw, name: name, value: value, head: head, size: head + utf8.RuneCount(value) + 1})
		}
	}
	if k.array {
		for e := range jsonrpc.Elements(of.value) {
			add(e, nil, e)
		}
		return k
	}
	for m := range jsonrpc.Members(of.value) {
		add(m.Raw, m.Name, m.Value)
	}
	return k
}

// size is the bytes of children; to is one that was looked at, or all.
func (k *container) size(from, to int) int {
	sum := func(children []child) (bytes int) {
		for i := range children {
			bytes += len(children[i].raw)
		}
		return bytes
	}
	if to == k.count {
		return k.bytes - sum(k.children[:from])
	}
	return sum(k.children[from:to])
}

// share divides room among the first children; the others get none.
func (k *container) share(room int) []int {
	if !k.array && len(k.children) == k.count {
		if level := level(k.children, room); level >= leastShare {
			return fill(nil, k.children, level)
		}
	}
	return k.first(room)
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
		level := room / (len(sizes) - i)
		if size > level {
			return level
		}
		room -= size
	}
	return max(room, leastShare) // all of them fit
}

func fill(rooms []int, children []child, level int) []int {
	for i := range children {
		rooms = append(rooms, min(children[i].size, level))
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
	next := k.children[n:min(n+min(mostShown, max(left/leastShare, 1)), len(k.children))]
	if len(next) == 0 || left <= room/2 {
		return rooms
	}
	return fill(rooms, next, level(next, left))
}
