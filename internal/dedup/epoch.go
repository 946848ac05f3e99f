package dedup

import (
	"slices"
	"time"

	"mcpschedd/internal/call"
)

// slots is the number of marks for the places of edges. Edges that share a slot
// invalidate too much, never too little.
const slots = 1 << 14

// mark records the changes of one place.
type mark struct {
	epoch       uint64        // counter at its last possible change
	pending     int           // number of pending writes
	settleUntil time.Duration // monotonic time since the store was made until which a remote write may not show yet
}

// epochs records when places may last have changed. The store's mutex guards it.
type epochs struct {
	now         uint64           // the counter; it only rises
	settleUntil time.Duration    // the latest of all marks
	global      mark             // applies to every place
	domains     map[string]*mark // domain → mark, once it has changed
	slots       []mark           // indexed by Place.Slot
}

func newEpochs() epochs {
	return epochs{domains: make(map[string]*mark), slots: make([]mark, slots)}
}

// at returns the mark of a place, and creates it if needed.
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

// of returns the mark of a place; nil if it has never changed.
func (e *epochs) of(p call.Place) *mark {
	if p.Domain == "" {
		return &e.slots[p.Slot%slots]
	}
	return e.domains[p.Domain]
}

// bump records that the places of a mark may have changed.
func (e *epochs) bump(m *mark) {
	e.now++
	m.epoch = e.now
}

// endWrite records the end of a write to the places of a mark.
func (e *epochs) endWrite(m *mark) {
	m.pending--
	e.bump(m) // the change at the end
}

// unchangedSince reports whether the places of the mark cannot have changed since that
// epoch.
func (m *mark) unchangedSince(epoch uint64) bool {
	if m.pending != 0 { // a pending write may land at any moment, or may have landed
		return false
	}
	return m.epoch <= epoch
}

// current reports whether an answer whose fetch began at that epoch is still valid. It
// takes two lists of places, as the asking call may depend on others than the fetching one.
func (e *epochs) current(epoch uint64, fetched, asked []call.Place) bool {
	changed := func(m *mark) bool { return !m.unchangedSince(epoch) }
	return !e.any(fetched, changed) && !e.any(asked, changed)
}

// settling reports whether a remote write to one of the places may still not show. awake
// is the monotonic time since the store was made.
func (e *epochs) settling(places []call.Place, elapsed time.Duration) bool {
	return e.any(places, func(m *mark) bool { return elapsed < m.settleUntil })
}

// hasPending reports whether a write to one of the places is pending.
func (e *epochs) hasPending(places []call.Place) bool {
	return e.any(places, func(m *mark) bool { return m.pending != 0 })
}

// any reports whether is holds for the global mark or the mark of a place. A place that
// has never changed has no mark.
func (e *epochs) any(places []call.Place, is func(m *mark) bool) bool {
	return is(&e.global) || slices.ContainsFunc(places, func(p call.Place) bool {
		m := e.of(p)
		return m != nil && is(m)
	})
}

// Invalidate records that the places may have changed by something other than a call
// through this proxy.
func (s *Store) Invalidate(places ...call.Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range places {
		s.epochs.bump(s.epochs.at(p))
		s.noteChangedLocked(p)
	}
}

// InvalidateAll records that anything may have changed: no answer fetched so far is valid.
func (s *Store) InvalidateAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteChangedLocked(allPlaces)
	s.epochs.bump(&s.epochs.global)
}

// Reclassify records that calls are classified by new rules, under which a call may read
// or change other places. No answer fetched so far is valid any more, and every call that
// has not ended counts as a write to everything until it ends.
func (s *Store) Reclassify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reclassified++
	s.epochs.global.pending = s.underWay // includes those of earlier reclassifications
	s.epochs.global.settleUntil = max(s.epochs.global.settleUntil, s.epochs.settleUntil)
	s.noteChangedLocked(allPlaces)
	s.epochs.bump(&s.epochs.global)
}
