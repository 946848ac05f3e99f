package dedup

import (
	"fmt"
	"maps"

	"mcpschedd/internal/call"
)

// Slots is the number of marks of edges.
const Slots = slots

// Look returns the state of a file, for comparison.
func Look(path string) any { return (&Query{Reuse: Reuse{File: path}}).fileState() }

// Check recomputes the store's counts, and returns the first difference.
func (s *Store) Check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var bytes, unasked, scoped int64
	for _, e := range s.answers.entries.Values() {
		if size := cost(cap(e.body), e.key); e.size != size {
			return fmt.Errorf("an entry of %d bytes counts as %d", size, e.size)
		}
		bytes += e.size
		if !e.asked {
			unasked++
		}
		if _, ok := s.answers.scopes[e.key.Scope][e]; !ok {
			return fmt.Errorf("an entry is not in its scope %q", e.key.Scope)
		}
	}
	for scope, of := range s.answers.scopes {
		if len(of) == 0 {
			return fmt.Errorf("scope %q is empty and kept", scope)
		}
		scoped += int64(len(of))
	}
	switch {
	case bytes != s.answers.bytes:
		return fmt.Errorf("entries of %d bytes count as %d", bytes, s.answers.bytes)
	case bytes > s.options.MaxBytes:
		return fmt.Errorf("%d bytes are stored, want at most %d", bytes, s.options.MaxBytes)
	case scoped != int64(s.answers.entries.Len()):
		return fmt.Errorf("%d entries in scopes, %d in the store", scoped, s.answers.entries.Len())
	}
	for _, e := range s.answers.unasked.Keys() {
		if e.asked || e.prefetch.Fate() != call.Pending {
			return fmt.Errorf("the prefetch %+v, %+v, is one of those not asked for", e.key, e)
		}
		if in, ok := s.answers.entries.Peek(e.key); !ok || in != e {
			return fmt.Errorf("the prefetch %+v is not stored, and not asked for", e.key)
		}
	}
	if n := int64(s.answers.unasked.Len()); n != unasked {
		return fmt.Errorf("%d prefetches stored that no call has asked for, %d known", unasked, n)
	}
	p := s.counts.Prefetch
	flying := s.flyingLocked()
	if sum := p.Used + sum(p.Wasted) + unasked + flying; sum != p.Issued {
		return fmt.Errorf("%d prefetches issued, %d accounted for: %+v, %d not asked for yet, %d in flight", p.Issued, sum, p, unasked, flying)
	}
	return nil
}

func sum(wasted map[string]int64) (n int64) {
	for _, of := range wasted {
		n += of
	}
	return n
}

// flyingLocked counts the prefetches in flight that are still wanted.
func (s *Store) flyingLocked() (n int64) {
	for f := range s.flights {
		if f.prefetch != nil && f.prefetch.Fate() == call.Pending {
			n++
		}
	}
	return n
}

// CheckFates compares the fates of all prefetches with the counts.
func (s *Store) CheckFates(all []*Prefetch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var fates [call.Compared + 1]int64
	wasted := make(map[string]int64)
	for _, g := range all {
		fates[g.Fate()]++
		lost := g.Fate() == call.Wasted || g.Fate() == call.Compared
		if lost != (g.Why() != "") || (g.Fate() == call.Compared) != (g.Why() == string(compared)) {
			return fmt.Errorf("a prefetch of fate %d, because %q", g.Fate(), g.Why())
		}
		if lost {
			wasted[g.Why()]++
		}
	}
	p := s.counts.Prefetch
	switch open := s.flyingLocked() + int64(s.answers.unasked.Len()); {
	case fates[call.Ready]+fates[call.Late] != p.Used || fates[call.Late] != p.Late:
		return fmt.Errorf("fates %v, counted %+v", fates, p)
	case !maps.Equal(wasted, p.Wasted) || sum(wasted) != fates[call.Wasted]+fates[call.Compared]:
		return fmt.Errorf("wasted because of %+v, counted %+v", wasted, p.Wasted)
	case fates[call.Pending] != open:
		return fmt.Errorf("%d pending, %d in flight or stored", fates[call.Pending], open)
	}
	return nil
}

// FinishAround finishes the flight with a good answer, and calls act while the body is copied.
func (f *Flight) FinishAround(body []byte, act func()) {
	l, _ := f.takeWaiters(false, true)
	l.entry.body = body
	act()
	f.complete(&l)
}

// Open counts the prefetches of a scope whose fate is pending and that no call is waiting for.
func (s *Store) Open(scope string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range s.flights {
		if f.prefetch != nil && f.query.Key.Scope == scope && f.prefetch.Fate() == call.Pending && len(f.waiters) == 0 && !f.finished {
			n++
		}
	}
	for _, e := range s.answers.unasked.Keys() {
		if e.key.Scope == scope {
			n++
		}
	}
	return n
}

// Pending returns the number of pending writes, counted per place.
func (s *Store) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := s.epochs.global.pending
	for _, m := range s.epochs.domains {
		sum += m.pending
	}
	for _, m := range s.epochs.slots {
		sum += m.pending
	}
	return sum
}
