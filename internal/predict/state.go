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
const version = 3

// record is one line of a state: a checksum, a space and this as JSON. Only one
// member is set. What fewer sessions used than make it public is there as hashes alone,
// and what looks like a secret is not there at all.
type record struct {
	Version   int             `json:"v,omitempty"`
	Sessions  int             `json:"sessions,omitempty"`
	Counts    []savedCount    `json:"counts,omitempty"`
	Order     []savedOrder    `json:"order,omitempty"`
	Mixer     *savedMixer     `json:"mixer,omitempty"`
	Template  *savedTemplate  `json:"template,omitempty"`
	Withheld  []savedWithheld `json:"withheld,omitempty"`
	Constants *savedConstants `json:"constants,omitempty"`
	Tool      *savedTool      `json:"tool,omitempty"`
	Edge      *savedEdge      `json:"edge,omitempty"`
	Bar       *savedBar       `json:"bar,omitempty"`
}

type (
	savedCount struct {
		H    hash    `json:"h"`
		Hits float32 `json:"y,omitempty"`
		N    float32 `json:"n"`
	}
	savedOrder struct {
		H     hash    `json:"h"`
		Total float32 `json:"t,omitempty"` // of a context
		Joint float32 `json:"j,omitempty"` // of a context with what followed it
	}
	savedMixer struct {
		Set  hash      `json:"set"`
		W    []float32 `json:"w"`
		Seen []float32 `json:"seen"`
	}
	savedTemplate struct {
		Trigger string        `json:"trigger"`
		Target  string        `json:"target"`
		Pieces  []string      `json:"pieces"`
		Kinds   []kind        `json:"kinds"`
		Sources []savedSource `json:"sources"`
		Driver  int           `json:"driver"`
		Support float32       `json:"support"`
		Deepest int           `json:"deepest"`
	}
	savedSource struct {
		valueSource
		Text string `json:"text,omitempty"` // of a constant
		Kind kind   `json:"kind,omitempty"`
	}
	savedConstants struct {
		H      hash         `json:"h"`
		Total  float32      `json:"total"`
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
		Agreed  int            `json:"agreed,omitempty"`
		Labels  int            `json:"labels,omitempty"`
	}
	savedEdge struct {
		Trigger string  `json:"trigger"`
		Target  string  `json:"target"`
		Labels  int     `json:"labels"`
		Drift   float64 `json:"drift,omitempty"`
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
	base.stats, base.changes, base.counts.dropped = m.stats, m.changes, m.counts.dropped
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
	m.saveCounts(put)
	for _, set := range slices.Sorted(maps.Keys(m.mixers)) {
		put(record{Mixer: m.mixers[set].saved(set)})
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
		put(record{Tool: &savedTool{name, t.latency.cell, t.size.cell, t.lead.cell, [2]float32{t.useful.hits, t.useful.n}, t.agreed.n, t.labels.n}})
	}
	for _, n := range m.sortedEdges() {
		put(record{Edge: &savedEdge{n.trigger, n.target, m.edges[n].labels, m.edges[n].drift}})
	}
}

const perLine = 256 // small things in one record

func (m *Learner) saveCounts(put func(record)) {
	for some := range slices.Chunk(slices.Sorted(maps.Keys(m.counts.m)), perLine) {
		var r record
		for _, h := range some {
			r.Counts = append(r.Counts, savedCount{h, m.counts.m[h].hits, m.counts.m[h].n})
		}
		put(r)
	}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(m.order.total)), perLine) {
		var r record
		for _, h := range some {
			r.Order = append(r.Order, savedOrder{H: h, Total: m.order.total[h].n})
		}
		put(r)
	}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(m.order.joint)), perLine) {
		var r record
		for _, h := range some {
			r.Order = append(r.Order, savedOrder{H: h, Joint: m.order.joint[h].n})
		}
		put(r)
	}
}

// saved is a template as it is kept; false if it holds a value that may not be.
func (t *template) saved() (savedTemplate, bool) {
	r := savedTemplate{t.trigger, t.target, t.pieces, t.kinds, nil, t.driver, t.support.n, t.deepest}
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

func (w *weights) saved(set hash) *savedMixer {
	r := &savedMixer{Set: set}
	for i := range w.w {
		r.W, r.Seen = append(r.W, float32(w.w[i])), append(r.Seen, float32(w.seen[i]))
	}
	return r
}

func (f *few) saved(h hash) *savedConstants {
	r := &savedConstants{H: h, Total: f.total.n}
	for _, o := range f.values {
		r.Values = append(r.Values, savedValue{o.value, o.n.n, o.in.saved()})
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
