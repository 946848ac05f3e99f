package proxy

import (
	"slices"
	"sync"
	"sync/atomic"
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

// snapshot holds a value that is never changed, only replaced as a whole. Readers take no lock.
type snapshot[T any] struct {
	mu  sync.Mutex // held while the value is replaced
	now atomic.Pointer[T]
}

// load returns the value, which the caller must not change; the zero value before the first update.
func (s *snapshot[T]) load() *T {
	if now := s.now.Load(); now != nil {
		return now
	}
	return new(T)
}

// update replaces the value with a changed copy.
func (s *snapshot[T]) update(change func(*T)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := *s.load()
	change(&next)
	s.now.Store(&next)
}
