package predict

import (
	"slices"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Bounds on a model.
const (
	maxTools    = 2048
	maxTriggers = 4096
	maxChanges  = 1 << 14 // since the last merge
)

// state is what was learned of one upstream. Several processes share it: each keeps the
// changes since its last merge, and a merge applies them to the state that is stored.
type state struct {
	weights     weights
	templates   map[string][]*template          // symbol of the trigger → templates
	kept        int                             // number of templates
	arguments   map[hash]*argument              // tool and argument → its values
	seen        *simplelru.LRU[hash, *sighting] // value of an argument, or private template → sessions that used it
	tools       map[string]*toolStats
	pauses      sketch // seconds from a result to the session's next call
	concurrency ConcurrencyEvidence
}

// ConcurrencyEvidence counts the observations that the server handles calls in parallel, and that it
// handles them serially. Of several processes, the one with the most observations counts.
type ConcurrencyEvidence struct{ Parallel, Serial float64 }

func newState() *state {
	seen, _ := simplelru.NewLRU[hash, *sighting](maxSeen, nil) // fails only for size 0
	return &state{
		weights: weights{}, templates: map[string][]*template{}, arguments: map[hash]*argument{}, seen: seen,
		tools: map[string]*toolStats{},
	}
}

// learn applies a change to the learned state, and keeps it for the next merge, which applies
// it to another state on another goroutine. So it must not refer to parts of a state, nor
// modify what it refers to.
func (m *Model) learn(change func(*state)) {
	change(m.learned)
	if m.changes = append(m.changes, change); len(m.changes) > maxChanges {
		m.changes, m.overflowed = slices.Clone(m.changes[maxChanges/4:]), true
	}
}

// Concurrency returns the observations so far.
func (m *Model) Concurrency() ConcurrencyEvidence { return m.learned.concurrency }

// SetConcurrency replaces the observations, unless more are known.
func (m *Model) SetConcurrency(c ConcurrencyEvidence) {
	m.learn(func(s *state) {
		if c.Parallel+c.Serial >= s.concurrency.Parallel+s.concurrency.Serial {
			s.concurrency = c
		}
	})
}

// Snapshot is what a model has learned since its last merge.
type Snapshot struct {
	changes []func(*state)
	whole   *State            // what to save if no other process has stored anything; nil unless older changes were dropped
	bars    map[string]string // all of them, as none may be lost
	merged  *state            // nil until merged, and if whole was saved
	saved   uint64            // hash of the state that was saved last
	next    uint64            // hash of the state that the last Merge returned
	written bool
}

// Snapshot returns what is to be saved. There must be no second one before [Model.Adopt].
func (m *Model) Snapshot() *Snapshot {
	s := &Snapshot{changes: m.changes, bars: m.learned.bars(), saved: m.saved}
	if m.overflowed {
		s.whole = new(m.learned.save())
	}
	m.changes, m.overflowed = nil, false
	return s
}

// Merge returns the state to save: the stored state, which other processes may have changed,
// with what this one has learned since its last merge. It reports and skips unreadable parts
// of stored. Merge and [Snapshot.MarkWritten] may run concurrently with the model. If stored was changed
// meanwhile, Merge is called again.
func (s *Snapshot) Merge(stored State) (next State, err error) {
	if found := stored.hash(); s.whole != nil && (found == s.saved || found == (State{}).hash()) {
		s.merged, s.next = nil, s.whole.hash()
		return *s.whole, nil
	}
	s.merged = newState()
	err = s.merged.load(stored)
	for _, change := range s.changes {
		change(s.merged)
	}
	for tool, why := range s.bars {
		s.merged.bar(tool, why)
	}
	next = s.merged.save()
	s.next = next.hash()
	return next, err
}

// MarkWritten records that the merged state has been saved.
func (s *Snapshot) MarkWritten() { s.written = true }

// Adopt makes the model continue with the merged state, if it has been saved, and what it has
// learned since the snapshot. Otherwise the next merge includes the snapshot.
func (m *Model) Adopt(s *Snapshot) {
	if !s.written {
		m.changes, m.overflowed = append(s.changes, m.changes...), m.overflowed || s.whole != nil
		return
	}
	m.saved = s.next
	next, old := s.merged, m.learned
	if next == nil {
		return
	}
	for _, change := range m.changes {
		change(next)
	}
	for tool, why := range old.bars() {
		next.bar(tool, why)
	}
	for _, all := range old.templates {
		for _, t := range all {
			if old.persistent(t) {
				continue
			}
			if known := next.template(t.Trigger, t.id); known != nil {
				*known = *t
			} else if next.hasRoom(next.templates[t.Trigger]) {
				next.add(t)
			}
		}
	}
	m.learned = next
}

// Merge merges the stored state into the model and returns the state to save.
func (m *Model) Merge(stored State) (State, error) {
	s := m.Snapshot()
	next, err := s.Merge(stored)
	s.MarkWritten()
	m.Adopt(s)
	return next, err
}
