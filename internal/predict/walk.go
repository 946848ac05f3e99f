package predict

import (
	"iter"
	"slices"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/valuemodel"
)

// Bounds on the work for one binding.
const (
	maxVisited = 4096    // members and elements looked at
	maxScanned = 8 << 20 // bytes of them: what is nested is gone over once for each level
	maxFound   = 256     // values
	maxDepth   = 24      // levels down
	maxValue   = 8 << 10 // bytes of one value
)

// value is what a binding leads to, and the way there.
type value struct {
	raw []byte // JSON
	way []hop
}

// hop is one level down: to which member or element, and whether the binding left
// that open. Two values belong together as long as no open choice on their ways
// was made in two ways.
type hop struct {
	child int32
	open  bool
}

// find returns what a path leads to, in the order of the document, which must be
// valid JSON. null is nothing, and so is an empty text: it names nothing. cut says
// that there may be more.
func find(d document, path []valuemodel.Step) (found []value, cut bool) {
	w := walk{scalars: d.cut, cut: d.cut}
	if len(d.json) > 0 {
		w.down(d.json, path)
	}
	return w.found, w.cut
}

type walk struct {
	way     []hop
	found   []value
	visited int // nodes
	scanned int // bytes of them
	cut     bool
	scalars bool // an object or array may be less than it was
}

// down follows the rest of a path from a node.
func (w *walk) down(node []byte, path []valuemodel.Step) {
	if len(path) == 0 {
		w.land(node)
		return
	}
	switch s := path[0]; {
	case s.Deep:
		w.deep(node, path)
	case s.Name != "":
		for i, m := range w.members(node) {
			if string(m.Name) == s.Name {
				w.enter(hop{i, false}, m.Value, path[1:])
				return
			}
		}
	case s.Most > 0 && w.longer(node, s.Most):
	default:
		for i, element := range w.elements(node) {
			if s.All || int(i) == s.Index {
				w.enter(hop{i, s.All}, element, path[1:])
			}
			if !s.All && int(i) == s.Index {
				return
			}
		}
	}
}

// enter goes one level down, and comes back.
func (w *walk) enter(h hop, node []byte, path []valuemodel.Step) {
	w.way = append(w.way, h)
	w.down(node, path)
	w.way = w.way[:len(w.way)-1]
}

// deep finds every member of a name, however deep: first that of an object itself,
// as it stands.
func (w *walk) deep(node []byte, path []valuemodel.Step) {
	if len(w.way) >= maxDepth {
		w.cut = true
		return
	}
	for i, m := range w.members(node) {
		if string(m.Name) == path[0].Name {
			w.enter(hop{i, false}, m.Value, path[1:])
		}
		w.below(hop{i, true}, m.Value, path)
	}
	for i, element := range w.elements(node) {
		w.below(hop{i, true}, element, path)
	}
}

func (w *walk) below(h hop, node []byte, path []valuemodel.Step) {
	if len(node) == 0 || node[0] != '{' && node[0] != '[' {
		return
	}
	w.way = append(w.way, h)
	w.deep(node, path)
	w.way = w.way[:len(w.way)-1]
}

func (w *walk) land(node []byte) {
	switch {
	case w.scalars && (node[0] == '{' || node[0] == '['):
	case string(node) == "null" || string(node) == `""` || len(node) > maxValue:
	default:
		w.found = append(w.found, value{node, slices.Clone(w.way)})
	}
}

// longer reports whether an array has more elements than so many, or may have.
func (w *walk) longer(array []byte, most int) bool {
	if w.scalars { // what is not there was cut off
		return true
	}
	n := 0
	for range w.elements(array) {
		n++
		if n > most {
			return true
		}
	}
	return w.cut
}

// more reports whether another node may be looked at.
func (w *walk) more(node []byte) bool {
	w.visited++
	w.scanned += len(node)
	full := w.visited > maxVisited || w.scanned > maxScanned || len(w.found) >= maxFound
	w.cut = w.cut || full
	return !full
}

// members yields the members of an object with their places, as long as there is
// work left.
func (w *walk) members(node []byte) iter.Seq2[int32, jsonrpc.Member] {
	return func(yield func(int32, jsonrpc.Member) bool) {
		i := int32(0)
		for m := range jsonrpc.Members(node) {
			if !w.more(m.Value) || !yield(i, m) {
				return
			}
			i++
		}
	}
}

func (w *walk) elements(node []byte) iter.Seq2[int32, []byte] {
	return func(yield func(int32, []byte) bool) {
		i := int32(0)
		for e := range jsonrpc.Elements(node) {
			if !w.more(e) || !yield(i, e) {
				return
			}
			i++
		}
	}
}
