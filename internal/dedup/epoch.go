package dedup

import (
	"slices"
	"time"

	"mcpschedd/internal/call"
)

// slots is how many marks the places of all edges share. Two that meet in one
// forget more than they must, never less.
const slots = 1 << 14

// mark is what is known of the changes of one place.
type mark struct {
	epoch       uint64        // the counter when it may last have changed
	pending     int           // writes to it that are
	settleUntil time.Duration // so long after the store was made, awake: until then a remote one may not show
}

// epochs says when what may last have changed. The store's mutex guards it.
type epochs struct {
	now         uint64           // the counter: it only rises
	settleUntil time.Duration    // the latest of all marks
	global      mark             // everything there is, also what was never heard of
	domains     map[string]*mark // domain → mark, once something has changed it
	slots       []mark           // by the place's slot
}

func newEpochs() epochs {
	return epochs{domains: make(map[string]*mark), slots: make([]mark, slots)}
}

// at returns the mark of a place, to change it.
func (e *epochs) at(p call.Place) *mark {
	if p.Domain == "" {
		return &e.slots[p.Slot%slots]
	}
	m := e.domains[p.Domain]
	if m == nil {
		m = new(mark)
		e.domains[p.Domain] = m
	}
	return m
}

// of returns the mark of a place; nil if nothing has ever changed it.
func (e *epochs) of(p call.Place) *mark {
	if p.Domain == "" {
		return &e.slots[p.Slot%slots]
	}
	return e.domains[p.Domain]
}

// bump notes that what the mark stands for may have changed.
func (e *epochs) bump(m *mark) {
	e.now++
	m.epoch = e.now
}

// endWrite notes that a write to what the mark stands for has ended.
func (e *epochs) endWrite(m *mark) {
	m.pending--
	e.bump(m) // the change at the end
}

// since reports whether nothing that the mark stands for can have changed since
// the counter had that value.
func (m *mark) unchangedSince(epoch uint64) bool {
	if m.pending != 0 { // a pending write may take effect at any moment, and may have done so
		return false
	}
	return m.epoch <= epoch
}

// current reports whether an answer whose fetch began at that epoch is still
// good, as far as it depends on the world and the places. It takes two lists,
// for the call that asks may depend on other places than the one that fetched.
func (e *epochs) current(epoch uint64, fetched, asked []call.Place) bool {
	changed := func(m *mark) bool { return !m.unchangedSince(epoch) }
	return !e.any(fetched, changed) && !e.any(asked, changed)
}

// settling reports whether a remote change of one of the places may still not
// show, so long after the store was made.
func (e *epochs) settling(places []call.Place, awake time.Duration) bool {
	return e.any(places, func(m *mark) bool { return awake < m.settleUntil })
}

// hasPending reports whether a write to one of the places is pending.
func (e *epochs) hasPending(places []call.Place) bool {
	return e.any(places, func(m *mark) bool { return m.pending != 0 })
}

// any reports whether something is so of the world or of one of the places; it is not of one that
// nothing has ever changed.
func (e *epochs) any(places []call.Place, is func(m *mark) bool) bool {
	return is(&e.global) || slices.ContainsFunc(places, func(p call.Place) bool {
		m := e.of(p)
		return m != nil && is(m)
	})
}

// Bump notes that something else than a call through here may have changed what
// the places hold.
func (s *Store) Invalidate(places ...call.Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range places {
		s.epochs.bump(s.epochs.at(p))
		s.noteChangedLocked(p)
	}
}

// Forget notes that anything may have changed: nothing from before is good any
// more.
func (s *Store) InvalidateAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteChangedLocked(allPlaces)
	s.epochs.bump(&s.epochs.global)
}

// Reclassify notes that calls are classified by other rules from now on: what any of
// them reads or changes may have another name. Nothing from before is good any
// more, and every call that has not ended counts, until it does, as a write
// of everything.
func (s *Store) Reclassify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reclassified++
	s.epochs.global.pending = s.underWay // those from before the last time included
	s.epochs.global.settleUntil = max(s.epochs.global.settleUntil, s.epochs.settleUntil)
	s.noteChangedLocked(allPlaces)
	s.epochs.bump(&s.epochs.global)
}
