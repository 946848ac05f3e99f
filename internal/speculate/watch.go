package speculate

import (
	"slices"
	"time"

	"mcpschedd/internal/call"
)

// watch is a prefetch that was not started.
type watch struct {
	key   call.Key
	host  *host
	until time.Time // asked for later it would have been of no use
	eras  eras      // in which it was noted
}

// Watch notes a prefetch that would have been started, and of use for so long. What
// is watched already is not watched anew.
func (s *Session) Watch(now time.Time, k call.Key, host string, keep time.Duration) {
	d := s.scheduler
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sawLocked(now)
	s.expireLocked(now)
	if s.ended || slices.ContainsFunc(s.watched, func(w *watch) bool { return w.key == k }) {
		return
	}
	if len(s.watched) == keepGuesses {
		s.labelWatchedLocked(s.watched[0], false)
		s.watched = slices.Delete(s.watched, 0, 1)
	}
	d.counts.Watched++
	h := d.hostLocked(host)
	s.watched = append(s.watched, &watch{key: k, host: h, until: now.Add(keep), eras: s.erasLocked(h)})
}

// Asked notes a real call. A prefetch of that key under way has its use;
// a watched one would have.
func (s *Session) Asked(now time.Time, k call.Key) {
	d := s.scheduler
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sawLocked(now)
	s.expireLocked(now)
	if c := s.calls[k]; c != nil {
		c.asked = true
	}
	s.watched = slices.DeleteFunc(s.watched, func(w *watch) bool {
		if w.key == k {
			s.labelWatchedLocked(w, true)
		}
		return w.key == k
	})
}

// Void says that something has changed: what is watched and stale would have been
// guessed in vain.
func (s *Session) Void(stale func(call.Key) bool) {
	d := s.scheduler
	d.mu.Lock()
	all := slices.Clone(s.watched)
	d.mu.Unlock()
	all = slices.DeleteFunc(all, func(w *watch) bool { return !stale(w.key) })
	d.mu.Lock()
	defer d.mu.Unlock()
	s.loseLocked(func(w *watch) bool { return slices.Contains(all, w) })
}

// expireLocked ends what was not asked for in time.
func (s *Session) expireLocked(now time.Time) {
	s.loseLocked(func(w *watch) bool { return now.After(w.until) })
}

// loseLocked forgets what was watched in vain.
func (s *Session) loseLocked(lost func(*watch) bool) {
	s.watched = slices.DeleteFunc(s.watched, func(w *watch) bool {
		if !lost(w) {
			return false
		}
		s.labelWatchedLocked(w, false)
		return true
	})
}

// labelWatchedLocked tells the throttles that only watch what would have become of
// a prefetch. The others have prefetches that were started to go by.
func (s *Session) labelWatchedLocked(w *watch, asked bool) {
	if asked {
		s.scheduler.counts.WatchedTrue++
	}
	label := func(t *throttle, era int) {
		if t.level == watching {
			t.label(era, asked, false)
		}
	}
	s.scheduler.hostMoveLocked(w.host, "watched", func(t *throttle) { label(t, w.eras.host) })
	s.moveLocked("watched", func(t *throttle) { label(t, w.eras.session) })
}
