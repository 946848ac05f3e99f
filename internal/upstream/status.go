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

// Health is how an upstream stands, over all of its instances.
type Health struct {
	State     string    // idle: nothing is started; starting, ready or down
	Since     time.Time // when that began; zero: it was never started
	Error     string    // with which the last connection ended, or could not be made; "": none did
	Restarts  int64
	Processes []int // ids of those that run for it
}

// Stats is what happened at one upstream so far.
type Stats struct {
	Dropped    int64 `json:"notifications_dropped"` // it could not be told for which session they were
	Refused    int64 `json:"questions_refused"`     // likewise
	Unanswered int64 `json:"replies_dropped"`       // to pings and questions, of which too many came
	Repaired   int64 `json:"messages_repaired"`     // U+FFFD stands where they were not UTF-8
}

// counts is what happened at an upstream so far.
type counts struct {
	dropped, refused, unanswered, repaired atomic.Int64 // see Stats
	restarts                               atomic.Int64
	last                                   atomic.Pointer[string] // Health.Error
}

// Stats tells what happened so far.
func (u *Upstream) Stats() Stats {
	c := &u.counts
	return Stats{Dropped: c.dropped.Load(), Refused: c.refused.Load(), Unanswered: c.unanswered.Load(), Repaired: c.repaired.Load()}
}

// Health returns how the upstream stands now. One ready instance is enough for ready, as
// most sessions have one of their own.
func (u *Upstream) Health() Health {
	out := Health{State: "idle", Restarts: u.counts.restarts.Load()}
	if last := u.counts.last.Load(); last != nil {
		out.Error = *last
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	rank := map[string]int{"idle": 0, "down": 1, "starting": 2, "ready": 3}
	for in := range u.instances {
		at := in.status.now()
		state := "starting"
		switch {
		case at.live != nil:
			state = "ready"
			if p, ok := at.live.link.(*process); ok {
				out.Processes = append(out.Processes, p.leader.Pid)
			}
		case at.away != nil:
			state = "down"
			out.Error = u.mask.Error(at.away).Error()
		case at.garbled:
			out.Error = errGarbled.Error()
		}
		if rank[state] > rank[out.State] || state == out.State && at.since.After(out.Since) {
			out.State, out.Since = state, at.since
		}
	}
	return out
}

// Offered is what the server offered last, to any client; nil: it is not known.
func (u *Upstream) LastOffer() *Offer {
	if offers := u.known.list(); len(offers) > 0 {
		return offers[0].Offer
	}
	return nil
}
