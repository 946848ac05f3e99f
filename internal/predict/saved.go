package predict

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// StateVersion is the version of the state format. Other versions are not read.
const StateVersion = 7

// State is the encoded learned state: Server belongs to the server wherever it is used, and
// Values, the values that its sessions used, to their working directory. Values that too few
// sessions used to be public are stored only as hashes, and apparent secrets not at all.
type State struct{ Server, Values []byte }

// serverPart is the content of State.Server. Numbers holds all counters, as gob takes ten
// times as long to encode each of them separately.
type serverPart struct {
	Sessions    int
	Concurrency Concurrency
	Bars        [][2]string // tool and reason
	Weights     []byte
	Templates   []*template
	Tools       []string
	Numbers     []byte

	pauses *sketch
	tools  []*toolStats
}

func (p *serverPart) each(do func(*sum)) {
	p.pauses.each(do)
	for _, t := range p.Templates {
		t.each(do)
	}
	for _, t := range p.tools {
		t.each(do)
	}
}

// valuesPart is the content of State.Values.
type valuesPart struct {
	Templates []*template
	Sightings []*sightings
	Arguments []hash // of Constants
	Constants []*topValues
	Numbers   []byte
}

func (p *valuesPart) each(do func(*sum)) {
	for _, t := range p.Templates {
		t.each(do)
	}
	for _, top := range p.Constants {
		top.each(do)
	}
}

// save encodes the state in a deterministic order.
func (m *state) save() State {
	own, with := m.persistent()
	s := serverPart{Sessions: m.sessions, Concurrency: m.concurrency, Templates: own, pauses: &m.pauses}
	for _, tool := range slices.Sorted(maps.Keys(m.bars)) {
		s.Bars = append(s.Bars, [2]string{tool, m.bars[tool]})
	}
	s.Weights = make([]byte, 0, len(m.weights.byFeature)*weightSize)
	for _, f := range slices.Sorted(maps.Keys(m.weights.byFeature)) {
		s.Weights = appendWeight(s.Weights, f, m.weights.byFeature[f])
	}
	for _, name := range slices.Sorted(maps.Keys(m.tools)) {
		s.Tools, s.tools = append(s.Tools, name), append(s.tools, m.tools[name])
	}
	s.Numbers = appendNumbers(s.each)
	v := valuesPart{Templates: with, Sightings: m.newestSightings()}
	for _, h := range slices.Sorted(maps.Keys(m.constants)) {
		v.Arguments, v.Constants = append(v.Arguments, h), append(v.Constants, m.constants[h])
	}
	v.Numbers = appendNumbers(v.each)
	return State{encode(s), encode(v)}
}

// appendNumbers encodes numbers. Most are 0 or small integers, which take few bytes.
func appendNumbers(each func(func(*sum))) (out []byte) {
	each(func(s *sum) { out = binary.AppendUvarint(out, uint64(bits.ReverseBytes32(math.Float32bits(s.Now)))) })
	return out
}

var errDamaged = errors.New("state: damaged: learning starts over")

// readNumbers decodes numbers and marks them as saved.
func readNumbers(saved []byte, each func(func(*sum))) error {
	sound := true
	each(func(s *sum) {
		x, n := binary.Uvarint(saved)
		s.Now = math.Float32frombits(bits.ReverseBytes32(uint32(x)))
		s.base = s.Now
		sound = sound && n > 0 && s.valid()
		saved = saved[max(n, 0):]
	})
	if !sound || len(saved) > 0 {
		return errDamaged
	}
	return nil
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

// decode decodes the output of encode.
func decode(kept []byte, part any) error {
	sum, known := bytes.CutPrefix(kept, firstLine)
	switch {
	case !known:
		return fmt.Errorf("state: want version %d: learning starts over", StateVersion)
	case len(sum) < 8 || xxhash.Sum64(sum[8:]) != binary.BigEndian.Uint64(sum):
		return errDamaged
	}
	return gob.NewDecoder(bytes.NewReader(sum[8:])).Decode(part)
}

// persistent returns the templates that may be saved: those that belong to the server, and
// those that contain values.
func (m *state) persistent() (own, with []*template) {
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

// holdsValue reports whether a template contains a constant value.
func (t *template) holdsValue() bool {
	return slices.ContainsFunc(t.Sources, func(s valueSource) bool { return s.From == fromConstant || s.Base != "" })
}

// secret reports whether saving a template could disclose a secret.
func (t *template) secret() bool {
	may := func(part string) bool { return maySecret("", part) }
	t.harmless = t.harmless || !slices.ContainsFunc(t.Pieces, may) && !slices.ContainsFunc(t.Sources, func(s valueSource) bool {
		return may(s.Name) || may(s.Base) || may(s.Value.text)
	})
	return !t.harmless
}

// load decodes a state. It skips a part that is damaged or of another version.
func (m *state) load(stored State) error {
	var server, values error
	if len(stored.Server) > 0 {
		server = m.loadServer(stored.Server)
	}
	if len(stored.Values) > 0 {
		values = m.loadValues(stored.Values)
	}
	return errors.Join(server, values)
}

func (m *state) loadServer(kept []byte) error {
	p := serverPart{pauses: &sketch{}}
	if err := decode(kept, &p); err != nil {
		return err
	}
	if len(p.Tools) > maxTools || len(p.Bars) > maxBars {
		return errDamaged
	}
	for range p.Tools {
		p.tools = append(p.tools, &toolStats{})
	}
	if err := cmp.Or(validate(p.Templates), readNumbers(p.Numbers, p.each)); err != nil {
		return err
	}
	m.sessions, m.concurrency, m.pauses = min(max(p.Sessions, 0), math.MaxInt32), p.Concurrency, *p.pauses
	m.pauses.recount()
	for _, b := range p.Bars {
		m.bar(b[0], b[1])
	}
	m.weights.load(p.Weights)
	m.addTemplates(p.Templates)
	for i, name := range p.Tools {
		t := p.tools[i]
		for _, q := range []*sketch{&t.Latency, &t.Size, &t.Lead} {
			q.recount()
		}
		m.tools[name] = t
	}
	return nil
}

func (m *state) loadValues(kept []byte) error {
	var p valuesPart
	if err := decode(kept, &p); err != nil {
		return err
	}
	if len(p.Sightings) > maxSightings || len(p.Constants) > maxConstants || len(p.Arguments) != len(p.Constants) {
		return errDamaged
	}
	if err := cmp.Or(validate(p.Templates), readNumbers(p.Numbers, p.each)); err != nil {
		return err
	}
	m.addTemplates(p.Templates)
	for _, s := range p.Sightings {
		m.sightings[s.Of] = s
	}
	for i, h := range p.Arguments {
		m.constants[h] = p.Constants[i]
	}
	return nil
}

// addTemplates adds loaded templates, as far as there is room.
func (m *state) addTemplates(all []*template) {
	for _, t := range all {
		if m.hasRoom(m.templates[t.Trigger]) {
			t.derive()
			m.add(t)
		}
	}
}

// validate returns an error if the fields of a loaded template are inconsistent.
func validate(all []*template) error {
	for _, t := range all {
		n := len(t.Sources)
		if n > maxSlots || len(t.Kinds) != n || len(t.Names) != n || len(t.Pieces) != n+1 || t.Driver >= n || t.Driver < -1 || t.Deepest < 0 || t.Deepest >= maxRank {
			return errDamaged
		}
		for i := range t.Sources {
			s := &t.Sources[i]
			many := s.Pick == every || s.Pick == beside
			if many && s.From != fromResult || (s.Pick == every) != (i == t.Driver) || many && t.Driver < 0 || s.Pick > first || s.Pick < beside ||
				s.From == fromConstant && (s.Value.kind != t.Kinds[i] || !s.Value.valid()) {
				return errDamaged
			}
		}
	}
	return nil
}

// valid reports whether a loaded scalar can be encoded as JSON.
func (v scalar) valid() bool {
	switch v.kind {
	case number:
		return isNumber(v.text)
	case word:
		return v.text == "true" || v.text == "false" || v.text == "null"
	}
	return v.kind == text
}

// MarshalBinary encodes a scalar as its kind and its text.
func (v scalar) MarshalBinary() ([]byte, error) { return append([]byte{byte(v.kind)}, v.text...), nil }

// UnmarshalBinary decodes a scalar without validating it.
func (v *scalar) UnmarshalBinary(saved []byte) error {
	if len(saved) > 0 {
		*v = scalar{string(saved[1:]), kind(saved[0])}
	}
	return nil
}
