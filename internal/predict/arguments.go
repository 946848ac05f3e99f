package predict

import "mcpschedd/internal/jsonrpc"

// Bounds on arguments. A call beyond them only counts for the statistics of its tool.
const (
	maxSlots = 24
	maxSplit = 64 << 10 // bytes
)

// slot is a scalar in the arguments of a call.
type slot struct {
	name  string // path to it, with [] for array elements: "filter.ids[]"
	value scalar
}

// split splits canonical arguments into slots and the pieces of text around them, one more
// than slots. Two calls with the same pieces have the same shape.
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

// slotName returns the name of a slot.
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

// build inserts values between the pieces of a shape; false if the result is too long.
func build(pieces []string, values []scalar) (string, bool) {
	out := make([]byte, 0, 128)
	for i, v := range values {
		out = append(out, pieces[i]...)
		if v.kind != text {
			out = append(out, v.text...)
		} else if quoted := jsonrpc.AppendString(nil, v.text); len(quoted) == len(v.text)+2 {
			out = append(out, quoted...)
		} else { // escapes have several spellings
			out, _ = jsonrpc.AppendCanonical(out, quoted)
		}
	}
	out = append(out, pieces[len(values)]...)
	return string(out), len(out) <= maxSplit
}

// convert converts a value to the kind that a slot requires: the text "42" to a number, but
// not "abc".
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
