package jsonrpc

import (
	"iter"
	"slices"
)

// indexed is how many members an [Index] holds without allocating: as many as the
// params of most calls have. It is copied with them, so that more would cost all calls.
const indexed = 4

// furtherMembers is for how many more members room is made at once.
const furtherMembers = 8

// Index is the members of one object, found in a single walk over its bytes. All
// that is asked of it later costs a look at the names, not at the values: so what
// is asked several questions, like the params of a call, is indexed once and the
// index passed on, by its address.
//
// Values are slices of the object, which must not change meanwhile. The zero Index
// is that of an object without members.
type Index struct {
	obj  []byte
	n    int // members in few
	few  [indexed]place
	more []place // the members behind those in few
}

// NewIndex indexes obj, which must be valid JSON, such as a part of a parsed
// [Message]. What is no object (nil, null) has no members.
func NewIndex(obj []byte) Index {
	x := Index{obj: obj}
	for p, ok := firstMember(obj); ok; p, ok = nextMember(obj, p) {
		if x.n < len(x.few) {
			x.few[x.n] = p
			x.n++
			continue
		}
		if x.more == nil {
			x.more = make([]place, 0, furtherMembers)
		}
		x.more = append(x.more, p)
	}
	return x
}

// Raw returns the object as it was given to [NewIndex].
func (x *Index) Raw() []byte { return x.obj }

// Len is the number of members, repeated ones counted each time.
func (x *Index) Len() int { return x.n + len(x.more) }

func (x *Index) place(i int) *place {
	if i < x.n {
		return &x.few[i]
	}
	return &x.more[i-x.n]
}

// All yields the members in the order in which they are written, like [Members].
func (x *Index) All() iter.Seq[Member] {
	return func(yield func(Member) bool) {
		for i := range x.Len() {
			if !yield(x.place(i).member(x.obj)) {
				return
			}
		}
	}
}

// Get returns the value of the first member called name, nil if there is none,
// like [Get].
func (x *Index) Get(name string) []byte {
	for i := range x.Len() {
		if p := x.place(i); p.named(x.obj, name) {
			return x.obj[p.value:p.valueEnd:p.valueEnd]
		}
	}
	return nil
}

// Repeated reports whether more than one member is called name: which of them a
// server reads cannot be told.
func (x *Index) Repeated(name string) bool {
	count := 0
	for i := range x.Len() {
		if x.place(i).named(x.obj, name) {
			count++
		}
	}
	return count > 1
}

// Sole returns the value of the member called name if no server can take another
// member for it. One that is also called name, be it in other letters, is a rival,
// whether it stands beside the member or in its place: many servers ignore case,
// and of two members most take the last. rival is the name of the first of them; nil
// if there is none.
func (x *Index) Sole(name string) (value, rival []byte) {
	for i := range x.Len() {
		p := x.place(i)
		switch is := p.named(x.obj, name); {
		case is && value == nil:
			value = x.obj[p.value:p.valueEnd:p.valueEnd]
		case is || compareFolded(p.name(x.obj), []byte(name)) == 0:
			return nil, p.name(x.obj)
		}
	}
	return value, nil
}

// Unambiguous reports whether every server reads the same members: no name is
// there twice, whatever the case of its letters. Values are not looked at.
func (x *Index) Unambiguous() bool {
	var few [indexed + furtherMembers][]byte
	names := few[:0]
	for i := range x.Len() {
		names = append(names, x.place(i).name(x.obj))
	}
	slices.SortFunc(names, compareFolded)
	for i := 1; i < len(names); i++ {
		if compareFolded(names[i-1], names[i]) == 0 {
			return false
		}
	}
	return true
}
