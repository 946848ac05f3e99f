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

// state is the learned state.
type state struct {
	weights   weights
	templates map[string][]*template // symbol of the trigger → templates
	kept      int                    // number of templates
	sightings map[hash]*sightings    // non-public template → sessions that used its values
	constants map[hash]*topValues    // tool and argument → values
	tools     map[string]*toolStats
	bars      map[string]string // tool → why it is never prefetched again
	pauses    sketch            // seconds from a result to the session's next call
	sessions  int

	concurrency Concurrency
}

// Concurrency counts the observations that the server handles calls in parallel, and that it
// handles them serially. Of several processes, the one with the most observations counts.
type Concurrency struct{ Parallel, Serial float64 }

// Concurrency returns the observations so far.
func (m *Model) Concurrency() Concurrency { return m.learned.concurrency }

// SetConcurrency replaces the observations.
func (m *Model) SetConcurrency(c Concurrency) { m.learned.concurrency = c }

// fingerprint identifies an encoded state.
type fingerprint [2]uint64

func fingerprintOf(stored State) fingerprint {
	return fingerprint{xxhash.Sum64(stored.Server), xxhash.Sum64(stored.Values)}
}

func newState() *state {
	return &state{
		weights: weights{byFeature: map[hash]weight{}}, templates: map[string][]*template{}, sightings: map[hash]*sightings{},
		constants: map[hash]*topValues{}, tools: map[string]*toolStats{}, bars: map[string]string{},
	}
}

// Snapshot is a copy of a model's learned state that is being saved.
type Snapshot struct {
	learned, result   *state
	lastSaved, merged fingerprint // fingerprints of the state saved last and of result
}

// Snapshot copies the learned state. There must be no second Snapshot before [Model.Adopt].
func (m *Model) Snapshot() *Snapshot {
	s := &Snapshot{learned: m.learned.clone(), lastSaved: m.lastSaved}
	m.learned.rebase()
	return s
}

// Merge returns the state to save: the stored state plus what this process has learned since
// its last merge, so that several processes can share one file. If stored is what this process
// saved last, or it has saved nothing and nothing is stored, the snapshot already contains all,
// and stored is not decoded. Merge reports and skips unreadable parts of stored. Merge and
// [Snapshot.MarkWritten] may run concurrently with the model.
func (s *Snapshot) Merge(stored State) (next State, err error) {
	all := s.learned
	first := s.lastSaved == fingerprint{} && len(stored.Server) == 0 && len(stored.Values) == 0
	if !first && fingerprintOf(stored) != s.lastSaved {
		all = newState()
		err = all.load(stored)
		all.merge(s.learned)
	}
	next = all.save()
	s.result, s.merged = all, fingerprintOf(next)
	return next, err
}

// MarkWritten records that the merged state has been saved.
func (s *Snapshot) MarkWritten() {
	s.result.rebase()
	s.learned, s.lastSaved = s.result, s.merged
}

// Adopt makes the model continue with the merged state, if it has been saved, plus what it
// has learned since the snapshot.
func (m *Model) Adopt(s *Snapshot) {
	next := s.learned // still to be saved unless MarkWritten was called
	next.merge(m.learned)
	next.adopt(m.learned)
	m.learned, m.lastSaved = next, s.lastSaved
}

// Merge merges the stored state into the model and returns the state to save.
func (m *Model) Merge(stored State) (State, error) {
	s := m.Snapshot()
	next, err := s.Merge(stored)
	s.MarkWritten()
	m.Adopt(s)
	return next, err
}

// clone copies the mutable parts.
func (m *state) clone() *state {
	c := *m
	c.weights.byFeature, c.bars = maps.Clone(m.weights.byFeature), maps.Clone(m.bars)
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

// rebase marks everything learned so far as saved.
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

// adopt reuses the template objects of the old state, to which samples point, with the new
// contents.
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

// merge adds what a process, possibly this one, has learned since it loaded its state.
func (m *state) merge(o *state) {
	m.sessions = max(m.sessions, o.sessions)
	if c := m.concurrency; o.concurrency.Parallel+o.concurrency.Serial >= c.Parallel+c.Serial {
		m.concurrency = o.concurrency
	}
	m.pauses.merge(&o.pauses)
	m.weights.merge(&o.weights)
	for h, s := range o.sightings {
		known := m.sightings[h]
		if known == nil {
			known = &sightings{Of: h}
			m.sightings[h] = known
		}
		known.In.merge(s.In)
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
		m.constants[h].merge(top)
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
		if saved { // the stored state has dropped it since
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
	k.support.merge(t.support)
	k.labels.merge(t.labels)
	for r := range k.ranks {
		k.ranks[r].merge(&t.ranks[r])
	}
	k.Deepest = max(k.Deepest, t.Deepest)
}
