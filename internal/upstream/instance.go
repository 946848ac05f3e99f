package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"mcpschedd/internal/age"
	"mcpschedd/internal/revision"
)

const (
	// stableAfter is how long a connection that answered no client must have lasted for its end
	// to be followed by an immediate restart.
	stableAfter = 10 * time.Second
	// HandshakeFactor is the handshake timeout in multiples of the start timeout: a first start
	// may download packages. After it the process is killed and restarted.
	HandshakeFactor = 4
	// deniedWait is the pause before a server that rejected the credentials is asked again: the reason may
	// have been the network, such as a VPN that was not connected, but many attempts can lock an account.
	deniedWait = 5 * time.Minute
)

// Why requests that were not sent fail, once the upstream has ended.
var (
	errRemoved  = errors.New("no longer configured")
	errReplaced = errors.New("its configuration was changed before the call was sent")
)

// lastInstanceID is package state because ids are unique across upstreams.
var lastInstanceID atomic.Uint64

// instance keeps one process or HTTP connection of an upstream running: run starts it, performs
// the handshake, and restarts it when it ends. An instance serves one session, or all sessions if
// the upstream is shared.
type instance struct {
	id     uint64 // never reused
	up     *Upstream
	cancel context.CancelFunc
	ended  chan struct{}   // closed when run has returned
	client revision.Client // the client that the server is told about

	offer atomic.Pointer[Offer] // the server's offer; nil if not known yet
	stale [Lists]atomic.Bool    // lists that must be read again
	wake  chan struct{}         // capacity 1; signals that a list is stale
	state atomic.Pointer[state]
	used  atomic.Bool // a lease has sent a request, so there may be answers to invalidate
	wrote atomic.Bool // a lease has sent one that may change something, or a notification

	mu     sync.Mutex // also held while state is replaced, and guards the settings in the leases
	leases []*Lease   // copy on write

	exits    int       // consecutive starts of a process that exited in the handshake with a stateless client; used by run
	notified time.Time // last time that watchers were notified of a connection; used by run
}

// newInstance returns an instance for the client and starts it. The offer that the server last made is
// used until the server's own lists have been read.
func newInstance(up *Upstream, client revision.Client) *instance {
	ctx, cancel := context.WithCancel(context.Background())
	in := &instance{
		id: lastInstanceID.Add(1), up: up, cancel: cancel, client: client,
		ended: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	known := up.LastOffer()
	in.offer.Store(known)
	first := &state{listed: known != nil, changed: make(chan struct{})}
	if up.spec.Command.Path != "" { // a missing program is reported at once, so that the first session does not wait for it
		if _, err := up.spec.Command.resolve(); err != nil {
			first.down, first.since = err, time.Now()
		}
	}
	in.state.Store(first)
	go in.run(ctx)
	return in
}

// currentLeases returns the leases on the instance.
func (in *instance) currentLeases() []*Lease {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.leases
}

// run restarts the connection until ctx ends. The first restart is immediate, as is the first
// after a stable connection or one that answered a client. Other restarts wait with exponential
// backoff and jitter, and so do all of a program that cannot be started.
func (in *instance) run(ctx context.Context) {
	defer close(in.ended)
	defer func() { in.setState(nil, in.up.ended(), nil) }()
	pause, atOnce := backoff.NewExponentialBackOff(), true
	for ctx.Err() == nil {
		c := newConn(in)
		lived, stderr, err := in.serve(ctx, c)
		// Fall back to HTTP+SSE at once, and keep using it if the server speaks it.
		if ctx.Err() != nil || statusOf(err).mayBeSSE && in.up.sse.CompareAndSwap(false, true) {
			continue
		}
		if l, ok := c.link.(*httpLink); ok && l.sse && lived == 0 {
			in.up.sse.Store(in.up.spec.SSE)
		}
		// The stream of HTTP+SSE may end first. A server that was taken for one is tried again, as its 404 may pass.
		denied := lived == 0 && (statusOf(err).denied || in.up.spec.SSE && statusOf(context.Cause(c.life)).denied)
		if lived == 0 && in.up.spec.Unusable != nil {
			in.up.noteEnd(err)
			in.up.log.Error("server cannot be used", "err", err)
			in.setState(nil, err, nil)
			<-ctx.Done() // it cannot work until its configuration changes
			return
		}
		// A server that exits after every answer is restarted once per call. Clients bound the
		// rate of calls, so this cannot become a busy loop.
		if lived >= stableAfter || c.served.Load() {
			atOnce = true
		} else {
			in.up.noteEnd(err)
		}
		wait := pause.NextBackOff()
		if denied {
			wait = deniedWait
		} else if atOnce && c.link != nil {
			atOnce, wait = false, 0
			pause.Reset()
		}
		in.up.restarts.Add(1)
		log := in.up.log.With("err", err, "dur", age.Text(wait))
		switch reason := err.Error(); {
		case lived > 0:
			log.Warn("server ended; restarting")
		case in.up.startFailure.Swap(reason) == reason: // logged at an earlier attempt, perhaps of another session
			log.Debug("server still cannot be started; retrying later")
		default:
			if missing, ok := errors.AsType[notInPathError](err); ok {
				log = log.With("path", missing.path)
			}
			log.Error("server cannot be started; retrying later")
		}
		if wait > 0 {
			in.setState(nil, err, stderr)
			_ = sleep(ctx, wait) // the loop ends with ctx
		}
		if ctx.Err() == nil {
			in.setState(nil, nil, stderr)
		}
	}
}

// serve connects c, serves it until it ends, and returns why it ended. lived is how long the
// server could receive requests, or zero if it never could.
func (in *instance) serve(ctx context.Context, c *conn) (lived time.Duration, stderr []string, ended error) {
	if err := in.up.dial(c); err != nil {
		return 0, nil, err
	}
	defer func() { stderr = c.stderr() }() // after close, to have all of it
	defer c.close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.life, func() { cancel(context.Cause(c.life)) })()
	if err := in.handshake(ctx, c); errors.Is(err, errClosed) {
		<-c.life.Done()
		return 0, nil, context.Cause(c.life)
	} else if err != nil {
		return 0, nil, err
	}
	began := time.Now()
	in.sendSettings(c) // before any waiting call is sent
	in.up.lastEnd.Store(nil)
	in.up.startFailure.Store("")
	in.setState(c, nil, nil)
	in.sendSettings(c) // settings that changed meanwhile
	in.listen(c)       // before the lists are read, so that over stdio no change is missed
	in.notifyWatchers()
	in.serveLists(ctx, c)
	c.awaitAnswers()
	in.disconnected(c)
	return time.Since(began), nil, context.Cause(ctx)
}

// handshake performs the handshake and sets the new offer. Lists keep their last-known items
// until they have been read.
func (in *instance) handshake(ctx context.Context, c *conn) error {
	ctx, cancel := context.WithTimeout(ctx, HandshakeFactor*in.up.spec.StartTimeout)
	defer cancel()
	last := in.offer.Load() // perhaps made to another client
	legacy := last != nil && last.Legacy
	initializeFirst := legacy != (in.exits%2 == 1) // each other time, as it perhaps exited on the other request
	offer, err := negotiate(ctx, c, initializeFirst)
	if err != nil {
		if c.life.Err() != nil && !c.http && revision.Stateless(in.client.Version) {
			in.exits++
		}
		return err
	}
	// A process that exited more often, or that last spoke a stateless revision, had another reason to
	// exit. What is remembered holds for one version of the server.
	onDiscover := in.exits == 1 && !legacy && (last == nil || !revision.Stateless(last.Version))
	if !revision.Stateless(offer.Version) && (onDiscover || legacy && offer.serverVersion() == last.serverVersion()) {
		offer.Legacy = true
	}
	in.exits = 0
	if last != nil {
		offer.Lists = last.Lists
	}
	for l := range Lists {
		if !offer.Has(l.Capability()) {
			offer.Lists[l] = nil
		}
		in.markStale(l)
	}
	in.noteInvalidated("handshake") // before a session can observe the new connection
	in.setOffer(offer)
	return nil
}

// noteInvalidated reports that the server's answers may have changed. It does nothing before the
// first request: no answer can be stale then, and a slow start-up must not invalidate answers of
// other servers.
func (in *instance) noteInvalidated(cause string) {
	if in.used.Load() {
		in.up.o.Invalidated(cause)
	}
}

// close stops the instance and returns when its process and goroutines have ended.
func (in *instance) close() {
	in.cancel()
	<-in.ended
}

// state is the state of an instance. It is immutable except for its channel.
type state struct {
	live    *conn         // nil if there is no live connection
	down    error         // why the server is down; nil if live or starting
	stderr  []string      // last lines of the process's stderr
	since   time.Time     // start of this state; zero for the initial one, unless the program is missing
	listed  bool          // the offer is a last-known one, or every list was requested
	unread  error         // why the list of tools could not be read; nil if it was, or was not requested yet
	garbled string        // beginning of what the server wrote that is no MCP message, if any since a live connection last ended
	changed chan struct{} // closed when the state is replaced
}

// notMCP returns the error of a starting server that does not speak MCP.
func (at *state) notMCP() error {
	return fmt.Errorf("it does not answer, and writes something that is not an MCP message: %s", at.garbled)
}

// problem returns the reason why the server is down, why it does not get ready, or why none of its tools
// is known. It returns nil if the server is live or starting normally. known is its offer.
func (at *state) problem(known *Offer) error {
	switch {
	case at.down != nil:
		return at.down
	case at.garbled != "" && at.live == nil:
		return at.notMCP()
	case at.unread != nil && len(known.Items(Tools)) == 0:
		return at.unread
	}
	return nil
}

// live returns the live connection, or nil.
func (in *instance) live() *conn { return in.state.Load().live }

// change replaces the state by a changed copy and notifies waiters.
func (in *instance) change(f func(*state)) {
	in.mu.Lock()
	old := in.state.Load()
	next := *old
	next.changed = make(chan struct{})
	f(&next)
	in.state.Store(&next)
	close(old.changed)
	in.mu.Unlock()
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
			at.garbled, at.unread = "", nil // of a server that speaks MCP, and of the connection that has ended
		}
	})
}

// Health is the state of an upstream: that of its best instance.
type Health struct {
	State     string    // idle (nothing started), starting, ready or down
	Since     time.Time // start of that state; zero if never started
	Error     string    // if ready, why none of its tools is known, else why it does not work; may be empty
	Restarts  int64
	Processes []int // ids of the running processes
}

// noteEnd records why a connection could not be made, or ended before it was of use.
func (u *Upstream) noteEnd(err error) { u.lastEnd.Store(new(u.mask.Error(err).Error())) }

// Health returns the current state, the best of all instances.
func (u *Upstream) Health() Health {
	out := Health{State: "idle", Restarts: u.restarts.Load()}
	last := u.lastEnd.Load()
	if last != nil {
		out.Error = *last
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	rank := map[string]int{"idle": 0, "down": 1, "starting": 2, "ready": 3}
	for in := range u.instances {
		at := in.state.Load()
		state := "starting"
		if at.down != nil {
			state = "down"
		} else if at.live != nil {
			state = "ready"
			if p, ok := at.live.link.(*process); ok {
				out.Processes = append(out.Processes, p.leader.Pid)
			}
		}
		if rank[state] < rank[out.State] || state == out.State && !at.since.After(out.Since) {
			continue
		}
		out.State, out.Since, out.Error = state, at.since, ""
		if problem := u.mask.Error(at.problem(in.offer.Load())); problem != nil {
			out.Error = problem.Error()
		} else if last != nil && state == "starting" {
			out.Error = *last
		}
	}
	return out
}
