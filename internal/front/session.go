package front

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/age"
)

// httpSession is a session that requests find by an id, or by what they say of
// their client. It ends when it has been idle for a while, or the longest of
// all when there is no room for a new one. One token guards the whole server, so
// every holder of an id is the same principal; without a token all clients are.
type httpSession struct {
	intake
	id      string         // "" of a pool
	stream  *queue         // what belongs to no request; nil of a pool
	streams atomic.Int64   // open GET streams
	serving sync.WaitGroup // requests whose answers go out on stream
	idle    time.Duration  // after which it ends
	clock   func() age.Moment

	mu    sync.Mutex // its holder may ask the session what is pending
	users int        // requests and streams that are open
	left  age.Moment // when users fell to 0
	over  bool       // ended, or about to be
	timer *time.Timer
}

// enter keeps the session from ending as idle until leave; false: it has ended. Timers
// stop while the machine sleeps, so the age is looked at here as well.
func (s *httpSession) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.Context().Err() != nil {
		return false
	}
	if s.unusedLocked(s.clock()) >= s.idle && s.idleLocked() {
		s.timer.Reset(0)
		return false
	}
	s.users++
	return true
}

func (s *httpSession) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users == 0 {
		s.left = s.clock()
	}
}

// unusedLocked is how long no request or stream has been open.
func (s *httpSession) unusedLocked(now age.Moment) time.Duration {
	if s.users > 0 {
		return 0
	}
	return now.Since(s.left)
}

// idleLocked reports whether no request and no stream is open. A call that waits
// for its client's answers is open too.
func (s *httpSession) idleLocked() bool {
	if s.users > 0 || s.over {
		return false
	}
	suspended, _ := s.Pending()
	return !suspended
}

// state says whether the session may make room for another, and how long it has been
// unused, or whether it is over. One with a task that runs makes no room, although
// nothing of it is open between two questions about the task: it ends only when it
// has been idle for long.
func (s *httpSession) state(now age.Moment) (idle bool, unused time.Duration, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, task := s.Pending()
	return s.idleLocked() && !task, s.unusedLocked(now), s.over || s.Context().Err() != nil
}

// retire lets no request into the session any more; false: it is not idle.
func (s *httpSession) retire() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.idleLocked() {
		return false
	}
	s.over = true
	return true
}

// expire ends the session if it has been idle for long enough, and else looks again
// when it may have been.
func (s *httpSession) expire() {
	s.mu.Lock()
	wait := s.idle - s.unusedLocked(s.clock())
	s.mu.Unlock()
	switch {
	case wait > 0:
		s.timer.Reset(wait)
	case s.retire():
		s.End(errIdle)
	default:
		s.timer.Reset(s.idle)
	}
}

// close lets neither requests nor messages into the session, which ends.
func (s *httpSession) close() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.timer.Stop()
	if s.stream != nil {
		s.stream.close()
	}
}

// listen writes what the session says that belongs to no request, until the client
// goes, another stream takes over or the session ends. The first event may say where
// the client's messages go.
func (s *httpSession) listen(w http.ResponseWriter, r *http.Request, endpoint string) {
	e, err := openEvents(w)
	if err == nil && endpoint != "" {
		err = e.write("endpoint", []byte(endpoint))
	}
	if err == nil {
		err = s.stream.pump(e, r.Context().Done())
	}
	if err != nil {
		s.log.Debug("client stream broken", "session", s.id, "err", err)
	}
}
