package speculate

import (
	"sync"

	"mcpschedd/internal/call"
)

// Session is the prefetches made for one client session.
type Session struct {
	scheduler *Scheduler
	name      string         // in the changes of its level
	timers    sync.WaitGroup // deadlines that may yet fire

	// The scheduler's mutex guards these.
	throttle throttle
	slots    int                 // taken
	calls    map[call.Key]*claim // key → the prefetch whose call has not returned
	issued   []*claim            // of unknown fate, oldest first
	watched  []*watch            // of unknown fate, oldest first
	ended    bool
}

// Room says how many prefetches to that host may be started now at that upstream,
// how many times a wasted one counts (1: as configured), and whether only to
// watch: then nothing is started, and so many as would have been are to be told to
// Watch.
func (s *Session) Room(host string, upstream uint64) (slots int, caution float64, watch bool) {
	d := s.scheduler
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.ended {
		return 0, 1, false
	}
	h := d.hostLocked(host)
	level := min(s.throttle.level, h.throttle.level)
	if level == watching {
		return slotsAt(level, d.opt.PerSession), cautionAt(level), true
	}
	return max(0, min(s.roomLocked(h), d.estimateLocked(upstream).room())), cautionAt(level), false
}

// roomLocked is how many slots are free for prefetches to a host: of the process's,
// of the session's at its own level, and at the host's level of those that the
// session may have there.
func (s *Session) roomLocked(h *host) int {
	there := 0
	for _, c := range s.calls {
		if c.holds && c.host == h {
			there++
		}
	}
	d, own := s.scheduler, s.throttle.level
	return min(
		d.opt.Total-d.underWay,
		slotsAt(own, d.opt.PerSession)-s.slots,
		slotsAt(min(own, h.throttle.level), d.opt.PerSession)-there,
	)
}

// eras are those of a session and a host at one moment.
type eras struct{ session, host int }

func (s *Session) erasLocked(h *host) eras { return eras{s.throttle.era, h.throttle.era} }

// labelLocked tells the throttles what became of a prefetch to h.
func (s *Session) labelLocked(h *host, when eras, used, late bool) {
	s.scheduler.hostMoveLocked(h, "accuracy", func(t *throttle) { t.label(when.host, used, late) })
	s.moveLocked("accuracy", func(t *throttle) { t.label(when.session, used, late) })
}

// moveLocked does something to the session's throttle, and notes where it went.
func (s *Session) moveLocked(why string, do func(*throttle)) {
	if s.ended {
		return
	}
	from := s.throttle.level
	do(&s.throttle)
	if to := s.throttle.level; to != from {
		s.scheduler.levels[from]--
		s.scheduler.levels[to]++
		s.scheduler.changedLocked(Change{Session: s.name, From: from, To: to, Why: why})
	}
}

// hostMoveLocked likewise does something to a host's.
func (d *Scheduler) hostMoveLocked(h *host, why string, do func(*throttle)) {
	from := h.throttle.level
	do(&h.throttle)
	if to := h.throttle.level; to != from {
		d.changedLocked(Change{Host: h.name, From: from, To: to, Why: why})
	}
}

// End cancels what no call has joined, counts as wasted what was not asked for,
// and frees all that the session holds. When it returns nothing of the session
// runs any more, save what Begin has begun. It may be called more than once.
func (s *Session) End() {
	issued, calls := s.close()
	s.settle(issued)
	for _, c := range issued {
		c.cancel(ErrEnded)
	}
	for _, c := range calls {
		c.cancel(ErrEnded)
	}
	s.timers.Wait()
}

// close takes from the session all that it holds, and returns it.
func (s *Session) close() (issued []*claim, calls map[call.Key]*claim) {
	d := s.scheduler
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.ended {
		return nil, nil
	}
	s.loseLocked(func(*watch) bool { return true })
	s.ended = true
	d.levels[s.throttle.level]--
	for _, c := range s.calls {
		c.freeLocked()
	}
	issued, calls = s.issued, s.calls
	s.calls, s.issued = nil, nil
	return issued, calls
}
