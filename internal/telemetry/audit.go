package telemetry

import (
	"errors"
	"fmt"

	"mcpschedd/internal/events"
)

// The bounds of the audit.
const (
	mostFound  = 20    // disagreements of which the text is kept
	mostClaims = 65536 // open at once, of all sessions
	mostWords  = 1024  // of 64 numbers each, in the window of a session
)

// audit holds what a call says of the prefetch that it used against what the prefetch
// says. A claim is open until the other side has spoken; the two lines may come in
// any order, and the call may be another session's.
type audit struct {
	found     []error
	more      int // of which the text is not kept
	unchecked int // claims that found no place
	claims    int // open ones
}

// claim is what one of the two lines says, of a call known by its number.
type claim struct {
	prefetch   int64
	byPrefetch bool // it is the prefetch's line; else the call's
}

// Audit says what disagrees in what was added so far; nil if nothing does. It holds
// that no number is given to two lines of a session, so that no prefetch has two fates;
// that each call which is the first use of a prefetch was answered from the store or a
// flight, and names a prefetch whose line names it; and that each prefetch that was
// used names such a call. Where only one of the two lines has come, that is a
// disagreement once the session of the call has ended.
//
// It remembers the last 65,536 numbers of each open session, and as many claims.
func (t *Tally) Audit() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := audit{found: append([]error(nil), t.audit.found...), more: t.audit.more}
	for e := t.sessions.all.Front(); e != nil; e = e.Next() {
		if s := e.Value.(*session); s.open == nil {
			found.unanswered(s)
		}
	}
	if found.more > 0 {
		found.found = append(found.found, fmt.Errorf("and %d more", found.more))
	}
	if t.audit.unchecked > 0 {
		found.found = append(found.found, fmt.Errorf("%d uses of prefetches could not be checked: too many at once", t.audit.unchecked))
	}
	return errors.Join(found.found...)
}

func (a *audit) report(format string, args ...any) {
	if len(a.found) >= mostFound {
		a.more++
		return
	}
	a.found = append(a.found, fmt.Errorf(format, args...))
}

func (a *audit) call(s *session, e *events.Event, d events.Disposition) {
	a.number(s, e)
	if e.UseOf <= 0 {
		return
	}
	if !served(d) {
		a.report("session %s: call %d was %s, and says that it is the first use of prefetch %d", s.name, e.Seq, d, e.UseOf)
	}
	a.claim(s, e.Seq, claim{prefetch: e.UseOf})
}

// prefetch takes the line of a prefetch of s; by is the session whose call used it,
// nil if that is not known.
func (a *audit) prefetch(s, by *session, e *events.Event) {
	a.number(s, e)
	switch {
	case !used(e):
	case e.UsedBy <= 0:
		a.report("session %s: prefetch %d was used, and does not say by which call", s.name, e.Seq)
	case by == nil:
		a.report("session %s: prefetch %d says that session %s used it, of which nothing is known", s.name, e.Seq, clean(e.BySession))
	default:
		a.claim(by, e.UsedBy, claim{prefetch: e.Seq, byPrefetch: true})
	}
}

func (a *audit) number(s *session, e *events.Event) {
	if s.open != nil && s.open.seen.add(e.Seq) {
		a.report("session %s: number %d is that of two lines, the second of a %s", s.name, e.Seq, e.Kind)
	}
}

func (a *audit) claim(s *session, call int64, c claim) {
	first, ok := s.claims[call]
	switch {
	case !ok && a.claims >= mostClaims:
		a.unchecked++
	case !ok:
		if s.claims == nil {
			s.claims = make(map[int64]claim)
		}
		s.claims[call] = c
		a.claims++
	case first.byPrefetch == c.byPrefetch:
		a.report("session %s: call %d is said twice to be the first use, of prefetch %d and of %d", s.name, call, first.prefetch, c.prefetch)
	default:
		if first.prefetch != c.prefetch {
			a.report("session %s: call %d: one line says that it used prefetch %d, the other %d", s.name, call, first.prefetch, c.prefetch)
		}
		delete(s.claims, call)
		a.claims--
	}
}

// unanswered reports the claims of a session that nothing more is expected of.
func (a *audit) unanswered(s *session) {
	for call, c := range s.claims {
		if c.byPrefetch {
			a.report("session %s: prefetch %d says that call %d used it, which says nothing of it", s.name, c.prefetch, call)
		} else {
			a.report("session %s: call %d says that it used prefetch %d, which says nothing of it", s.name, call, c.prefetch)
		}
	}
}

// left takes leave of a session; nil: of none.
func (a *audit) left(s *session) {
	if s != nil {
		a.unanswered(s)
		a.claims -= len(s.claims)
	}
}

// window is a set of numbers that mostly grow: it forgets the smallest.
type window struct {
	base int64 // the first number it can hold, a multiple of 64
	set  []uint64
}

// add puts n into the set, and says whether it was there.
func (w *window) add(n int64) bool {
	if n < max(w.base, 1) {
		return false
	}
	word := (n - w.base) / 64
	if drop := word - (mostWords - 1); drop > 0 {
		w.set = append(w.set[:0], w.set[min(drop, int64(len(w.set))):]...)
		w.base += 64 * drop
		word -= drop
	}
	for int64(len(w.set)) <= word {
		w.set = append(w.set, 0)
	}
	bit := uint64(1) << (n % 64)
	was := w.set[word]&bit != 0
	w.set[word] |= bit
	return was
}
