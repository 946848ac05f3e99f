package predict

import (
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"
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
	bars      map[string]string // tool → why it is never run early again
	pauses    sketch            // s from an answer to the session's next call
	sessions  int

	concurrency Concurrency
}

// Concurrency is the evidence of how the server works on several calls: pieces that say side by
// side, and pieces that say one after the other. Of several processes the most counts.
type Concurrency struct{ Parallel, Serial float64 }

// Concurrency is what is known of that.
func (m *Model) Concurrency() Concurrency { return m.learned.concurrency }

// Works notes how the server works on several calls.
func (m *Model) SetConcurrency(c Concurrency) { m.learned.concurrency = c }

// mark tells states apart.
type fingerprint [2]uint64

func fingerprintOf(stored State) fingerprint {
	return fingerprint{xxhash.Sum64(stored.Server), xxhash.Sum64(stored.Values)}
}

func newState() *state {
	return &state{
		weights: weights{of: map[hash]weight{}}, templates: map[string][]*template{}, sightings: map[hash]*sightings{},
		constants: map[hash]*topValues{}, tools: map[string]*toolStats{}, bars: map[string]string{},
	}
}

// Snapshot is what a model had learned at one moment, on its way to where that is kept.
type Snapshot struct {
	learned, result   *state
	lastSaved, merged fingerprint // of what was last kept, and of what is to be kept now
}

// Snapshot takes one. Until it is taken up again with [Model.Kept] there must be no other.
func (m *Model) Snapshot() *Snapshot {
	s := &Snapshot{learned: m.learned.clone(), lastSaved: m.lastSaved}
	m.learned.rebase()
	return s
}

// Join returns the state to be kept: what stored holds and what was learned since the last
// merge, which is what several processes need to take turns at one file. Where stored is what
// this process kept last, that is what it has learned, and stored is not decoded. What of it
// cannot be read is left out and reported; it is no reason not to go on. It may run beside the
// model, and so may [Snapshot.Written].
func (s *Snapshot) Merge(stored State) (next State, err error) {
	all := s.learned
	if fingerprintOf(stored) != s.lastSaved {
		all = newState()
		err = all.load(stored)
		all.merge(s.learned)
	}
	next = all.save()
	s.result, s.merged = all, fingerprintOf(next)
	return next, err
}

// Written says that what was joined is written.
func (s *Snapshot) MarkWritten() {
	s.result.rebase()
	s.learned, s.lastSaved = s.result, s.merged
}

// Kept has the model go on with what was joined, if that is written now, and in any case with
// what it has learned since the snapshot was taken.
func (m *Model) Adopt(s *Snapshot) {
	next := s.learned // still to be kept, unless it is written
	next.merge(m.learned)
	next.adopt(m.learned)
	m.learned, m.lastSaved = next, s.lastSaved
}

// Merge is all of it at once: it returns the state to be kept, and the model goes on with that.
func (m *Model) Merge(stored State) (State, error) {
	s := m.Snapshot()
	next, err := s.Merge(stored)
	s.MarkWritten()
	m.Adopt(s)
	return next, err
}

// clone copies what may change.
func (m *state) clone() *state {
	c := *m
	c.weights.of, c.bars = maps.Clone(m.weights.of), maps.Clone(m.bars)
	c.templates = make(map[string][]*template, len(m.templates))
	for trigger, all := range m.templates {
		for _, t := range all {
			c.templates[trigger] = append(c.templates[trigger], shallowCopy(t))
		}
	}
	c.sightings, c.tools = copyMap(m.sightings), copyMap(m.tools)
	c.constants = copyMap(m.constants)
	for _, top := range c.constants {
		top.Values, top.Texts.Extensions = slices.Clone(top.Values), slices.Clone(top.Texts.Extensions)
	}
	return &c
}

func shallowCopy[V any](v *V) *V {
	c := *v
	return &c
}

func copyMap[K comparable, V any](all map[K]*V) map[K]*V {
	out := make(map[K]*V, len(all))
	for k, v := range all {
		out[k] = shallowCopy(v)
	}
	return out
}

// rebase has what was learned up to now count as kept.
func (m *state) rebase() {
	m.weights.labels = nil
	rebase := func(s *sum) { s.base = s.Now }
	m.pauses.each(rebase)
	for _, all := range m.templates {
		for _, t := range all {
			t.each(rebase)
		}
	}
	for _, top := range m.constants {
		top.each(rebase)
	}
	for _, t := range m.tools {
		t.each(rebase)
	}
}

// adopt keeps the templates of the model, as samples point to them, with what is now known.
func (m *state) adopt(old *state) {
	for trigger, all := range m.templates {
		for i, t := range all {
			if at := slices.IndexFunc(old.templates[trigger], func(o *template) bool { return o.id == t.id }); at >= 0 {
				known := old.templates[trigger][at]
				*known = *t
				all[i] = known
			}
		}
	}
}

// plus adds what another process, or this one, learned since its state was loaded.
func (m *state) merge(o *state) {
	m.sessions = max(m.sessions, o.sessions)
	if c := m.concurrency; o.concurrency.Parallel+o.concurrency.Serial >= c.Parallel+c.Serial {
		m.concurrency = o.concurrency
	}
	m.pauses.merge(&o.pauses)
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
		m.toolFor(name).merge(t)
	}
	for tool, why := range o.bars {
		m.bar(tool, why)
	}
}

func (m *state) addTemplate(t *template) {
	known := m.templates[t.Trigger]
	i := slices.IndexFunc(known, func(o *template) bool { return o.id == t.id })
	if i < 0 {
		if !m.hasRoom(known) {
			return
		}
		fresh := *t
		saved := !t.personal && !t.secret()
		if saved { // then what was kept of it was forgotten
			fresh.support, fresh.labels, fresh.ranks = sum{}, sum{}, [4]outcome{}
		}
		if seen := m.sightings[t.id]; seen != nil && seen.In.public() {
			fresh.personal = false
		}
		m.add(&fresh)
		if !saved {
			return
		}
		i, known = len(known), m.templates[t.Trigger]
	}
	k := known[i]
	k.harmless, k.personal = k.harmless || t.harmless, k.personal && t.personal
	k.support.plus(t.support)
	k.labels.plus(t.labels)
	for r := range k.ranks {
		k.ranks[r].plus(&t.ranks[r])
	}
	k.Deepest = max(k.Deepest, t.Deepest)
}
