package proxy

import (
	"slices"
	"sync"
)

// set is a set of values in the order in which they were added. It may be used concurrently.
type set[T comparable] struct {
	mu     sync.Mutex
	all    []T
	closed bool
}

// add adds a value. It returns false if the set is closed.
func (s *set[T]) add(v T) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.all = append(s.all, v)
	}
	return !s.closed
}

func (s *set[T]) remove(v T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(other T) bool { return other == v })
}

func (s *set[T]) list() []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// close closes the set to new values.
func (s *set[T]) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}
