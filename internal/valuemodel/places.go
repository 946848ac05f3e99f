package valuemodel

import (
	"encoding/binary"
	"hash/fnv"
	"io"
	"slices"
	"strings"

	"mcpschedd/internal/call"
)

// Reads returns the places on which the result of a call depends: the tool's domains,
// and for each edge to the tool a place, or two if it matches arguments. The slice must not
// be modified.
func (m *Model) Reads(args Arguments) []call.Place {
	if len(m.matchedReads) == 0 {
		return m.reads
	}
	out := make([]call.Place, len(m.reads), len(m.reads)+len(m.matchedReads))
	copy(out, m.reads)
	for _, s := range m.matchedReads {
		slot, ok := s.value(args)
		if !ok {
			slot = s.any // any write through the edge may change it
		}
		out = append(out, call.Place{Slot: slot})
	}
	return out
}

// Writes returns the places that a call may change if it is a write. They must not be
// modified.
func (m *Model) Writes(args Arguments) call.Effect {
	e := call.Effect{Places: m.writes, Remote: m.slowToShow}
	if len(m.matchedWrites) == 0 {
		return e
	}
	e.Places = slices.Clone(m.writes)
	unknown := false
	for _, s := range m.matchedWrites {
		if slot, ok := s.value(args); ok {
			e.Places = append(e.Places, call.Place{Slot: slot}, call.Place{Slot: s.any})
			continue
		}
		unknown = true
		e.Places = append(e.Places, call.Place{Slot: s.all})
	}
	if unknown && isTrue(m.InvalidatesOnly) {
		e.Places = append(e.Places, m.domainPlaces...)
	}
	return e
}

// setPlaces computes the places that do not depend on arguments. incoming are the edges of
// any tool to this one.
func (m *Model) setPlaces(incoming []Edge) {
	m.reads = slices.Clone(m.domainPlaces)
	for _, e := range incoming {
		s := newEdgeSlots(e)
		m.reads = append(m.reads, call.Place{Slot: s.all})
		if len(e.Match) > 0 {
			m.matchedReads = append(m.matchedReads, s)
		}
	}
	if !isTrue(m.InvalidatesOnly) {
		m.writes = slices.Clone(m.domainPlaces)
	}
	for _, e := range m.Invalidates {
		s := newEdgeSlots(e)
		if len(e.Match) == 0 {
			m.writes = append(m.writes, call.Place{Slot: s.all})
		} else {
			m.matchedWrites = append(m.matchedWrites, s)
		}
	}
}

// edgeSlots are the slots of one edge. Every result that the edge names depends on the
// slot all. If the edge matches arguments, a result also depends on the slot of its
// values, or on the slot any if they are unknown. A write changes the slot of its values
// and any, or all if its values are unknown.
type edgeSlots struct {
	match    []string
	all, any uint64
	values   uint64 // seed of the hash of values
}

func newEdgeSlots(e Edge) edgeSlots {
	id := e.id()
	return edgeSlots{
		match:  e.Match,
		all:    nonZero(hash(0, "all", id)),
		any:    nonZero(hash(0, "any", id)),
		values: hash(0, "value", id),
	}
}

// value returns the slot of a call's values; false if a value is missing or not a scalar.
func (s edgeSlots) value(args Arguments) (uint64, bool) {
	h := s.values
	for _, name := range s.match {
		text, ok := scalar(args(name))
		if !ok {
			return 0, false
		}
		h = hash(h, text)
	}
	return nonZero(h), true
}

// nonZero maps 0, which denotes a whole domain, to 1.
func nonZero(h uint64) uint64 { return max(h, 1) }

// hash extends the hash h by texts, each with its length. It is the same in every
// process, as replicas exchange slots.
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

// sorted returns the edge with its arguments sorted and without duplicates.
func (e Edge) sorted() Edge {
	e.Match = slices.Compact(slices.Sorted(slices.Values(e.Match)))
	return e
}

// Key returns the key of the edge in [Model.Sources].
func (e Edge) Key() string {
	if e = e.sorted(); len(e.Match) > 0 {
		return "invalidates." + e.Tool + " same " + strings.Join(e.Match, ", ")
	}
	return "invalidates." + e.Tool
}

// id returns a text that no other sorted edge has.
func (e Edge) id() string { return e.Tool + "\x00" + strings.Join(e.Match, "\x00") }

// edgeIndex is an index from tools to the edges that name them.
type edgeIndex struct {
	exact map[string][]Edge // bare or full name → edges to it
	globs []Edge
	forms []pattern // one per glob
}

// newEdgeIndex returns the index of edges.
func newEdgeIndex(all []Edge) edgeIndex {
	x := edgeIndex{exact: make(map[string][]Edge)}
	for _, e := range all {
		e = e.sorted()
		if p := parsePattern(e.Tool); p.form != globPattern {
			x.exact[e.Tool] = append(x.exact[e.Tool], e)
		} else {
			x.globs = append(x.globs, e)
			x.forms = append(x.forms, p)
		}
	}
	return x
}

// naming returns the edges that name a tool.
func (x edgeIndex) naming(upstream, tool string) []Edge {
	out := slices.Concat(x.exact[tool], x.exact[upstream+"/"+tool])
	for i, p := range x.forms {
		if p.matches(upstream, tool) {
			out = append(out, x.globs[i])
		}
	}
	return out
}
