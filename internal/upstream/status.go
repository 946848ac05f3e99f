package upstream

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// state is the state of an instance. It is immutable except for its channel.
type state struct {
	live    *conn         // nil if there is no live connection
	down    error         // why the server is down; nil if live or starting
	stderr  []string      // last lines of the process's stderr
	since   time.Time     // start of this state; zero for the initial state
	listed  bool          // the offer is a last-known one, or every list was requested
	garbled bool          // the server has written something that is not an MCP message
	changed chan struct{} // closed when the state is replaced
}

// errGarbled means that a starting server does not speak MCP.
var errGarbled = errors.New("it does not answer, and writes something that is not an MCP message")

// live returns the live connection, or nil.
func (in *instance) live() *conn { return in.state.Load().live }

// change replaces the state by a changed copy and notifies waiters.
func (in *instance) change(f func(*state)) {
	in.changing.Lock()
	old := in.state.Load()
	next := *old
	next.changed = make(chan struct{})
	f(&next)
	in.state.Store(&next)
	close(old.changed)
	in.changing.Unlock()
	in.up.o.Changed()
}

// setState sets the live connection, or else why the server is down. If both are nil, the server
// is starting.
func (in *instance) setState(live *conn, down error, stderr []string) {
	in.change(func(at *state) { at.live, at.down, at.stderr, at.since = live, down, stderr, time.Now() })
}

// disconnected records that c is no longer live, so the instance is starting again.
func (in *instance) disconnected(c *conn) {
	in.change(func(at *state) {
		if at.live == c {
			at.live, at.down, at.stderr, at.since = nil, nil, nil, time.Now()
		}
	})
}

// Unavailable is the error for a server that is down. Its text is shown to the model and contains
// no secrets.
type Unavailable struct {
	Upstream string
	Cause    error
	Stderr   []string // last lines of stderr; nil over HTTP
}

func (u *Unavailable) Error() string {
	text := fmt.Sprintf("upstream %q is not available: %v", u.Upstream, u.Cause)
	if len(u.Stderr) > 0 {
		text += "\nits last lines on stderr:\n  " + strings.Join(u.Stderr, "\n  ")
	}
	return text
}

func (u *Unavailable) Unwrap() error { return u.Cause }

// unavailable returns an *Unavailable for this upstream.
func (u *Upstream) unavailable(why error, stderr []string) error {
	return &Unavailable{Upstream: u.spec.Name, Cause: u.mask.Error(why), Stderr: stderr}
}

// Health is the state of an upstream across all of its instances.
type Health struct {
	State     string    // idle (nothing started), starting, ready or down
	Since     time.Time // start of that state; zero if never started
	Error     string    // why the last connection ended or failed; empty if none has
	Restarts  int64
	Processes []int // ids of the running processes
}

// Stats are the counters of one upstream.
type Stats struct {
	Dropped    int64 `json:"notifications_dropped"` // notifications without a single possible session
	Refused    int64 `json:"questions_refused"`     // requests from the server without a single possible session
	Unanswered int64 `json:"replies_dropped"`       // replies not sent because there were too many requests from the server
}

// counts are the counters behind Stats and Health.
type counts struct {
	dropped, refused, unanswered atomic.Int64 // see Stats
	restarts                     atomic.Int64
	last                         atomic.Pointer[string] // Health.Error
}

// Stats returns the counters.
func (u *Upstream) Stats() Stats {
	c := &u.counts
	return Stats{Dropped: c.dropped.Load(), Refused: c.refused.Load(), Unanswered: c.unanswered.Load()}
}

// Health returns the current state, the best of all instances.
func (u *Upstream) Health() Health {
	out := Health{State: "idle", Restarts: u.counts.restarts.Load()}
	if last := u.counts.last.Load(); last != nil {
		out.Error = *last
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	rank := map[string]int{"idle": 0, "down": 1, "starting": 2, "ready": 3}
	for in := range u.instances {
		at := in.state.Load()
		state := "starting"
		switch {
		case at.live != nil:
			state = "ready"
			if p, ok := at.live.link.(*process); ok {
				out.Processes = append(out.Processes, p.leader.Pid)
			}
		case at.down != nil:
			state = "down"
			out.Error = u.mask.Error(at.down).Error()
		case at.garbled:
			out.Error = errGarbled.Error()
		}
		if rank[state] > rank[out.State] || state == out.State && at.since.After(out.Since) {
			out.State, out.Since = state, at.since
		}
	}
	return out
}
