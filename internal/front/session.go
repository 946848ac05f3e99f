package front

import (
	"sync"
	"time"

	"mcpschedd/internal/age"
)

// mostStreams bounds the GET streams of one session: one is in use, the others are
// being replaced.
const mostStreams = 16

// transport is the way a session's messages travel.
type transport int

const (
	streamable transport = iota // 2025-03-26 to 2025-11-25: Mcp-Session-Id
	legacySSE                   // 2024-11-05: /sse and /message
	pooled                      // stateless requests that say the same of their clients
)

// httpSession is a session that requests find by an id, or by what they say of
// their client. It ends when it has been idle for a while, or the longest of
// all when there is no room for a new one. One token guards the whole server, so
// every holder of an id is the same principal; without a token all clients are.
type httpSession struct {
	intake
	transport transport
	id        string         // "" of a pool
	only      string         // the one upstream that its clients see; "": all
	stream    *queue         // what belongs to no request; nil of a pool
	serving   sync.WaitGroup // requests whose answers go out on stream
	idle      time.Duration
	clock     func() age.Moment

	mu      sync.Mutex // its holder may ask the session what is pending
	users   int        // requests and streams that are open
	streams int        // those of users that are GET streams
	left    age.Moment // when users fell to 0
	over    bool
	timer   *time.Timer // set anew when users falls to 0; means nothing while it is above
}

// enter keeps the session from ending as idle until leave; false: it has ended. The
// timer stops while the machine sleeps, so the age is looked at here as well.
func (s *httpSession) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.Context().Err() != nil {
		return false
	}
	if s.users == 0 && s.clock().Since(s.left) >= s.idle && s.idleLocked() {
		s.timer.Reset(0)
		return false
	}
	s.users++
	return true
}

func (s *httpSession) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users == 0 && !s.over {
		s.left = s.clock()
		s.timer.Reset(s.idle)
	}
}

// state says whether the session may make room for another, and how long no request
// or stream has been open, or whether it is over. One with a task that runs makes no
// room, although nothing of it is open between two questions about the task: it ends
// only when it has been idle for long.
func (s *httpSession) state(now age.Moment) (idle bool, unused time.Duration, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	suspended, task := s.Pending()
	idle = s.users == 0 && !s.over && !suspended && !task
	return idle, now.Since(s.left), s.over || s.Context().Err() != nil
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

// retire lets no request into the session any more; false: it is not idle.
func (s *httpSession) retire() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.idleLocked() {
		return false
	}
	s.over = true
	s.timer.Stop()
	return true
}

// close lets neither requests nor messages into the session, which ends.
func (s *httpSession) close() {
	s.mu.Lock()
	s.over = true
	s.timer.Stop()
	s.mu.Unlock()
	if s.stream != nil {
		s.stream.close()
	}
}

// expire ends the session if it is idle.
func (s *httpSession) expire() {
	if s.retire() {
		s.End(errIdle)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.timer.Reset(s.idle)
	}
}

// openStream enters the session's GET stream; false: it has too many.
func (s *httpSession) openStream() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams == mostStreams {
		return false
	}
	s.streams++
	return true
}

func (s *httpSession) closeStream() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams--
}
