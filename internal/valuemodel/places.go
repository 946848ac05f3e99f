package valuemodel

import (
	"encoding/binary"
	"hash/fnv"
	"io"
	"slices"
	"strings"

	"mcpschedd/internal/call"
)

// Reads returns the places that the answer to a call depends on: its domains,
// and a place for each edge that names the tool. It must not be written to.
func (m *Model) Reads(args Arguments) []call.Place {
	if len(m.bound) == 0 {
		return m.reads
	}
	out := make([]call.Place, len(m.reads), len(m.reads)+len(m.bound))
	copy(out, m.reads)
	for _, s := range m.bound {
		slot, ok := s.value(args)
		if !ok {
			slot = s.any // any write through the edge may be meant
		}
		out = append(out, call.Place{Slot: slot})
	}
	return out
}

// Writes returns what a call may change, whatever its class says. They
// must not be written to.
func (m *Model) Writes(args Arguments) call.Effect {
	e := call.Effect{Places: m.writes, Remote: m.remote}
	if len(m.aimed) == 0 {
		return e
	}
	e.Places = slices.Clone(m.writes)
	unknown := false
	for _, s := range m.aimed {
		if slot, ok := s.value(args); ok {
			e.Places = append(e.Places, call.Place{Slot: slot}, call.Place{Slot: s.any})
			continue
		}
		unknown = true
		e.Places = append(e.Places, call.Place{Slot: s.all})
	}
	if unknown && isTrue(m.InvalidatesOnly) {
		e.Places = append(e.Places, m.here...)
	}
	return e
}

// place works out the places of the model that depend on no argument. carried are the edges
// of any tool that name this one.
func (m *Model) place(carried []Edge) {
	m.reads = slices.Clone(m.here)
	for _, e := range carried {
		s := slotsOf(e)
		m.reads = append(m.reads, call.Place{Slot: s.all})
		if len(e.Match) > 0 {
			m.bound = append(m.bound, s)
		}
	}
	if !isTrue(m.InvalidatesOnly) {
		m.writes = slices.Clone(m.here)
	}
	for _, e := range m.Invalidates {
		s := slotsOf(e)
		if len(e.Match) == 0 {
			m.writes = append(m.writes, call.Place{Slot: s.all})
		} else {
			m.aimed = append(m.aimed, s)
		}
	}
	m.asks = m.Class.Reads() || m.Classify != "" || m.URLArgument != "" || len(m.aimed) > 0
}

// slots are the places of one edge. Every answer that it names depends on all,
// and, if the edge matches arguments, on the place of their values, or on any if
// they are not known. A write changes the place of its values and any; if they
// are not known, all.
type slots struct {
	match    []string
	all, any uint64
	values   uint64 // what the hash of values begins with
}

func slotsOf(e Edge) slots {
	key := e.key()
	return slots{
		match:  e.Match,
		all:    slot(hash(0, "all", key)),
		any:    slot(hash(0, "any", key)),
		values: hash(0, "value", key),
	}
}

// value is the place of a call's own values; false if one is missing or no
// scalar.
func (s slots) value(args Arguments) (uint64, bool) {
	h := s.values
	for _, name := range s.match {
		text, ok := scalar(args.raw(name))
		if !ok {
			return 0, false
		}
		h = hash(h, text)
	}
	return slot(h), true
}

// slot keeps 0, which stands for a whole domain, out of the hashes.
func slot(h uint64) uint64 { return max(h, 1) }

// hash goes on with a hash by texts, so that no two lists run together. It means the same in
// every process: replicas tell each other of slots.
func hash(h uint64, texts ...string) uint64 {
	sum := fnv.New64a()
	for _, text := range texts {
		var head [16]byte
		binary.BigEndian.PutUint64(head[:8], h)
		binary.BigEndian.PutUint64(head[8:], uint64(len(text)))
		sum.Write(head[:])
		io.WriteString(sum, text)
		h = sum.Sum64()
	}
	return h
}

// sorted returns the edge with its arguments in order, each once.
func (e Edge) sorted() Edge {
	e.Match = slices.Compact(slices.Sorted(slices.Values(e.Match)))
	return e
}

// Key is the name under which [Model.Sources] has the layer that set the edge.
func (e Edge) Key() string {
	if e = e.sorted(); len(e.Match) > 0 {
		return "invalidates." + e.Tool + " " + e.scope()
	}
	return "invalidates." + e.Tool
}

// key tells a sorted edge from any other.
func (e Edge) key() string { return e.Tool + "\x00" + strings.Join(e.Match, "\x00") }

// appendEdges appends those edges that were not seen.
func appendEdges(to []Edge, seen map[string]bool, more []Edge) []Edge {
	for _, e := range more {
		e = e.sorted()
		if key := e.key(); !seen[key] {
			seen[key] = true
			to = append(to, e)
		}
	}
	return to
}

// edges finds the edges that name a tool.
type edges struct {
	exact map[string][]Edge // bare or full name → edges to it
	globs []Edge
	forms []pattern // one for each glob
}

func index(all []Edge) edges {
	x := edges{exact: make(map[string][]Edge)}
	for _, e := range all {
		if p := parsePattern(e.Tool); p.exact {
			x.exact[e.Tool] = append(x.exact[e.Tool], e)
		} else {
			x.globs = append(x.globs, e)
			x.forms = append(x.forms, p)
		}
	}
	return x
}

func (x edges) naming(upstream, tool string) []Edge {
	out := slices.Concat(x.exact[tool], x.exact[upstream+"/"+tool])
	for i, p := range x.forms {
		if p.matches(upstream, tool) {
			out = append(out, x.globs[i])
		}
	}
	return out
}
