package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schema"
)

// Resolve puts in what the references stand for, and gives compact JSON that is not
// to be changed. What is put in is data: nothing in it is a reference. Where the
// schema, which may be nil, wants a value of another type for a reference to go in,
// and the same can be said in that type, it is (see coerce).
//
// An error names the place; it is a [*Missing] where a reference leads to nothing.
// More than most bytes are an error; 0: any number.
func (t *Template) Resolve(look Lookup, want *schema.Schema, most int) ([]byte, error) {
	r := resolver{look: look, want: want, most: most, at: t.at}
	if err := r.node(t.root); err != nil {
		return nil, err
	}
	if !jsonrpc.Valid(r.out) {
		return nil, fmt.Errorf("%s: nested too deep", t.at)
	}
	return r.out, nil
}

// CheckConstants is what a schema finds wrong with the value whatever its references
// stand for: constants that do not fit, members that are missing or not known. What
// cannot be told before is not found wrong. The pointers lead into the plan.
func (t *Template) CheckConstants(s *schema.Schema) Defects {
	var o outline
	o.node(t.root)
	var wrong Defects
	for _, f := range s.FaultsOpen(o.out, o.open) {
		wrong = append(wrong, Defect{Pointer: t.at + pointerTo(f.Path), Message: f.Message})
	}
	for _, path := range o.texts {
		if wants := s.Wants(path); wants != nil && !slices.Contains(wants, "string") {
			wrong = append(wrong, Defect{Pointer: t.at + pointerTo(path), Message: fmt.Sprintf(
				`want %s, and "$tpl" is always a string; {"$ref": "step#/json/pointer"} is what it refers to`, strings.Join(wants, " or "))})
		}
	}
	return wrong
}

// pointerTo is the JSON pointer that leads along a path.
func pointerTo(path []string) string {
	var pointer strings.Builder
	for _, name := range path {
		pointer.WriteString("/" + jsonrpc.PointerToken(name))
	}
	return pointer.String()
}

type resolver struct {
	look Lookup
	want *schema.Schema
	most int
	at   string
	out  []byte
	path []string // names and indexes from the outermost value to the one at hand
}

func (r *resolver) node(n *node) error {
	switch {
	case n.constant != nil:
		return r.put(n.constant)
	case n.ref != nil:
		return r.value(n.ref)
	case n.text != nil:
		return r.text(n.text)
	case n.members != nil:
		return r.object(n.members)
	}
	return r.array(n.elements)
}

// put appends a part of the value, if there is room for it.
func (r *resolver) put(part []byte) error {
	if r.most > 0 && len(part) > r.most-len(r.out) {
		return fmt.Errorf("%s: more than %d bytes", r.at, r.most)
	}
	r.out = append(r.out, part...)
	return nil
}

func (r *resolver) value(ref *Ref) error {
	v, err := resolveRef(ref, r.look)
	if err != nil {
		return err
	}
	if r.want == nil {
		r.out = appendCompact(r.out, v.JSON)
		return r.put(nil)
	}
	return r.put(coerce(v, r.want, r.path))
}

func (r *resolver) text(pieces []piece) error {
	var text []byte
	for _, p := range pieces {
		if p.ref == nil {
			text = append(text, p.text...)
			continue
		}
		v, err := resolveRef(p.ref, r.look)
		if err != nil {
			return err
		}
		text = append(text, asText(v)...)
		if r.most > 0 && len(text) > r.most { // before they become more
			break
		}
	}
	return r.put(jsonrpc.AppendString(nil, string(text)))
}

func (r *resolver) object(members []member) error {
	before := []byte{'{'}
	for _, m := range members {
		if err := r.put(append(append(before, m.key...), ':')); err != nil {
			return err
		}
		r.path = append(r.path, m.name)
		if err := r.node(m.value); err != nil {
			return err
		}
		r.path = r.path[:len(r.path)-1]
		before = []byte{','}
	}
	return r.put([]byte{'}'})
}

func (r *resolver) array(elements []element) error {
	before := []byte{'['}
	i := 0
	for _, e := range elements {
		if err := r.put(before); err != nil {
			return err
		}
		r.path = append(r.path, strconv.Itoa(i))
		if err := r.node(e.value); err != nil {
			return err
		}
		r.path = r.path[:len(r.path)-1]
		i += e.n
		before = []byte{','}
	}
	return r.put([]byte{']'})
}

// outline is a value with null in the places that are not known.
type outline struct {
	out   []byte
	path  []string
	open  [][]string // paths of those places
	texts [][]string // of those of them that will hold a text
}

func (o *outline) node(n *node) {
	switch {
	case n.constant != nil:
		o.out = append(o.out, n.constant...)
	case n.members != nil:
		before := byte('{')
		for _, m := range n.members {
			o.out = append(append(append(o.out, before), m.key...), ':')
			o.within(m.name, m.value)
			before = ','
		}
		o.out = append(o.out, '}')
	case n.elements != nil:
		before := byte('[')
		i := 0
		for _, e := range n.elements {
			o.out = append(o.out, before)
			o.within(strconv.Itoa(i), e.value)
			i += e.n
			before = ','
		}
		o.out = append(o.out, ']')
	default:
		o.out = append(o.out, "null"...)
		o.open = append(o.open, slices.Clone(o.path))
		if n.text != nil {
			o.texts = append(o.texts, slices.Clone(o.path))
		}
	}
}

func (o *outline) within(name string, n *node) {
	o.path = append(o.path, name)
	o.node(n)
	o.path = o.path[:len(o.path)-1]
}
