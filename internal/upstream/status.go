package upstream

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// state is where an instance stands. It is immutable but for its channel.
type state struct {
	live    *conn         // nil: there is no live connection
	away    error         // without one: why the server cannot be asked; nil while it starts
	stderr  []string      // what it last said there
	since   time.Time     // when this began; zero: with the instance
	listed  bool          // the offer is a last-known one, or every list has been asked for
	garbled bool          // it has written what is no MCP message
	changed chan struct{} // closed when there is another state
}

// errGarbled says of a server that is starting that it does not speak MCP.
var errGarbled = errors.New("it writes what is no MCP message, and does not answer")

// garble is errGarbled of a server that is starting and has written what is no MCP message.
func (at *state) garble() error {
	if at.garbled && at.live == nil && at.away == nil {
		return errGarbled
	}
	return nil
}

func (at *state) become(live *conn, away error, stderr []string) {
	at.live, at.away, at.stderr, at.since = live, away, stderr, time.Now()
}

// status holds the state of an instance for all that wait for another.
type status struct {
	moved    func() // called when the state has changed
	current  atomic.Pointer[state]
	changing sync.Mutex
}

// newStatus is the status of an instance that starts, or cannot be asked from the beginning.
func newStatus(moved func(), away error) *status {
	first := &state{changed: make(chan struct{})}
	if away != nil {
		first.become(nil, away, nil)
	}
	s := &status{moved: moved}
	s.current.Store(first)
	return s
}

// now returns the state.
func (s *status) now() *state { return s.current.Load() }

// live returns the live connection, nil if there is none.
func (s *status) live() *conn { return s.now().live }

func (s *status) change(f func(*state)) {
	s.changing.Lock()
	old := s.now()
	next := *old
	next.changed = make(chan struct{})
	f(&next)
	s.current.Store(&next)
	close(old.changed)
	s.changing.Unlock()
	s.moved()
}

// set notes that there is no live connection, and why the server cannot be asked; nil:
// it starts.
func (s *status) set(away error, stderr []string) {
	s.change(func(at *state) { at.become(nil, away, stderr) })
}

func (s *status) connected(c *conn) {
	s.change(func(at *state) { at.become(c, nil, nil) })
}

// disconnected notes that connection c is not live any more: from now on the
// instance starts, until set says otherwise.
func (s *status) disconnected(c *conn) {
	s.change(func(at *state) {
		if at.live == c {
			at.become(nil, nil, nil)
		}
	})
}

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
