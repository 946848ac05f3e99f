package upstream

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Unavailable says why a server cannot be asked now, without its secrets: it is
// shown to the model.
type Unavailable struct {
	Upstream string
	Cause    error
	Stderr   []string // its last lines; nil for a server over HTTP
}

func (u *Unavailable) Error() string {
	text := fmt.Sprintf("upstream %q is not available: %v", u.Upstream, u.Cause)
	if len(u.Stderr) > 0 {
		text += "\nits last lines on stderr:\n  " + strings.Join(u.Stderr, "\n  ")
	}
	return text
}

func (u *Unavailable) Unwrap() error { return u.Cause }

// unavailable is an *Unavailable of this upstream.
func (u *Upstream) unavailable(why error, stderr []string) error {
	return &Unavailable{Upstream: u.spec.Name, Cause: u.mask.Error(why), Stderr: stderr}
}

// status says where an instance stands: its live connection, or why there is none.
type status struct {
	live    atomic.Pointer[conn] // nil: there is none; changed under mu
	garbled atomic.Bool          // it has written what is no MCP message
	tried   atomic.Bool          // the offer is a last-known one, or every list has been asked for

	moved func() // is called when any of it has changed; not nil

	mu      sync.Mutex
	state   state
	changed chan struct{} // closed and replaced whenever live, tried or state changes
}

// state is where an instance stands; away counts while there is no live connection.
type state struct {
	away   error // why it cannot be asked; nil while starting
	stderr []string
	since  time.Time // when this state began; zero: with the instance
}

// now returns the live connection, nil if there is none, and the state. changed is
// closed when either has changed.
func (s *status) now() (c *conn, at state, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live.Load(), s.state, s.changed
}

func (s *status) set(at state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setLocked(at)
}

func (s *status) setLocked(at state) {
	at.since = time.Now()
	s.state = at
	s.wakeLocked()
}

func (s *status) wakeLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
	s.moved()
}

// listed notes that sessions need not wait for the lists any more.
func (s *status) listed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.tried.Swap(true) {
		s.wakeLocked()
	}
}

// connected notes that connection c is live.
func (s *status) connected(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live.Store(c)
	s.setLocked(state{})
}

// disconnected notes that connection c is not live any more: from now on the
// instance starts, until set says otherwise.
func (s *status) disconnected(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live.CompareAndSwap(c, nil) {
		s.setLocked(state{})
	}
}
