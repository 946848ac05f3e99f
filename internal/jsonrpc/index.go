package jsonrpc

import (
	"bytes"
	"iter"
	"strings"
)

const (
	fewMembers  = 4  // initial capacity of an [Index]: the params of most calls have no more members
	manyMembers = 16 // number of members above which their names are compared through a map
)

// Index holds the positions of the members of one object, found in a single walk over
// its bytes. Lookups then compare names and never walk over values. The params of a call
// are therefore indexed once, and a pointer to the index is passed on.
//
// Values are slices of the object, which must not be modified. The zero Index has no
// members.
type Index struct {
	obj   []byte
	spans []span // of the members, in order
}

// NewIndex indexes obj, which must be valid JSON, such as a part of a parsed
// [Message]. A nil obj, or a value that is not an object, has no members.
func NewIndex(obj []byte) Index {
	x := Index{obj: obj}
	for p, ok := firstMember(obj); ok; p, ok = nextMember(obj, p) {
		if x.spans == nil {
			x.spans = make([]span, 0, fewMembers)
		}
		x.spans = append(x.spans, p)
	}
	return x
}

// Raw returns the object that was indexed.
func (x *Index) Raw() []byte { return x.obj }

// Len returns the number of members; repeated members count separately.
func (x *Index) Len() int { return len(x.spans) }

// All yields the members in order, like [Members].
func (x *Index) All() iter.Seq[Member] {
	return func(yield func(Member) bool) {
		for _, p := range x.spans {
			if !yield(p.member(x.obj)) {
				return
			}
		}
	}
}

// Get returns the value of the first member called name, nil if there is none,
// like [Get].
func (x *Index) Get(name string) []byte {
	for _, p := range x.spans {
		if p.named(x.obj, name) {
			return p.of(x.obj)
		}
	}
	return nil
}

// Text is like the function [Text] for the indexed object.
func (x *Index) Text(name string) string {
	text, _ := String(x.Get(name))
	return text
}

// Set is like the function [Set] for the indexed object, without another walk.
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

// Sole returns the value of the member called name if no server can mistake another
// member for it. A second member with that name, or any member with that name in
// another case, is a rival: many servers ignore case, and of two equal names most take
// the last. If there is a rival, Sole returns a nil value and the rival's name.
func (x *Index) Sole(name string) (value, rival []byte) {
	for _, p := range x.spans {
		switch is := p.named(x.obj, name); {
		case is && value == nil:
			value = p.of(x.obj)
		case is || bytes.EqualFold(p.name(x.obj), []byte(name)):
			return nil, p.name(x.obj)
		}
	}
	return value, nil
}

// Unambiguous reports whether all member names differ, ignoring case, so that every
// server reads the same members. It does not look into values.
func (x *Index) Unambiguous() bool {
	if len(x.spans) > manyMembers {
		seen := make(map[string]bool)
		for _, p := range x.spans {
			seen[strings.ToLower(strings.ToUpper(string(p.name(x.obj))))] = true
		}
		return len(seen) == len(x.spans)
	}
	for i, p := range x.spans {
		for _, other := range x.spans[:i] {
			if bytes.EqualFold(p.name(x.obj), other.name(x.obj)) {
				return false
			}
		}
	}
	return true
}
