package predict

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
)

// version is the first record of a state. Another one is not read.
const version = 4

// record is one line of a state: a checksum, a space and this as JSON. Only one
// member is set. What fewer sessions used than make it public is there as hashes alone,
// and what looks like a secret is not there at all.
type record struct {
	Version   int             `json:"v,omitempty"`
	Sessions  int             `json:"sessions,omitempty"`
	Weights   []byte          `json:"weights,omitempty"`
	Outcomes  []savedOutcome  `json:"outcomes,omitempty"`
	Template  *savedTemplate  `json:"template,omitempty"`
	Withheld  []savedWithheld `json:"withheld,omitempty"`
	Constants *savedConstants `json:"constants,omitempty"`
	Tool      *savedTool      `json:"tool,omitempty"`
	Edge      *savedEdge      `json:"edge,omitempty"`
	Bar       *savedBar       `json:"bar,omitempty"`
}

type (
	savedOutcome struct {
		H     hash    `json:"h"`
		Right float32 `json:"y,omitempty"`
		Of    float32 `json:"n"`
	}
	savedTemplate struct {
		Trigger string        `json:"trigger"`
		Target  string        `json:"target"`
		Pieces  []string      `json:"pieces"`
		Kinds   []kind        `json:"kinds"`
		Names   []hash        `json:"names"`
		Sources []savedSource `json:"sources"`
		Driver  int           `json:"driver"`
		Support float32       `json:"support"`
		Deepest int           `json:"deepest"`
		Ranks   [4][2]float32 `json:"ranks"` // right, of
	}
	savedSource struct {
		valueSource
		Text string `json:"text,omitempty"` // of a constant
		Kind kind   `json:"kind,omitempty"`
	}
	savedConstants struct {
		H      hash         `json:"h"`
		Total  float32      `json:"total"`
		Texts  likeness     `json:"texts,omitzero"`
		Values []savedValue `json:"values"`
	}
	savedValue struct {
		H hash    `json:"h"`
		N float32 `json:"n"`
		savedSeen
	}
	savedWithheld struct {
		H       hash    `json:"h"`
		Support float32 `json:"support"`
		Last    int     `json:"last"`
		savedSeen
	}
	savedSeen struct {
		Sessions []uint64 `json:"in,omitempty"` // fewer than make it public
		Public   bool     `json:"public,omitempty"`
	}
	savedTool struct {
		Name    string         `json:"name"`
		Latency [cells]float32 `json:"latency"`
		Size    [cells]float32 `json:"size"`
		Lead    [cells]float32 `json:"lead"`
		Useful  [2]float32     `json:"useful"`
		Agreed  float32        `json:"agreed,omitempty"`
		Labels  float32        `json:"labels,omitempty"`
	}
	savedEdge struct {
		Trigger string  `json:"trigger"`
		Target  string  `json:"target"`
		Labels  float32 `json:"labels"`
	}
	savedBar struct {
		Tool string `json:"tool"`
		Why  string `json:"why"`
	}
)

// Merge returns the state to be kept: what stored holds and what was learned since
// the last merge, which is what several processes need to take turns at one file.
// The model goes on with the result. What of stored cannot be read is left out and
// reported; it is no reason not to go on.
func (m *Learner) Merge(stored []byte) ([]byte, error) {
	next, commit, err := m.Join(stored)
	commit()
	return next, err
}

// Join is [Model.Merge] for who may fail to keep what it returns: the model goes on
// with that once commit is called, and as if nothing had been joined if it is not.
// Nothing may be learned in between.
func (m *Learner) Join(stored []byte) (next []byte, commit func(), err error) {
	base := NewLearner(m.opt)
	err = base.load(stored)
	base.absorb(m)
	base.stats, base.changes, base.weights.dropped = m.stats, m.changes, m.weights.dropped
	var out bytes.Buffer
	base.save(&out)
	return out.Bytes(), func() { *m = *base }, err
}

// save writes the model, in an order that does not depend on chance.
func (m *Learner) save(w io.Writer) {
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
	put(record{Sessions: m.sessions})
	for some := range slices.Chunk(slices.Sorted(maps.Keys(m.weights.of)), 16*perLine) {
		var saved []byte
		for _, f := range some {
			saved = appendWeight(saved, f, m.weights.of[f])
		}
		put(record{Weights: saved})
	}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(m.outcomes)), perLine) {
		var saved []savedOutcome
		for _, h := range some {
			saved = append(saved, savedOutcome{h, m.outcomes[h].right.now, m.outcomes[h].of.now})
		}
		put(record{Outcomes: saved})
	}
	for _, symbol := range slices.Sorted(maps.Keys(m.templates)) {
		for _, t := range m.templates[symbol] {
			if r, ok := t.saved(); ok {
				put(record{Template: &r})
			}
		}
	}
	for some := range slices.Chunk(m.withholds(), perLine) {
		put(record{Withheld: some})
	}
	for _, h := range slices.Sorted(maps.Keys(m.constants)) {
		put(record{Constants: m.constants[h].saved(h)})
	}
	for _, name := range slices.Sorted(maps.Keys(m.tools)) {
		t := m.tools[name]
		put(record{Tool: &savedTool{name, t.latency.counts(), t.size.counts(), t.lead.counts(), t.useful.saved(), t.agreed.now, t.labels.now}})
	}
	for _, n := range m.sortedEdges() {
		put(record{Edge: &savedEdge{n.trigger, n.target, m.edges[n].labels.now}})
	}
}

const perLine = 256 // small things in one record

// saved is a template as it is kept; false if it holds a value that may not be.
func (t *template) saved() (savedTemplate, bool) {
	r := savedTemplate{t.trigger, t.target, t.pieces, t.kinds, t.names, nil, t.driver, t.support.now, t.deepest, [4][2]float32{}}
	for i := range t.ranks {
		r.Ranks[i] = t.ranks[i].saved()
	}
	if t.private() || slices.ContainsFunc(t.pieces, secretText) {
		return r, false
	}
	for i := range t.sources {
		s := t.sources[i]
		if s.tells() {
			return r, false
		}
		r.Sources = append(r.Sources, savedSource{s, s.Value.text, s.Value.kind})
	}
	return r, true
}

func (o *outcome) saved() [2]float32 { return [2]float32{o.right.now, o.of.now} }

func (f *few) saved(h hash) *savedConstants {
	r := &savedConstants{H: h, Total: f.total.now, Texts: f.texts}
	for _, o := range f.values {
		r.Values = append(r.Values, savedValue{o.value, o.n.now, o.in.saved()})
	}
	return r
}

// load reads what it can of a state: a line that is cut off or does not match its
// checksum is left out.
func (m *Learner) load(stored []byte) error {
	if len(stored) == 0 {
		return nil
	}
	lines, bad, known := 0, 0, false
	for line := range bytes.Lines(stored) {
		lines++
		r, ok := readRecord(bytes.TrimSuffix(line, []byte{'\n'}))
		switch {
		case !ok:
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

func readRecord(line []byte) (r record, ok bool) {
	sum, body, found := bytes.Cut(line, []byte{' '})
	if !found || string(sum) != fmt.Sprintf("%08x", crc32.ChecksumIEEE(body)) {
		return r, false
	}
	return r, json.Unmarshal(body, &r) == nil
}
