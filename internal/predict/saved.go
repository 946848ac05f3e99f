package predict

import (
	"bytes"
	"cmp"
	"encoding/gob"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// StateVersion is the first line of a state. Another one is not read.
const StateVersion = 6

// A state is lines, each with a checksum, so that what is damaged costs no more than the line
// that it is in: the version, then records. Each says whether it belongs to the server, wherever
// it is used, or holds values that its sessions used, which belong to the folder they worked in.
const (
	serverPart = "server"
	valuesPart = "values"
)

// record is what one line holds: a part of what was learned, as gob with its line breaks
// escaped, as JSON takes five times as long. What fewer sessions used than make it public is
// there as hashes alone, and what looks like a secret is not there at all.
type record struct {
	Sessions  int
	Pauses    *sketch
	Bars      []savedBar
	Weights   []byte
	Templates []*template
	Sightings []*sightings
	Constants []savedConstants
	Tools     []savedTool
	Edges     []savedEdge
}

type (
	savedBar       struct{ Tool, Why string }
	savedConstants struct {
		Of  hash
		Top *topValues
	}
	savedTool struct {
		Name  string
		Stats *toolStats
	}
	savedEdge struct {
		Trigger, Target string
		Labels          sum
	}
)

const perLine = 4096 // things in one record

var firstLine = appendLine(nil, fmt.Appendf(nil, `{"v":%d}`, StateVersion))

// save writes the state, in an order that does not depend on chance.
func (m *state) save() []byte {
	out := slices.Clone(firstLine)
	put := func(part string, r record) {
		var body bytes.Buffer
		body.WriteString(part + " ")
		if err := gob.NewEncoder(&body).Encode(r); err != nil {
			panic(err) // numbers and texts can be written
		}
		out = appendLine(out, escape(body.Bytes()))
	}
	var bars []savedBar
	for _, tool := range slices.Sorted(maps.Keys(m.bars)) {
		bars = append(bars, savedBar{tool, m.bars[tool]})
	}
	put(serverPart, record{Sessions: m.sessions, Pauses: &m.pauses, Bars: bars}) // first, as a file may be cut off
	for some := range slices.Chunk(slices.Sorted(maps.Keys(m.weights.of)), 4*perLine) {
		saved := make([]byte, 0, len(some)*weightSize)
		for _, f := range some {
			saved = appendWeight(saved, f, m.weights.of[f])
		}
		put(serverPart, record{Weights: saved})
	}
	own, with := m.shareable()
	for some := range slices.Chunk(own, perLine) {
		put(serverPart, record{Templates: some})
	}
	for some := range slices.Chunk(with, perLine) {
		put(valuesPart, record{Templates: some})
	}
	for some := range slices.Chunk(m.newestSightings(), perLine) {
		put(valuesPart, record{Sightings: some})
	}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(m.constants)), perLine) {
		var r record
		for _, h := range some {
			r.Constants = append(r.Constants, savedConstants{h, m.constants[h]})
		}
		put(valuesPart, r)
	}
	var edges []savedEdge
	for _, n := range slices.SortedFunc(maps.Keys(m.edges), compareEdges) {
		edges = append(edges, savedEdge{n.trigger, n.target, *m.edges[n]})
	}
	put(serverPart, record{Edges: edges})
	var tools []savedTool
	for _, name := range slices.Sorted(maps.Keys(m.tools)) {
		tools = append(tools, savedTool{name, m.tools[name]})
	}
	put(serverPart, record{Tools: tools})
	return out
}

// mark tells states apart by their records, in whatever order those are. The version, which
// stands in each part that a state is divided into, does not count.
type mark uint64

func markOf(stored []byte) (m mark) {
	for line := range bytes.Lines(stored) {
		if !bytes.Equal(line, firstLine) {
			m += mark(xxhash.Sum64(line))
		}
	}
	return m
}

func appendLine(out, body []byte) []byte {
	return append(append(fmt.Appendf(out, "%08x ", crc32.ChecksumIEEE(body)), body...), '\n')
}

// escape takes the line breaks out of a body.
func escape(body []byte) []byte {
	return bytes.ReplaceAll(bytes.ReplaceAll(body, []byte(`\`), []byte(`\\`)), []byte("\n"), []byte(`\n`))
}

func unescape(body []byte) []byte {
	out := make([]byte, 0, len(body))
	for {
		at := bytes.IndexByte(body, '\\')
		if at < 0 || at+1 == len(body) {
			return append(out, body...)
		}
		c := body[at+1]
		if c == 'n' {
			c = '\n'
		}
		out = append(append(out, body[:at]...), c)
		body = body[at+2:]
	}
}

// shareable are the templates that may be kept: those that belong to the server, and those
// that hold values.
func (m *state) shareable() (own, with []*template) {
	for _, symbol := range slices.Sorted(maps.Keys(m.templates)) {
		for _, t := range m.templates[symbol] {
			switch {
			case t.personal || t.secret():
			case t.holdsValue():
				with = append(with, t)
			default:
				own = append(own, t)
			}
		}
	}
	return own, with
}

// holdsValue reports whether a part of a template is always the same value.
func (t *template) holdsValue() bool {
	return slices.ContainsFunc(t.Sources, func(s valueSource) bool { return s.From == fromConstant || s.Base != "" })
}

// secret reports whether what is kept of a template could give a secret away.
func (t *template) secret() bool {
	may := func(part string) bool { return maySecret("", part) }
	t.harmless = t.harmless || !slices.ContainsFunc(t.Pieces, may) && !slices.ContainsFunc(t.Sources, func(s valueSource) bool {
		return may(s.Name) || may(s.Base) || may(s.Value.text)
	})
	return !t.harmless
}

// load reads what it can of a state: a line that is cut off or does not match its
// checksum is left out.
func (m *state) load(stored []byte) error {
	if len(stored) == 0 {
		return nil
	}
	lines, bad, known := 0, 0, false
	for line := range bytes.Lines(stored) {
		lines++
		body, err := checked(line)
		if err != nil {
			bad++
			continue
		}
		var is int
		if _, err := fmt.Sscanf(string(body[:min(len(body), 20)]), `{"v":%d`, &is); err == nil {
			if is != StateVersion {
				return fmt.Errorf("state: version %d, want %d: learning begins anew", is, StateVersion)
			}
			known = true
			continue
		}
		if !known {
			continue
		}
		if r, err := readRecord(body); err == nil {
			m.take(r)
		} else {
			bad++
		}
	}
	if bad > 0 || !known {
		return fmt.Errorf("state: %d of %d lines cannot be read", bad, lines)
	}
	return nil
}

// checked is the body of a line.
func checked(line []byte) ([]byte, error) {
	sum, body, found := bytes.Cut(bytes.TrimSuffix(line, []byte{'\n'}), []byte{' '})
	if !found || string(sum) != fmt.Sprintf("%08x", crc32.ChecksumIEEE(body)) {
		return nil, errors.New("state: a line that does not match its checksum")
	}
	return body, nil
}

func readRecord(body []byte) (*record, error) {
	_, saved, _ := bytes.Cut(body, []byte{' '})
	r := new(record)
	return r, gob.NewDecoder(bytes.NewReader(unescape(saved))).Decode(r)
}

// take puts one record of a state back, within the bounds of a model. What could not have been
// counted is left out.
func (m *state) take(r *record) {
	m.sessions = max(m.sessions, min(r.Sessions, math.MaxInt32))
	if r.Pauses != nil && kept(r.Pauses.each) {
		m.pauses = *r.Pauses
		m.pauses.count()
	}
	for _, b := range r.Bars {
		m.bar(b.Tool, cmp.Or(b.Why, "barred"))
	}
	m.weights.load(r.Weights)
	for _, t := range r.Templates {
		if t.whole() && kept(t.each) && m.room(m.templates[t.Trigger]) {
			t.seal()
			m.keep(t)
		}
	}
	for _, s := range r.Sightings {
		if len(m.sightings) < maxSightings {
			s.Last = min(s.Last, math.MaxInt32)
			m.sightings[s.Of] = s
		}
	}
	for _, c := range r.Constants {
		if c.Top != nil && kept(c.Top.each) && len(m.constants) < maxConstants {
			c.Top.Values = c.Top.Values[:min(len(c.Top.Values), maxTop)]
			m.constants[c.Of] = c.Top
		}
	}
	for _, t := range r.Tools {
		if t.Stats != nil && kept(t.Stats.each) && len(m.tools) < maxTools {
			for _, q := range []*sketch{&t.Stats.Latency, &t.Stats.Size, &t.Stats.Lead} {
				q.count()
			}
			m.tools[t.Name] = t.Stats
		}
	}
	for _, e := range r.Edges {
		if e.Labels.sound() && len(m.edges) < maxEdges {
			e.Labels.base = e.Labels.Now
			m.edges[edgeName{e.Trigger, e.Target}] = &e.Labels
		}
	}
}

// kept has numbers count as kept, and reports whether they could have been counted.
func kept(each func(func(*sum))) bool {
	all := true
	each(func(s *sum) {
		s.base = s.Now
		all = all && s.sound()
	})
	return all
}

// whole reports whether the parts of a template that was kept fit each other.
func (t *template) whole() bool {
	n := len(t.Sources)
	if n > maxSlots || len(t.Kinds) != n || len(t.Names) != n || len(t.Pieces) != n+1 || t.Driver >= n || t.Driver < -1 || t.Deepest < 0 || t.Deepest >= maxRank {
		return false
	}
	for i := range t.Sources {
		s := &t.Sources[i]
		many := s.Pick == every || s.Pick == beside
		if many && s.From != fromResult || (s.Pick == every) != (i == t.Driver) || many && t.Driver < 0 || s.Pick > first || s.Pick < beside {
			return false
		}
		if s.From == fromConstant && (s.Value.kind != t.Kinds[i] || !s.Value.valid()) {
			return false
		}
	}
	return true
}

// valid reports whether a scalar is one that can be written.
func (v scalar) valid() bool {
	switch v.kind {
	case number:
		return isNumber(v.text)
	case word:
		return v.text == "true" || v.text == "false" || v.text == "null"
	}
	return v.kind == text
}

// MarshalBinary writes a scalar as its kind and its text.
func (v scalar) MarshalBinary() ([]byte, error) { return append([]byte{byte(v.kind)}, v.text...), nil }

// UnmarshalBinary reads it; what it is, is checked where it is used.
func (v *scalar) UnmarshalBinary(saved []byte) error {
	if len(saved) > 0 {
		*v = scalar{string(saved[1:]), kind(saved[0])}
	}
	return nil
}
