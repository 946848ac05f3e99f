package upstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

const (
	// steady is how long a connection must have lived for its end to be
	// answered by a restart at once instead of a longer wait.
	steady = 10 * time.Second
	// patience is how many start timeouts a handshake may take before the
	// process is ended and started anew: a first start may download things.
	patience = 4
	// quiet is the least time between two list_changed of one list: each
	// voids a model's prompt cache.
	quiet = 500 * time.Millisecond
)

// Unavailable says why a server cannot be asked now.
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

// errGone: the upstream was closed, or taken out of the configuration.
var errGone = errors.New("no longer configured")

// instance is one process or HTTP connection of an upstream and its
// successors: run starts it, shakes hands, and starts it again when it ends.
// It serves one session, or, shared, all that hold a lease on it.
type instance struct {
	up     *Upstream
	client chan Client // capacity 1; filled once the first session is known
	cancel context.CancelFunc
	ended  chan struct{} // closed when run has returned
	live   atomic.Pointer[conn]
	offer  atomic.Pointer[Offer]
	stale  chan List // lists to be read again

	mu      sync.Mutex
	state   state
	changed chan struct{} // closed and replaced whenever state changes
	leases  []*Lease
	watched map[string]int // subscribed URI → leases that did
	level   string         // log level wanted; "" leaves the server's own
	spoken  Client         // what the handshake said of the client
}

// state is where an instance stands when it has no live connection.
type state struct {
	away   error // why it cannot be asked; nil while starting
	stderr []string
}

func newInstance(up *Upstream) *instance {
	ctx, cancel := context.WithCancel(context.Background())
	in := &instance{
		up: up, client: make(chan Client, 1), cancel: cancel,
		ended: make(chan struct{}), stale: make(chan List, 2*int(Lists)),
		changed: make(chan struct{}), watched: make(map[string]int),
	}
	in.offer.Store(up.known.Load())
	go in.run(ctx)
	return in
}

// run keeps the instance alive until ctx ends: the first restart comes at
// once, later ones after a growing wait with jitter.
func (in *instance) run(ctx context.Context) {
	defer close(in.ended)
	defer in.set(state{away: errGone})
	pause := backoff.NewExponentialBackOff()
	for first := true; ; {
		began := time.Now()
		err, lines := in.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if in.up.otherTransport(err) {
			continue
		}
		if in.up.permanent(err) {
			in.up.log.Error("upstream cannot be used", "upstream", in.up.spec.Name, "err", err)
			in.set(state{away: err})
			<-ctx.Done()
			return
		}
		if time.Since(began) >= steady {
			first = true
			pause.Reset()
		}
		if first {
			first = false
			in.up.log.Warn("upstream ended; starting it again", "upstream", in.up.spec.Name, "err", err)
			in.set(state{stderr: lines})
			continue
		}
		wait := pause.NextBackOff()
		in.up.log.Warn("upstream ended again; waiting before the next start", "upstream", in.up.spec.Name, "err", err, "dur", wait)
		in.set(state{away: err, stderr: lines})
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		in.set(state{stderr: lines})
	}
}

// once is one life of the connection: start, handshake, lists, end.
func (in *instance) once(ctx context.Context) (ended error, stderr []string) {
	c := newConn(in.up.spec.Name, in.up.log, Listener{Notify: in.notify, Ask: in.ask}, in.offer.Load)
	lines, err := in.up.dial(c)
	if err != nil {
		return err, nil
	}
	defer func() { stderr = lines() }() // after close, so that its last words are in
	defer c.close()
	var client Client
	select {
	case client = <-in.client:
		in.client <- client
	case <-c.done:
		return c.err, nil
	case <-ctx.Done():
		return ctx.Err(), nil
	}
	if err := in.greet(ctx, c, client); err != nil {
		return err, nil
	}
	in.live.Store(c)
	in.set(state{})
	defer in.live.CompareAndSwap(c, nil)
	in.resume(c)
	in.serveLists(ctx, c, client.hop())
	select {
	case <-c.done:
		in.live.CompareAndSwap(c, nil)
		return c.err, nil
	default:
		return ctx.Err(), nil
	}
}

// greet shakes hands and takes over what the server says of itself; its lists
// are the last-known ones until they have been read.
func (in *instance) greet(ctx context.Context, c *conn, client Client) error {
	ctx, cancel := context.WithTimeout(ctx, patience*in.up.spec.StartTimeout)
	defer cancel()
	known := in.offer.Load()
	offer, err := c.handshake(ctx, client, known)
	if err != nil {
		return err
	}
	if known != nil {
		offer.Lists = known.Lists
		for l := range Lists {
			if !offer.Has(l.Capability()) {
				offer.Lists[l] = nil
			}
		}
	}
	in.mu.Lock()
	in.spoken = client
	in.mu.Unlock()
	if known == nil { // nothing to offer before its lists are read
		if err := in.readLists(ctx, c, client.hop(), offer); err != nil {
			return err
		}
		in.adopt(offer)
		return nil
	}
	in.adopt(offer)
	for l := range Lists {
		in.refresh(l)
	}
	return nil
}

// readLists fills offer with every list the server has.
func (in *instance) readLists(ctx context.Context, c *conn, hop revision.Hop, offer *Offer) error {
	for l := range Lists {
		if err := in.readList(ctx, c, l, hop, offer); err != nil {
			return err
		}
	}
	return nil
}

func (in *instance) readList(ctx context.Context, c *conn, l List, hop revision.Hop, offer *Offer) error {
	offer.Lists[l] = nil
	if !offer.Has(l.Capability()) {
		return nil
	}
	read, err := c.list(ctx, l, hop)
	var refused *jsonrpc.Error
	if errors.As(err, &refused) {
		if refused.Code != jsonrpc.CodeMethodNotFound { // many servers have resources and no templates
			in.up.log.Warn("upstream refused a list", "upstream", in.up.spec.Name, "list", l.Method(), "err", err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if l == Tools && c.http && c.stateless() {
		var bad []string
		if read, bad = withoutInvalidHeaders(read); len(bad) > 0 {
			in.up.log.Warn("upstream tools left out: invalid x-mcp-header", "upstream", in.up.spec.Name, "tools", bad)
		}
	}
	offer.Lists[l] = read
	return nil
}

// serveLists reads lists again when they went stale, at most one of a kind in
// each quiet period, until the connection or ctx ends.
func (in *instance) serveLists(ctx context.Context, c *conn, hop revision.Hop) {
	in.listen(c)
	last := [Lists]time.Time{}
	for {
		select {
		case l := <-in.stale:
			if wait := quiet - time.Since(last[l]); wait > 0 && !last[l].IsZero() {
				select {
				case <-time.After(wait):
				case <-c.done:
					return
				case <-ctx.Done():
					return
				}
			}
			last[l] = time.Now()
			next := in.offer.Load().clone()
			ctx, cancel := context.WithTimeout(ctx, patience*in.up.spec.StartTimeout)
			err := in.readList(ctx, c, l, hop, next)
			cancel()
			if err != nil {
				in.up.log.Warn("list not read; the last-known one stands", "upstream", in.up.spec.Name, "list", l.Method(), "err", err)
				continue
			}
			in.adopt(next)
		case <-c.done:
			return
		case <-ctx.Done():
			return
		}
	}
}

// adopt makes offer the current one, keeps it for next time, and tells the
// sessions which lists are no longer the same to the byte.
func (in *instance) adopt(offer *Offer) {
	old := in.offer.Swap(offer)
	in.up.remember(offer)
	in.mu.Lock()
	leases := in.leases
	in.mu.Unlock()
	if old == nil {
		old = &Offer{}
	}
	for l := range Lists {
		if sameItems(old.Lists[l], offer.Lists[l]) {
			continue
		}
		for _, lease := range leases {
			if lease.listener.Changed != nil {
				lease.listener.Changed(l)
			}
		}
	}
}

// refresh marks a list as stale; one already marked is read once.
func (in *instance) refresh(l List) {
	select {
	case in.stale <- l:
	default: // the queue holds every list already
	}
}

func (in *instance) set(s state) {
	in.mu.Lock()
	in.state = s
	close(in.changed)
	in.changed = make(chan struct{})
	in.mu.Unlock()
}

// ready returns the live connection, waiting for one that is on its way. What
// is away for longer is an error at once.
func (in *instance) ready(ctx context.Context) (*conn, error) {
	if c := in.live.Load(); c != nil {
		return c, nil
	}
	late := time.NewTimer(in.up.spec.StartTimeout)
	defer late.Stop()
	for {
		in.mu.Lock()
		s, changed := in.state, in.changed
		in.mu.Unlock()
		if c := in.live.Load(); c != nil {
			return c, nil
		}
		if s.away != nil {
			return nil, &Unavailable{Upstream: in.up.spec.Name, Cause: s.away, Stderr: s.stderr}
		}
		select {
		case <-changed:
		case <-late.C:
			return nil, &Unavailable{Upstream: in.up.spec.Name, Cause: fmt.Errorf("still starting after %v", in.up.spec.StartTimeout), Stderr: s.stderr}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// close ends the instance and returns when its process and goroutines have.
func (in *instance) close() {
	in.cancel()
	<-in.ended
}
