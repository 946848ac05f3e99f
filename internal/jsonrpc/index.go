package jsonrpc

import (
	"iter"
	"slices"
)

// fewMembers is for how many members an [Index] makes room at first: as many as the params
// of most calls have.
const fewMembers = 4

// Index is the members of one object, found in a single walk over its bytes. All
// that is asked of it later costs a look at the names, not at the values: so what
// is asked several questions, like the params of a call, is indexed once and the
// index passed on, by its address.
//
// Values are slices of the object, which must not change meanwhile. The zero Index
// is that of an object without members.
type Index struct {
	obj    []byte
	places []place // of the members, in order
}

// NewIndex indexes obj, which must be valid JSON, such as a part of a parsed
// [Message]. What is no object (nil, null) has no members.
func NewIndex(obj []byte) Index {
	x := Index{obj: obj}
	for p, ok := firstMember(obj); ok; p, ok = nextMember(obj, p) {
		if x.places == nil {
			x.places = make([]place, 0, fewMembers)
		}
		x.places = append(x.places, p)
	}
	return x
}

// Raw returns the object as it was given to [NewIndex].
func (x *Index) Raw() []byte { return x.obj }

// Len is the number of members, repeated ones counted each time.
func (x *Index) Len() int { return len(x.places) }

// All yields the members in the order in which they are written, like [Members].
func (x *Index) All() iter.Seq[Member] {
	return func(yield func(Member) bool) {
		for _, p := range x.places {
			if !yield(p.member(x.obj)) {
				return
			}
		}
	}
}

// Get returns the value of the first member called name, nil if there is none,
// like [Get].
func (x *Index) Get(name string) []byte {
	for _, p := range x.places {
		if p.named(x.obj, name) {
			return p.of(x.obj)
		}
	}
	return nil
}

// Set is [Set] for the object, without a walk over it.
func (x *Index) Set(name string, value []byte) []byte {
	found := false
	out := x.rewrite(len(name)+len(value)+len(`{,"":}`), func(m Member) []byte {
		switch {
		case string(m.Name) != name:
			return m.Value
		case found:
			return nil
		}
		found = true
		return value
	})
	if !found {
		out = AppendMember(out, name, value)
	}
	return append(out, '}')
}

// Sole returns the value of the member called name if no server can take another
// member for it. One that is also called name, be it in other letters, is a rival,
// whether it stands beside the member or in its place: many servers ignore case,
// and of two members most take the last. rival is the name of the first of them; nil
// if there is none.
func (x *Index) Sole(name string) (value, rival []byte) {
	for _, p := range x.places {
		switch is := p.named(x.obj, name); {
		case is && value == nil:
			value = p.of(x.obj)
		case is || compareFolded(p.name(x.obj), []byte(name)) == 0:
			return nil, p.name(x.obj)
		}
	}
	return value, nil
}

// Unambiguous reports whether every server reads the same members: no name is
// there twice, whatever the case of its letters. Values are not looked at.
func (x *Index) Unambiguous() bool {
	var few [4 * fewMembers][]byte
	names := few[:0]
	for _, p := range x.places {
		names = append(names, p.name(x.obj))
	}
	slices.SortFunc(names, compareFolded)
	for i := 1; i < len(names); i++ {
		if compareFolded(names[i-1], names[i]) == 0 {
			return false
		}
	}
	return true
}
