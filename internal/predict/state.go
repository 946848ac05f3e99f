package predict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"slices"
)

// Bounds on a model.
const (
	maxTools    = 2048
	maxTriggers = 4096
)

// state is what was learned and is kept.
type state struct {
	weights   weights
	templates map[string][]*template // symbol of the trigger → templates
	kept      int                    // templates in all
	sightings map[hash]*sightings    // template that is not public → the sessions that had its values
	constants map[hash]*topValues    // tool and argument → its values
	tools     map[string]*toolStats
	edges     map[edgeName]*sum // follow-up → labels
	bars      map[string]string // tool → why it is never run early again
	pauses    sketch            // s from an answer to the session's next call
	sessions  int
}

func newState() *state {
	return &state{
		weights: weights{of: map[hash]weight{}}, templates: map[string][]*template{}, sightings: map[hash]*sightings{},
		constants: map[hash]*topValues{}, tools: map[string]*toolStats{}, edges: map[edgeName]*sum{}, bars: map[string]string{},
	}
}

// version is the first record of a state. Another one is not read.
const version = 5

// record is one line of a state: a checksum, a space and this as JSON. Only one
// member is set. What fewer sessions used than make it public is there as hashes alone,
// and what looks like a secret is not there at all.
type record struct {
	Version   int             `json:"v,omitempty"`
	Sessions  int             `json:"sessions,omitempty"`
	Pauses    *sketch         `json:"pauses,omitempty"`
	Bar       *savedBar       `json:"bar,omitempty"`
	Weights   []byte          `json:"weights,omitempty"`
	Template  *template       `json:"template,omitempty"`
	Sightings []*sightings    `json:"sightings,omitempty"`
	Constants *savedConstants `json:"constants,omitempty"`
	Tool      *savedTool      `json:"tool,omitempty"`
	Edge      *savedEdge      `json:"edge,omitempty"`
}

type (
	savedBar struct {
		Tool string `json:"tool"`
		Why  string `json:"why"`
	}
	savedConstants struct {
		Of  hash       `json:"h"`
		Top *topValues `json:"top"`
	}
	savedTool struct {
		Name  string     `json:"name"`
		Stats *toolStats `json:"stats"`
	}
	savedEdge struct {
		Trigger string `json:"trigger"`
		Target  string `json:"target"`
		Labels  sum    `json:"labels"`
	}
)

// Merge returns the state to be kept: what stored holds and what was learned since
// the last merge, which is what several processes need to take turns at one file.
// The model goes on with the result. What of stored cannot be read is left out and
// reported; it is no reason not to go on.
func (m *Model) Merge(stored []byte) ([]byte, error) {
	next, commit, err := m.Join(stored)
	commit()
	return next, err
}

// Join is [Model.Merge] where keeping what it returns may fail: the model goes on
// with that once commit is called, and as if nothing had been joined if it is not.
// Nothing may be learned in between.
func (m *Model) Join(stored []byte) (next []byte, commit func(), err error) {
	base := newState()
	err = base.load(stored)
	base.plus(m.learned)
	var out bytes.Buffer
	base.save(&out)
	return out.Bytes(), func() { m.learned = base }, err
}

const perLine = 256 // small things in one record

// save writes the state, in an order that does not depend on chance.
func (m *state) save(w io.Writer) {
	put := func(r record) {
		line, err := json.Marshal(r)
		if err != nil {
			panic(err) // finite numbers and valid text only
		}
		fmt.Fprintf(w, "%08x %s\n", crc32.ChecksumIEEE(line), line)
	}
	put(record{Version: version})
	for _, tool := range slices.Sorted(maps.Keys(m.bars)) { // first, as a file may be cut off
		put(record{Bar: &savedBar{tool, m.bars[tool]}})
	}
	put(record{Sessions: m.sessions, Pauses: &m.pauses})
	for some := range slices.Chunk(slices.Sorted(maps.Keys(m.weights.of)), 16*perLine) {
		var saved []byte
		for _, f := range some {
			saved = appendWeight(saved, f, m.weights.of[f])
		}
		put(record{Weights: saved})
	}
	for _, symbol := range slices.Sorted(maps.Keys(m.templates)) {
		for _, t := range m.templates[symbol] {
			if !t.personal && !t.secret() {
				put(record{Template: t})
			}
		}
	}
	for some := range slices.Chunk(m.newestSightings(), perLine) {
		put(record{Sightings: some})
	}
	for _, h := range slices.Sorted(maps.Keys(m.constants)) {
		put(record{Constants: &savedConstants{h, m.constants[h]}})
	}
	for _, name := range slices.Sorted(maps.Keys(m.tools)) {
		put(record{Tool: &savedTool{name, m.tools[name]}})
	}
	for _, n := range slices.SortedFunc(maps.Keys(m.edges), compareEdges) {
		put(record{Edge: &savedEdge{n.trigger, n.target, *m.edges[n]}})
	}
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
		r, err := readRecord(bytes.TrimSuffix(line, []byte{'\n'}))
		switch {
		case err != nil:
			bad++
		case lines == 1 && r.Version != version:
			return fmt.Errorf("state: version %d, want %d: learning begins anew", r.Version, version)
		case r.Version == version:
			known = true
		case known:
			m.take(&r)
		}
	}
	if bad > 0 || !known {
		return fmt.Errorf("state: %d of %d lines cannot be read", bad, lines)
	}
	return nil
}

func readRecord(line []byte) (r record, err error) {
	sum, body, found := bytes.Cut(line, []byte{' '})
	if !found || string(sum) != fmt.Sprintf("%08x", crc32.ChecksumIEEE(body)) {
		return r, errors.New("state: a line that does not match its checksum")
	}
	return r, json.Unmarshal(body, &r)
}

// take puts one record of a state back, within the bounds of a model.
func (m *state) take(r *record) {
	m.sessions = max(m.sessions, min(r.Sessions, math.MaxInt32))
	if r.Pauses != nil {
		m.pauses = *r.Pauses
	}
	m.weights.load(r.Weights)
	if t := r.Template; t != nil && t.whole() && m.room(m.templates[t.Trigger]) {
		t.seal()
		t.personal = false // else it would not be here
		m.keep(t)
	}
	for _, s := range r.Sightings {
		if s != nil && len(m.sightings) < maxSightings {
			s.Last = min(s.Last, math.MaxInt32)
			m.sightings[s.Of] = s
		}
	}
	if c := r.Constants; c != nil && c.Top != nil && len(m.constants) < maxConstants {
		c.Top.Values = c.Top.Values[:min(len(c.Top.Values), maxTop)]
		m.constants[c.Of] = c.Top
	}
	if t := r.Tool; t != nil && t.Stats != nil && len(m.tools) < maxTools {
		m.tools[t.Name] = t.Stats
	}
	if e := r.Edge; e != nil && len(m.edges) < maxEdges {
		m.edges[edgeName{e.Trigger, e.Target}] = &e.Labels
	}
	if b := r.Bar; b != nil && b.Why != "" {
		m.bar(b.Tool, b.Why)
	}
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

// MarshalText writes a scalar as its kind and its text.
func (v scalar) MarshalText() ([]byte, error) { return append([]byte{byte(v.kind)}, v.text...), nil }

// UnmarshalText reads it; what it is, is checked where it is used.
func (v *scalar) UnmarshalText(saved []byte) error {
	if len(saved) > 0 {
		*v = scalar{string(saved[1:]), kind(saved[0])}
	}
	return nil
}

// plus adds what another process, or this one, learned since its state was loaded.
func (m *state) plus(o *state) {
	m.sessions = max(m.sessions, o.sessions)
	m.pauses.plus(&o.pauses)
	m.weights.plus(&o.weights)
	for h, s := range o.sightings {
		known := m.sightings[h]
		if known == nil {
			known = &sightings{Of: h}
			m.sightings[h] = known
		}
		known.In.join(s.In)
		known.Last = max(known.Last, s.Last)
	}
	for _, list := range o.templates {
		for _, t := range list {
			m.addTemplate(t)
		}
	}
	for h, top := range o.constants {
		if m.constants[h] == nil {
			m.constants[h] = &topValues{}
		}
		m.constants[h].plus(top)
	}
	for name, t := range o.tools {
		m.tool(name).plus(t)
	}
	for n, labels := range o.edges {
		m.edge(n).plus(*labels)
	}
	for tool, why := range o.bars {
		m.bar(tool, why)
	}
}

func (m *state) addTemplate(t *template) {
	known := m.templates[t.Trigger]
	i := slices.IndexFunc(known, func(o *template) bool { return o.id == t.id })
	if i < 0 {
		if !m.room(known) {
			return
		}
		fresh := *t
		fresh.Support, fresh.Ranks = sum{}, [4]outcome{}
		if seen := m.sightings[t.id]; seen != nil && seen.In.public() {
			fresh.personal = false
		}
		m.keep(&fresh)
		i, known = len(known), m.templates[t.Trigger]
	}
	k := known[i]
	k.harmless = k.harmless || t.harmless
	k.Support.plus(t.Support)
	for r := range k.Ranks {
		k.Ranks[r].plus(&t.Ranks[r])
	}
	k.Deepest = max(k.Deepest, t.Deepest)
}
