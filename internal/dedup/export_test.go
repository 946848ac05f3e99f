package dedup

import "fmt"

// Slots is how many marks the places of edges share.
const Slots = slots

// Look is the state of a file, to be compared.
func Look(path string) any { return look(path) }

// Check counts everything again, and returns what does not agree.
func (s *Store) Check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var bytes, unasked, scoped int64
	for _, e := range s.entries.Values() {
		if size := int64(cap(e.body)+len(e.key.Arguments)) + overhead; e.size != size {
			return fmt.Errorf("an entry of %d bytes counts as %d", size, e.size)
		}
		bytes += e.size
		if e.guessed && !e.used {
			unasked++
		}
		if _, ok := s.scopes[e.key.Scope][e]; !ok {
			return fmt.Errorf("an entry is not in its scope %q", e.key.Scope)
		}
	}
	for scope, of := range s.scopes {
		if len(of) == 0 {
			return fmt.Errorf("scope %q is empty and kept", scope)
		}
		scoped += int64(len(of))
	}
	switch {
	case bytes != s.bytes:
		return fmt.Errorf("entries of %d bytes count as %d", bytes, s.bytes)
	case bytes > s.options.MaxBytes:
		return fmt.Errorf("%d bytes are stored, want at most %d", bytes, s.options.MaxBytes)
	case scoped != int64(s.entries.Len()):
		return fmt.Errorf("%d entries in scopes, %d in the store", scoped, s.entries.Len())
	}
	var guesses int64
	for f := range s.flights {
		if f.guessed {
			guesses++
		}
	}
	p := s.counts.Prefetch
	w := p.Wasted
	if sum := p.Used + w.Expired + w.Invalidated + w.NeverAsked + w.Evicted + w.Error + w.Cancelled + unasked + guesses; sum != p.Issued {
		return fmt.Errorf("%d prefetches issued, %d accounted for: %+v, %d not asked for yet, %d in flight", p.Issued, sum, p, unasked, guesses)
	}
	return nil
}

// Air returns how many changes are in the air; a place counts for each.
func (s *Store) Air() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := s.epochs.world.air
	for _, m := range s.epochs.domains {
		sum += m.air
	}
	for _, m := range s.epochs.slots {
		sum += m.air
	}
	return sum
}
