package upstream

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"mcpschedd/internal/revision"
)

const (
	// steady is how long a connection that has answered no client must have lived for its
	// end to be answered by a restart at once instead of a longer wait.
	steady = 10 * time.Second
	// handshakeStarts is how many start timeouts a handshake may take before the
	// process is ended and started anew: a first start may download things.
	handshakeStarts = 4
)

// errGone: the upstream was closed, or taken out of the configuration.
var errGone = errors.New("no longer configured")

// instances counts those of the process, for their ids. It is the one variable of
// this package because the ids must differ between upstreams, too.
var instances atomic.Uint64

// notStarted says that there is no process, or no way to one, that could have ended.
type notStarted struct{ error }

func (e *notStarted) Unwrap() error { return e.error }

// instance is one process or HTTP connection of an upstream and its
// successors: run starts it, shakes hands, and starts it again when it ends.
// It serves one session, or, shared, all that hold a lease on it.
type instance struct {
	id     uint64 // never given again
	up     *Upstream
	cancel context.CancelFunc
	ended  chan struct{} // closed when run has returned
	leased chan struct{} // closed by setClient
	client Client        // set before that

	offer atomic.Pointer[Offer] // what its server offers; nil: it is not known
	stale [Lists]atomic.Bool    // lists to be read again
	wake  chan struct{}         // capacity 1; a list went stale

	status *status
	asked  atomic.Bool // a lease has sent it a request, so that it may have answers to forget

	holders holders

	endsOnDiscover bool // it ended when asked for the stateless revision; run's own
}

// newInstance starts an instance, once after is closed; nil is closed.
func newInstance(up *Upstream, after <-chan struct{}) *instance {
	ctx, cancel := context.WithCancel(context.Background())
	var missing error // the first session is told at once of a program that is not there
	if up.spec.Command.Path != "" {
		_, missing = up.spec.Command.resolve()
	}
	in := &instance{
		id: instances.Add(1), up: up, cancel: cancel,
		ended: make(chan struct{}), leased: make(chan struct{}),
		status: newStatus(up.o.Changed, missing), wake: make(chan struct{}, 1),
	}
	go in.run(ctx, after)
	return in
}

// setClient says which client the instance is for, once: what was last offered to such a
// client is offered to this one until the server has said what it has now.
func (in *instance) setClient(client Client) {
	if known := in.up.known.to(client.key()); known != nil {
		in.offer.Store(known)
		in.status.change(func(s *state) { s.listed = true })
	}
	in.client = client
	close(in.leased)
}

// run keeps the instance alive until ctx ends: the first restart after a connection that was
// of use comes at once, later ones after a growing wait with jitter.
func (in *instance) run(ctx context.Context, after <-chan struct{}) {
	defer close(in.ended)
	defer in.status.set(errGone, nil)
	if after != nil {
		select {
		case <-after:
		case <-ctx.Done():
			return
		}
	}
	pause, atOnce := backoff.NewExponentialBackOff(), true
	for ctx.Err() == nil {
		c := newConn(in)
		lived, stderr, err := in.once(ctx, c)
		// The older one of HTTP's two transports is tried at once, and from then on used.
		if ctx.Err() != nil || older(err) && in.up.sse.CompareAndSwap(false, true) {
			continue
		}
		if lived == 0 && (denied(err) || in.up.spec.Unusable != nil) {
			in.giveUp(ctx, err)
			return
		}
		// A server that ends after each answer is started again as often as it is called, which
		// clients bound, and not as fast as it ends.
		if lived >= steady || c.served.Load() {
			atOnce = true
			pause.Reset()
		}
		var wait time.Duration
		if _, unstarted := errors.AsType[*notStarted](err); atOnce && !unstarted {
			atOnce = false
		} else {
			wait = pause.NextBackOff()
		}
		in.up.counts.restarts.Add(1)
		in.restart(ctx, wait, stderr, err)
	}
}

// restart waits before the server is started again, and says so.
func (in *instance) restart(ctx context.Context, wait time.Duration, stderr []string, err error) {
	in.noteEnd(err)
	log := in.up.log.With("upstream", in.up.spec.Name)
	if _, unstarted := errors.AsType[*notStarted](err); unstarted {
		log.Error("upstream cannot be started; waiting before the next try", "err", err, "dur", wait, "path", in.up.spec.Command.searchPath())
	} else {
		log.Warn("upstream ended; starting it again", "err", err, "dur", wait)
	}
	if wait > 0 {
		in.status.set(err, stderr)
		if sleep(ctx, wait) != nil {
			return
		}
	}
	in.status.set(nil, stderr)
}

// giveUp waits for the end: a person must change something first.
func (in *instance) giveUp(ctx context.Context, err error) {
	in.noteEnd(err)
	in.up.log.Error("upstream cannot be used", "upstream", in.up.spec.Name, "err", err)
	in.status.set(err, nil)
	<-ctx.Done()
}

// noteEnd notes with what a connection ended, or why it could not be made.
func (in *instance) noteEnd(err error) { in.up.counts.last.Store(new(in.up.mask.Error(err).Error())) }

// once connects c, serves it until it ends, and returns why it ended. lived is how long the
// server could be asked, 0 if never.
func (in *instance) once(ctx context.Context, c *conn) (lived time.Duration, stderr []string, ended error) {
	if err := in.up.dial(c); err != nil {
		return 0, nil, &notStarted{err}
	}
	defer func() { stderr = c.stderr() }() // after close, when all of it has been read
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
		return 0, nil, c.err // what ended it says more
	} else if err != nil {
		return 0, nil, err
	}
	began := time.Now()
	told := in.restore(c, nil) // before any call that waits for the connection
	in.status.connected(c)
	in.restore(c, told) // what changed in between
	in.listen(c)        // before the lists are read, so that no change is missed
	in.serveLists(ctx, c)
	in.status.disconnected(c)
	if ended = ctx.Err(); c.ended() {
		ended = c.err
	}
	return time.Since(began), nil, ended
}

// handshake shakes hands and takes over what the server says of itself; its lists
// are the last-known ones until they have been read.
func (in *instance) handshake(ctx context.Context, c *conn) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeStarts*in.up.spec.StartTimeout)
	defer cancel()
	legacy := in.endsOnDiscover || in.up.known.legacy()
	offer, err := c.negotiate(ctx, in.client, legacy)
	if err != nil {
		if c.ended() { // perhaps because of the stateless revision: the next handshake is the older one
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
		in.refresh(l)
	}
	in.noteInvalidated("handshake") // before a session can see that there is another server
	in.adopt(offer)
	return nil
}

// noteInvalidated tells that the server may answer otherwise than before, unless it has been asked
// nothing: then there is nothing to forget, and servers that start slowly, one after the
// other, would each end what their neighbours have answered meanwhile.
func (in *instance) noteInvalidated(cause string) {
	if in.asked.Load() {
		in.up.o.Invalidated(cause)
	}
}

// close ends the instance and returns when its process and goroutines have.
func (in *instance) close() {
	in.cancel()
	<-in.ended
}
