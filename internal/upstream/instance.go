package upstream

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"mcpschedd/internal/revision"
)

const (
	// stableAfter is how long a connection that answered no client must have lasted for its end
	// to be followed by an immediate restart.
	stableAfter = 10 * time.Second
	// handshakeStarts is the handshake timeout in multiples of the start timeout: a first start
	// may download packages. After it the process is killed and restarted.
	handshakeStarts = 4
)

// errRemoved means that the upstream was closed or removed from the configuration.
var errRemoved = errors.New("no longer configured")

// instances is the last instance id. It is package state because ids are unique across upstreams.
var instances atomic.Uint64

// instance keeps one process or HTTP connection of an upstream running: run starts it, performs
// the handshake, and restarts it when it ends. An instance serves one session, or all sessions if
// the upstream is shared. It has more than 25 methods because lists, settings and notifications
// share its offer and its leases.
type instance struct {
	id     uint64 // never reused
	up     *Upstream
	cancel context.CancelFunc
	ended  chan struct{}   // closed when run has returned
	leased chan struct{}   // closed by setClient, after client is set
	client revision.Client // the client that the server is told about

	offer    atomic.Pointer[Offer] // the server's offer; nil if not known yet
	stale    [Lists]atomic.Bool    // lists that must be read again
	wake     chan struct{}         // capacity 1; signals that a list is stale
	state    atomic.Pointer[state]
	changing sync.Mutex  // held while state is replaced
	used     atomic.Bool // a lease has sent a request, so there may be answers to invalidate

	mu     sync.Mutex // also guards the settings in the leases
	leases []*Lease   // copy on write

	endsOnDiscover bool // the server exited on server/discover; used by run only
}

// newInstance returns an instance and starts it.
func newInstance(up *Upstream) *instance {
	ctx, cancel := context.WithCancel(context.Background())
	in := &instance{
		id: instances.Add(1), up: up, cancel: cancel,
		ended: make(chan struct{}), leased: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	first := &state{changed: make(chan struct{})}
	if up.spec.Command.Path != "" { // a missing program is reported at once, so that the first session does not wait for it
		_, first.down = up.spec.Command.resolve()
	}
	in.state.Store(first)
	go in.run(ctx)
	return in
}

// sessions returns the leases on the instance.
func (in *instance) sessions() []*Lease {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.leases
}

// setClient sets the client of the instance. It must be called exactly once. The offer that the
// server last made is used until the server's own lists have been read.
func (in *instance) setClient(client revision.Client) {
	if known := in.up.LastOffer(); known != nil {
		in.offer.Store(known)
		in.change(func(s *state) { s.listed = true })
	}
	in.client = client
	close(in.leased)
}

// run restarts the connection until ctx ends. The first restart is immediate, as is the first
// after a stable connection or one that answered a client. Other restarts wait with exponential
// backoff and jitter.
func (in *instance) run(ctx context.Context) {
	defer close(in.ended)
	defer in.setState(nil, errRemoved, nil)
	pause, atOnce := backoff.NewExponentialBackOff(), true
	for ctx.Err() == nil {
		c := newConn(in)
		lived, stderr, err := in.serve(ctx, c)
		// Fall back to HTTP+SSE at once, and keep using it.
		if ctx.Err() != nil || mayBeSSE(err) && in.up.sse.CompareAndSwap(false, true) {
			continue
		}
		if lived == 0 && (denied(err) || in.up.spec.Unusable != nil) {
			in.giveUp(ctx, err)
			return
		}
		// A server that exits after every answer is restarted once per call. Clients bound the
		// rate of calls, so this cannot become a busy loop.
		if lived >= stableAfter || c.served.Load() {
			atOnce = true
		}
		wait := pause.NextBackOff()
		if atOnce {
			atOnce, wait = false, 0
			pause.Reset()
		}
		in.up.counts.restarts.Add(1)
		in.noteEnd(err)
		if log := in.up.log.With("upstream", in.up.spec.Name, "err", err, "dur", wait); lived > 0 {
			log.Warn("upstream ended; restarting")
		} else {
			log.Error("upstream cannot be started; retrying later", "path", in.up.spec.Command.searchPath())
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

// giveUp blocks until ctx ends: the server cannot work until its configuration changes.
func (in *instance) giveUp(ctx context.Context, err error) {
	in.noteEnd(err)
	in.up.log.Error("upstream cannot be used", "upstream", in.up.spec.Name, "err", err)
	in.setState(nil, err, nil)
	<-ctx.Done()
}

// noteEnd records why a connection ended or could not be made.
func (in *instance) noteEnd(err error) { in.up.counts.last.Store(new(in.up.mask.Error(err).Error())) }

// serve connects c, serves it until it ends, and returns why it ended. lived is how long the
// server could receive requests, or zero if it never could.
func (in *instance) serve(ctx context.Context, c *conn) (lived time.Duration, stderr []string, ended error) {
	if err := in.up.dial(c); err != nil {
		return 0, nil, err
	}
	defer func() { stderr = c.stderr() }() // after close, so that all of stderr has been read
	defer c.close()
	select {
	case <-in.leased:
	case <-c.done:
		return 0, nil, c.err
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	}
	if err := in.handshake(ctx, c); errors.Is(err, errClosed) {
		<-c.done
		return 0, nil, c.err // c.err has the reason
	} else if err != nil {
		return 0, nil, err
	}
	began := time.Now()
	sent := in.restore(c, nil) // before any waiting call is sent
	in.setState(c, nil, nil)
	in.restore(c, sent) // settings that changed meanwhile
	in.listen(c)        // before the lists are read, so that no change is missed
	in.serveLists(ctx, c)
	in.disconnected(c)
	if ended = ctx.Err(); c.ended() {
		ended = c.err
	}
	return time.Since(began), nil, ended
}

// handshake performs the handshake and sets the new offer. Lists keep their last-known items
// until they have been read.
func (in *instance) handshake(ctx context.Context, c *conn) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeStarts*in.up.spec.StartTimeout)
	defer cancel()
	last := in.up.LastOffer()
	legacy := in.endsOnDiscover || last != nil && last.Legacy
	offer, err := c.negotiate(ctx, in.client, legacy)
	if err != nil {
		if c.ended() { // perhaps caused by server/discover: use initialize next time
			in.endsOnDiscover = !legacy && revision.Stateless(in.client.Version) && !c.http
		}
		return err
	}
	if known := in.offer.Load(); known != nil {
		offer.Lists = known.Lists
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
