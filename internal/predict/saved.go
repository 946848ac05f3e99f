package predict

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// StateVersion is the version of the state format. Other versions are not read.
const StateVersion = 9

// State is the encoded learned state: Server belongs to the server wherever it is used, and
// Values, the values that its sessions used, to their working directory. Values that too few
// sessions used to be public are stored only as hashes, and apparent secrets not at all.
type State struct{ Server, Values []byte }

func (s State) hash() uint64 { return xxhash.Sum64(s.Server) ^ xxhash.Sum64(s.Values)*3 }

// serverPart is the content of State.Server.
type serverPart struct {
	Weights     []byte // see pack
	Templates   []*template
	Tools       map[string]*toolStats
	Pauses      sketch
	Concurrency ConcurrencyEvidence
}

// valuesPart is the content of State.Values.
type valuesPart struct {
	Templates []*template
	Arguments map[hash]*argument
	Seen      []byte // see pack; the oldest first
}

type savedWeight struct {
	Feature hash
	weight
}

type savedSighting struct {
	Of hash
	sighting
}

// save encodes the state.
func (m *state) save() State {
	s := serverPart{Tools: m.tools, Pauses: m.pauses, Concurrency: m.concurrency}
	v := valuesPart{Arguments: m.arguments}
	for _, symbol := range slices.Sorted(maps.Keys(m.templates)) {
		for _, t := range m.templates[symbol] {
			switch {
			case !m.persistent(t):
			case t.holdsValue():
				v.Templates = append(v.Templates, t)
			default:
				s.Templates = append(s.Templates, t)
			}
		}
	}
	weights := make([]savedWeight, 0, len(m.weights))
	for f, w := range m.weights {
		weights = append(weights, savedWeight{f, w})
	}
	var seen []savedSighting
	for _, of := range m.seen.Keys() {
		known, _ := m.seen.Peek(of)
		seen = append(seen, savedSighting{of, *known})
	}
	s.Weights, v.Seen = pack(weights), pack(seen)
	return State{encode(s), encode(v)}
}

// load decodes a state. It skips a part that is damaged or of another version.
func (m *state) load(stored State) error {
	return errors.Join(m.loadServer(stored.Server), m.loadValues(stored.Values))
}

func (m *state) loadServer(saved []byte) error {
	var p serverPart
	if err := decode(saved, &p); err != nil {
		return err
	}
	for _, w := range unpack[savedWeight](p.Weights) {
		if math.Abs(float64(w.W)) <= maxWeight && w.Gradients >= 0 { // both are false for NaN
			m.weights[w.Feature] = w.weight
		}
	}
	m.addTemplates(p.Templates)
	maps.Copy(m.tools, p.Tools)
	m.pauses, m.concurrency = p.Pauses, p.Concurrency
	return nil
}

func (m *state) loadValues(saved []byte) error {
	var p valuesPart
	if err := decode(saved, &p); err != nil {
		return err
	}
	m.addTemplates(p.Templates)
	maps.Copy(m.arguments, p.Arguments)
	for _, s := range unpack[savedSighting](p.Seen) {
		m.seen.Add(s.Of, &s.sighting)
	}
	return nil
}

// addTemplates adds loaded templates, as far as they are sound and there is room.
func (m *state) addTemplates(all []*template) {
	for _, t := range all {
		if !t.sound() || !m.hasRoom(m.templates[t.Trigger]) {
			continue
		}
		if t.derive(); m.template(t.Trigger, t.id) == nil { // an earlier version may have stored it elsewhere too
			m.add(t)
		}
	}
}

// pack encodes rows of numbers, for which gob would take ten times as long.
func pack[T any](rows []T) []byte {
	out, err := binary.Append(nil, binary.LittleEndian, rows)
	if err != nil {
		panic(err) // the types have a fixed size
	}
	return out
}

// unpack decodes the output of pack.
func unpack[T any](packed []byte) []T {
	var row T
	rows := make([]T, len(packed)/binary.Size(row))
	binary.Decode(packed, binary.LittleEndian, rows) // there are enough bytes
	return rows
}

var firstLine = fmt.Appendf(nil, "learned %d\n", StateVersion)

// encode encodes a part of a state after its version and checksum.
func encode(part any) []byte {
	var body bytes.Buffer
	if err := gob.NewEncoder(&body).Encode(part); err != nil {
		panic(err) // the types are fixed, and gob encodes them
	}
	out := binary.BigEndian.AppendUint64(slices.Clip(firstLine), xxhash.Sum64(body.Bytes()))
	return append(out, body.Bytes()...)
}

// decode decodes the output of encode; nothing if there is none.
func decode(saved []byte, part any) error {
	if len(saved) == 0 {
		return nil
	}
	sum, known := bytes.CutPrefix(saved, firstLine)
	switch {
	case !known:
		return fmt.Errorf("state: want version %d: learning starts over", StateVersion)
	case len(sum) < 8 || xxhash.Sum64(sum[8:]) != binary.BigEndian.Uint64(sum):
		return errors.New("state: damaged: learning starts over")
	}
	return gob.NewDecoder(bytes.NewReader(sum[8:])).Decode(part)
}
