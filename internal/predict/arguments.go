package predict

import "mcpschedd/internal/jsonrpc"

// Bounds on the arguments that are looked at: a call beyond them is counted for
// its tool and nothing else.
const (
	maxSlots = 24
	maxSplit = 64 << 10 // bytes
)

// slot is a scalar of some arguments, and the way to it.
type slot struct {
	name  string // members joined by dots, [] for elements: "filter.ids[]"
	value scalar
}

// split takes canonical arguments apart into slots and the text around them: one
// piece more than slots. Two calls with the same pieces have the same shape.
func split(canonical string) (pieces []string, slots []slot, ok bool) {
	if len(canonical) > maxSplit {
		return nil, nil, false
	}
	d := parse([]byte(canonical))
	from := int32(0)
	for i := range d.nodes {
		n := &d.nodes[i]
		if n.kind == object || n.kind == array {
			continue
		}
		value, ok := d.scalar(int32(i))
		if !ok || len(slots) == maxSlots {
			return nil, nil, false
		}
		pieces = append(pieces, canonical[from:n.from])
		slots = append(slots, slot{d.slotName(int32(i)), value})
		from = n.to
	}
	return append(pieces, canonical[from:]), slots, !d.cut && !d.rest
}

// way is the name of a slot.
func (d *document) slotName(id int32) string {
	n := &d.nodes[id]
	switch {
	case n.parent < 0:
		return ""
	case n.name == nil:
		return d.slotName(n.parent) + "[]"
	case n.parent == 0:
		return string(n.name)
	}
	return d.slotName(n.parent) + "." + string(n.name)
}

// build puts values between the pieces of a shape; false if that is too long.
func build(pieces []string, values []scalar) (string, bool) {
	out := make([]byte, 0, 128)
	for i, v := range values {
		out = append(out, pieces[i]...)
		if v.kind != text {
			out = append(out, v.text...)
		} else if quoted := jsonrpc.AppendString(nil, v.text); len(quoted) == len(v.text)+2 {
			out = append(out, quoted...)
		} else { // an escape has several forms
			out, _ = jsonrpc.AppendCanonical(out, quoted)
		}
	}
	out = append(out, pieces[len(values)]...)
	return string(out), len(out) <= maxSplit
}

// as turns what was found somewhere into what the slot holds: 42 in a text is
// good for a number, "abc" is not.
func (v scalar) convert(k kind) (scalar, bool) {
	switch {
	case v.kind == k:
		return v, true
	case k == text && v.kind == number:
		return scalar{v.text, text}, true
	case k == number && v.kind == text && isNumber(v.text):
		return scalar{v.text, number}, true
	}
	return v, false
}

func (v scalar) hash() hash { return seed.num(int(v.kind)).str(v.text) }
