package dedup

import (
	"bytes"
	"hash/maphash"
	"slices"
	"time"
)

// landing is what becomes of an answer.
type landing struct {
	entry   *entry
	waiters []*Waiter // who gets it; they no longer wait
	good    bool      // complete and no error
	share   bool      // those who joined get it too
	keep    bool      // it is stored
	waste   cause     // why not, if it was guessed and nobody gets it
}

// Settle ends the flight with its answer, which is good if another call may get
// it: complete, no error, and nothing that goes on. body is only borrowed. A
// second time it does nothing.
func (f *Flight) Settle(body []byte, stateless, good bool) {
	s := f.store
	l, ok := f.land(stateless, good)
	if !ok {
		return
	}
	if l.share || l.keep {
		l.entry.body = bytes.Clone(body) // before anybody is told, and gives back what is borrowed
	}
	if good && f.query.Use.Repeats > 0 {
		l.entry.hash = maphash.Bytes(s.seed, body)
	}
	if l.keep && f.query.Use.File != "" && !look(f.query.Use.File).matches(f.file) {
		l.keep, l.waste = false, invalidated
	}
	outcomes := f.conclude(l)
	if f.stop != nil {
		f.stop()
	}
	for i, w := range l.waiters {
		w.stop()
		w.Done(outcomes[i])
	}
}

// land takes the flight out of the store: nobody can join or leave it any more.
func (f *Flight) land(stateless, good bool) (l landing, ok bool) {
	s := f.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.settled {
		return l, false
	}
	f.settled = true
	f.concealLocked()
	l.waiters, f.waiters = f.waiters, nil
	for _, w := range l.waiters {
		w.flight = nil
	}
	l.good = good
	l.share = good && slices.ContainsFunc(l.waiters, func(w *Waiter) bool { return w != f.leader })
	l.entry = &entry{
		id: f.id, key: f.query.Key, places: f.query.Places, epoch: f.epoch, began: f.began, file: f.file,
		stateless: stateless, guessed: f.guessed, used: l.share || f.leader != nil,
	}
	l.waste = f.wasteLocked(l.entry, good)
	l.keep = l.waste == ""
	return l, true
}

// wasteLocked says why the answer is not stored; "" if it may be.
func (f *Flight) wasteLocked(e *entry, good bool) cause {
	s, u := f.store, f.query.Use
	switch {
	case f.abandoned:
		return cancelled
	case !good || f.tainted:
		return failed
	case f.unkept || !s.epochs.current(f.epoch, f.query.Places, nil):
		return invalidated
	case u.File != "" && !f.file.sound:
		return invalidated
	case !u.admits(e.guessed, e.used, s.clock()-f.began) && !u.backsOff():
		return expired
	}
	return ""
}

// conclude stores what is to be kept and says what each waiter gets.
func (f *Flight) conclude(l landing) []Outcome {
	s := f.store
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.flights, f) // not before: what ends all flights of a scope must find it
	if l.keep {
		if l.waste = f.wasteLocked(l.entry, l.good); l.waste == "" { // the check when stored
			l.keep, l.waste = s.insertLocked(l.entry)
		} else {
			l.keep = false
		}
	}
	switch {
	case !f.guessed:
	case l.share:
		s.counts.Prefetch.Used++
		s.counts.Prefetch.Late++
	case !l.keep:
		s.counts.Prefetch.Wasted.add(l.waste)
	}
	now := s.clock()
	outcomes := make([]Outcome, len(l.waiters))
	for i, w := range l.waiters {
		outcomes[i] = f.outcomeLocked(w, l, now)
	}
	return outcomes
}

// outcomeLocked is what one waiter gets.
func (f *Flight) outcomeLocked(w *Waiter, l landing, now time.Duration) Outcome {
	counts := &f.store.counts
	o := Outcome{How: Joined, Prefetched: f.guessed, Age: now - f.began}
	switch {
	case w == f.leader:
		o.How = Fetched
	case !l.share:
		counts.Alone++
		o.Alone = true
		return o
	default:
		counts.Joined++
		o.Body, o.Stateless = l.entry.body, l.entry.stateless
	}
	if !l.good {
		w.query.Delivered.failed(&w.query)
		return o
	}
	_, o.BackOff = w.query.Delivered.given(&f.store.epochs, &w.query, l.entry, false, now)
	return o
}
