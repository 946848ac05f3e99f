package proxy

import (
	"maps"
	"slices"
	"sync"
)

// sessions are those of a server that have not ended.
type sessions struct {
	mu     sync.Mutex
	closed bool // no more are taken
	open   map[*session]struct{}
}

// add takes in a session; false: no more are taken.
func (s *sessions) add(n *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.open == nil {
		s.open = make(map[*session]struct{})
	}
	s.open[n] = struct{}{}
	return true
}

// remove drops a session that has ended.
func (s *sessions) remove(n *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, n)
}

// all returns the sessions there are.
func (s *sessions) all() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.open))
}

// close lets no more sessions begin.
func (s *sessions) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

func (s *sessions) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}
