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
// changes since its last merge, and a merge applies them to a state that another has stored.
type state struct {
	weights     weights
	templates   map[string][]*template          // symbol of the trigger → templates
	kept        int                             // number of templates
	arguments   map[hash]*argument              // tool and argument → its values
	seen        *simplelru.LRU[hash, *sighting] // value of an argument, or private template → sessions that used it
	tools       map[string]*toolStats
	pauses      sketch // seconds from a result to the session's next call
	concurrency Concurrency
}

// Concurrency counts the observations that the server handles calls in parallel, and that it
// handles them serially. Of several processes, the one with the most observations counts.
type Concurrency struct{ Parallel, Serial float64 }

func newState() *state {
	seen, _ := simplelru.NewLRU[hash, *sighting](maxSeen, nil) // fails only for size 0
	return &state{
		weights: weights{}, templates: map[string][]*template{}, arguments: map[hash]*argument{}, seen: seen,
		tools: map[string]*toolStats{},
	}
}

// learn applies a change to the learned state, and keeps it for the next merge, which applies
// it to another state. So it must not refer to parts of a state, nor modify what it refers to. If
// there are too many, the oldest are not merged with what other processes have stored.
func (m *Model) learn(change func(*state)) {
	change(m.learned)
	if m.changes = append(m.changes, change); len(m.changes) > maxChanges {
		m.changes = slices.Clone(m.changes[maxChanges/4:])
	}
}

// Concurrency returns the observations so far.
func (m *Model) Concurrency() Concurrency { return m.learned.concurrency }

// SetConcurrency replaces the observations.
func (m *Model) SetConcurrency(c Concurrency) {
	m.learn(func(s *state) {
		if c.Parallel+c.Serial >= s.concurrency.Parallel+s.concurrency.Serial {
			s.concurrency = c
		}
	})
}

// Save saves what was learned: store reads the stored state, which other processes may have changed,
// and writes the merged one. What is not written is saved the next time. unread is the error of
// reading the stored state, of which damaged parts are skipped.
func (m *Model) Save(store func(merge func(stored State) (State, error)) error) (unread, err error) {
	next, saved := m.learned, uint64(0)
	err = store(func(stored State) (State, error) { // may be called several times
		if next = m.learned; stored.hash() != m.saved {
			next, unread = m.merged(stored)
		}
		state := next.save()
		saved = state.hash()
		return state, nil
	})
	if err == nil {
		m.learned, m.saved, m.changes = next, saved, nil
	}
	return unread, err
}

// merged returns a stored state with the changes since the last merge, all bars, and what only this
// process may know.
func (m *Model) merged(stored State) (*state, error) {
	next := newState()
	err := next.load(stored)
	for _, change := range m.changes {
		change(next)
	}
	for name, t := range m.learned.tools {
		if t.Barred != "" {
			next.bar(name, t.Barred)
		}
	}
	for _, all := range m.learned.templates {
		for _, t := range all {
			if m.learned.persistent(t) {
				continue
			}
			if k := next.template(t.Trigger, t.id); k != nil {
				*k = *t
			} else {
				next.add(t)
			}
		}
	}
	return next, err
}

// Merge merges the stored state into the model and returns the state to save.
func (m *Model) Merge(stored State) (next State, err error) {
	err, _ = m.Save(func(merge func(State) (State, error)) error {
		next, _ = merge(stored)
		return nil
	})
	return next, err
}
