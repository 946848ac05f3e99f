package dedup

import (
	"slices"
	"time"

	"mcpschedd/internal/call"
)

// slots is the number of states for the places of edges. Edges that share a slot
// invalidate too much, never too little.
const slots = 1 << 14

// placeState records the changes of one place.
type placeState struct {
	epoch       uint64        // counter at its last possible change
	pending     int           // number of pending writes
	settleUntil time.Duration // monotonic time since the store was made until which a remote write may not show yet
}

// epochs records when places may last have changed. The store's mutex guards it.
type epochs struct {
	now         uint64                 // the counter; it only rises
	settleUntil time.Duration          // the latest of all places
	global      placeState             // applies to every place
	domains     map[string]*placeState // domain → state, once it has changed
	slots       []placeState           // indexed by Place.Slot
}

func newEpochs() epochs {
	return epochs{domains: make(map[string]*placeState), slots: make([]placeState, slots)}
}

// ensure returns the state of a place, and creates it if needed.
func (e *epochs) ensure(p call.Place) *placeState {
	m := e.get(p)
	if m == nil {
		m = new(placeState)
		e.domains[p.Domain] = m
	}
	return m
}

// get returns the state of a place; nil if it has never changed.
func (e *epochs) get(p call.Place) *placeState {
	if p.Domain == "" {
		return &e.slots[p.Slot%slots]
	}
	return e.domains[p.Domain]
}

// bump records that a place may have changed.
func (e *epochs) bump(m *placeState) {
	e.now++
	m.epoch = e.now
}

// endWrite records the end of a write to a place.
func (e *epochs) endWrite(m *placeState) {
	m.pending--
	e.bump(m) // the change at the end
}

// current reports whether an answer is still valid if its fetch began at that epoch. It
// takes two lists of places, as the asking call may depend on others than the fetching one.
func (e *epochs) current(epoch uint64, fetched, asked []call.Place) bool {
	changed := func(m *placeState) bool {
		return m.pending != 0 || m.epoch > epoch // a pending write may land at any moment, or may have landed
	}
	return !e.any(fetched, changed) && !e.any(asked, changed)
}

// settling reports whether a remote write to one of the places may still not show. elapsed
// is the monotonic time since the store was made.
func (e *epochs) settling(places []call.Place, elapsed time.Duration) bool {
	return e.any(places, func(m *placeState) bool { return elapsed < m.settleUntil })
}

// SettlesIn returns how long remote writes to the places may still not show.
func (s *Store) SettlesIn(places []call.Place) (wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epochs.any(places, func(m *placeState) bool {
		wait = max(wait, m.settleUntil-s.monotonicLocked())
		return false
	})
	return wait
}

// hasPending reports whether a write to one of the places is pending.
func (e *epochs) hasPending(places []call.Place) bool {
	return e.any(places, func(m *placeState) bool { return m.pending != 0 })
}

// any reports whether is holds for the global state or for that of a place. A place that has
// never changed has none.
func (e *epochs) any(places []call.Place, is func(m *placeState) bool) bool {
	return is(&e.global) || slices.ContainsFunc(places, func(p call.Place) bool {
		m := e.get(p)
		return m != nil && is(m)
	})
}

// Invalidate records that the places may have changed by something other than a call
// through this proxy.
func (s *Store) Invalidate(places ...call.Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range places {
		s.epochs.bump(s.epochs.ensure(p))
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

// DoubtAll records that writes of which nothing is known may be running, such as those of a process
// that has ended: no answer is valid until WriteSettle has passed.
func (s *Store) DoubtAll() {
	unknown := s.RegisterWrite(call.Effect{})
	unknown.changeAnything()
	unknown.Doubt()
}
