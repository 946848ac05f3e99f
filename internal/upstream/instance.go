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
	// quiet is the least time between two readings of an upstream's lists.
	quiet = 500 * time.Millisecond
	// readAgain is the pause before a list that could not be read is tried
	// again.
	readAgain = 10 * time.Second
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

// errGone: the upstream was closed, or taken out of the configuration.
var errGone = errors.New("no longer configured")

// instances counts those of the process, for their ids. It is the one variable of
// this package because the ids must differ between upstreams, too.
var instances atomic.Uint64

// instance is one process or HTTP connection of an upstream and its
// successors: run starts it, shakes hands, and starts it again when it ends.
// It serves one session, or, shared, all that hold a lease on it.
type instance struct {
	id     uint64 // never given again
	up     *Upstream
	client chan Client // capacity 1; filled once the first session is known
	cancel context.CancelFunc
	ended  chan struct{} // closed when run has returned
	live   atomic.Pointer[conn]
	offer  atomic.Pointer[Offer]
	wake   chan struct{} // capacity 1; a list went stale

	listening sync.Mutex // held while the listen request is replaced
	levelling sync.Mutex // held while the log level is told

	mu      sync.Mutex
	stale   [Lists]bool // lists to be read again
	listed  bool        // the offer is a last-known one, or every list has been tried
	shy     bool        // it ended when asked for the stateless revision
	state   state
	changed chan struct{} // closed and replaced whenever state changes
	leases  []*Lease
	leased  uint64         // how many leases there have been
	watched map[string]int // subscribed URI → leases that did
	spoken  Client         // what the handshake said of the client
}

// state is where an instance stands; what it says of being away counts while there
// is no live connection.
type state struct {
	away   error // why it cannot be asked; nil while starting
	stderr []string
	since  time.Time // when it came to stand so; zero: from the beginning
}

// newInstance starts an instance, once after is closed; nil is closed.
func newInstance(up *Upstream, after <-chan struct{}) *instance {
	ctx, cancel := context.WithCancel(context.Background())
	in := &instance{
		id: instances.Add(1), up: up, client: make(chan Client, 1), cancel: cancel,
		ended: make(chan struct{}), wake: make(chan struct{}, 1),
		changed: make(chan struct{}), watched: make(map[string]int),
	}
	go in.run(ctx, after)
	return in
}

// setClient says which client the instance is for, once: what was last offered to such a
// client is offered to this one until the server has said what it has now.
func (in *instance) setClient(client Client) {
	known := in.up.known.to(client)
	in.offer.Store(known)
	in.mu.Lock()
	in.listed = known != nil
	in.mu.Unlock()
	in.client <- client
}

// run keeps the instance alive until ctx ends: the first restart comes at
// once, later ones after a growing wait with jitter.
func (in *instance) run(ctx context.Context, after <-chan struct{}) {
	defer close(in.ended)
	defer in.set(state{away: errGone})
	if after != nil {
		select {
		case <-after:
		case <-ctx.Done():
			return
		}
	}
	pause := backoff.NewExponentialBackOff()
	for first := true; ctx.Err() == nil; {
		lived, lines, err := in.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if in.up.otherTransport(err) {
			continue
		}
		if lived == 0 && in.up.permanent(err) {
			in.up.log.Error("upstream cannot be used", in.up.logAttrs(err)...)
			in.set(state{away: err})
			<-ctx.Done()
			return
		}
		if lived >= steady {
			first = true
			pause.Reset()
		}
		if first {
			first = false
			in.up.log.Warn("upstream ended; starting it again", in.up.logAttrs(err)...)
			in.set(state{stderr: lines})
			continue
		}
		wait := pause.NextBackOff()
		in.up.log.Warn("upstream ended again; waiting before the next start", append(in.up.logAttrs(err), "dur", wait)...)
		in.set(state{away: err, stderr: lines})
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		in.set(state{stderr: lines})
	}
}

// logAttrs is what the log has of an error with which a life ended. Where a command
// was looked for is for the log alone: it tells a model nothing but how the machine
// is laid out.
func (u *Upstream) logAttrs(err error) []any {
	attrs := []any{"upstream", u.spec.Name, "err", err}
	if missing, ok := errors.AsType[*notFound](err); ok {
		attrs = append(attrs, "path", missing.path)
	}
	return attrs
}

// once is one life of the connection: start, handshake, lists, end. lived is
// how long it could be asked, 0 if never.
func (in *instance) once(ctx context.Context) (lived time.Duration, stderr []string, ended error) {
	c := newConn(in.up.spec.Name, in.up.log, in.up.mask, in.offer.Load, in.up.stirred)
	c.settle, c.counts = in.up.settle, &in.up.counts
	c.unbound = unbound{
		notify: func(p *pending, method string, params []byte) { in.notify(c, p, method, params) },
		asker:  func(p *pending, method string) askFunc { return in.asker(c, p, method) },
	}
	lines, err := in.up.dial(c)
	if err != nil {
		return 0, nil, err
	}
	defer func() { stderr = lines() }() // after close, so that its last words are in
	defer c.close()
	var client Client
	select {
	case client = <-in.client:
		in.client <- client
	case <-c.done:
		return 0, nil, c.err
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	}
	if err := in.greet(ctx, c, client); err != nil {
		return 0, nil, err
	}
	began := time.Now()
	told := in.resume(c, nil) // before any call that waits for the connection
	in.adopted(c)
	in.resume(c, told) // what changed in between
	in.listen(c)       // before the lists are read, so that no change is missed
	in.serveLists(ctx, c, client.hop())
	in.lost(c)
	select {
	case <-c.done:
		ended = c.err
	default:
		ended = ctx.Err()
	}
	return time.Since(began), nil, ended
}

// greet shakes hands and takes over what the server says of itself; its lists
// are the last-known ones until they have been read.
func (in *instance) greet(ctx context.Context, c *conn, client Client) error {
	ctx, cancel := context.WithTimeout(ctx, patience*in.up.spec.StartTimeout)
	defer cancel()
	known := in.offer.Load()
	in.mu.Lock()
	legacy := in.shy || in.up.known.legacy()
	in.spoken = client
	in.mu.Unlock()
	offer, err := c.handshake(ctx, client, legacy)
	if err != nil {
		in.noteShy(c, client, legacy)
		return err
	}
	if known != nil {
		offer.Lists = known.Lists
	}
	for l := range Lists {
		if !offer.Has(l.Capability()) {
			offer.Lists[l] = nil
		}
		in.refresh(l)
	}
	in.up.stirred("handshake") // before anybody can see that there is another server
	in.adopt(offer)
	return nil
}

// noteShy notes that the server ended when a stateless client's revision was
// asked for, so that the next one is greeted the older way.
func (in *instance) noteShy(c *conn, client Client, legacy bool) {
	select {
	case <-c.done:
		in.mu.Lock()
		in.shy = !legacy && revision.Stateless(client.Version) && !c.http
		in.mu.Unlock()
	default:
	}
}

// read returns one list of the server. What cannot be read stays as it was and
// is tried again later; a list that the server does not know is empty.
func (in *instance) read(ctx context.Context, c *conn, l List, hop revision.Hop) []Item {
	old := in.offer.Load()
	if !old.Has(l.Capability()) {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, in.up.spec.StartTimeout)
	defer cancel()
	read, err := c.list(bounded, l, hop)
	if answer, ok := errors.AsType[*jsonrpc.Error](err); ok && answer.Code == jsonrpc.CodeMethodNotFound {
		return nil // many servers have resources and no templates
	}
	if err != nil {
		select {
		case <-c.done:
		case <-ctx.Done(): // it is being ended
		default:
			in.up.log.Warn("list not read; the last-known one stands", "upstream", in.up.spec.Name, "list", l.Method(), "err", err)
			time.AfterFunc(readAgain, func() { in.refresh(l) })
		}
		return old.Lists[l]
	}
	if l == Tools && c.http && c.stateless() {
		var bad []string
		if read, bad = withoutInvalidHeaders(read); len(bad) > 0 {
			in.up.log.Warn("upstream tools left out: invalid x-mcp-header", "upstream", in.up.spec.Name, "tools", bad)
		}
	}
	return read
}

// serveLists reads lists again when they went stale, once in a quiet period,
// until the connection or ctx ends. Each is offered as soon as it is there, so
// that one that hangs keeps none of the others.
func (in *instance) serveLists(ctx context.Context, c *conn, hop revision.Hop) {
	for {
		select {
		case <-in.wake:
		case <-c.done:
			return
		case <-ctx.Done():
			return
		}
		in.mu.Lock()
		stale := in.stale
		in.stale = [Lists]bool{}
		in.mu.Unlock()
		for l := range Lists {
			if !stale[l] {
				continue
			}
			next := in.offer.Load().clone()
			next.Lists[l] = in.read(ctx, c, l, hop)
			in.adopt(next)
		}
		in.nowListed()
		select {
		case <-time.After(quiet):
		case <-c.done:
			return
		case <-ctx.Done():
			return
		}
	}
}

// nowListed notes that every list has been tried once: what is offered now is
// worth keeping, and nobody need wait for more.
func (in *instance) nowListed() {
	in.mu.Lock()
	first := !in.listed
	in.listed = true
	if first {
		close(in.changed)
		in.changed = make(chan struct{})
	}
	client := in.spoken
	in.mu.Unlock()
	in.up.remember(client, in.offer.Load())
}

// settled returns once the lists have been tried, or the server is known to be
// away, or ctx has ended.
func (in *instance) settled(ctx context.Context) {
	for {
		in.mu.Lock()
		done, changed := in.listed || in.state.away != nil, in.changed
		in.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// adopt makes offer the current one and tells the sessions which lists are no
// longer the same to the byte.
func (in *instance) adopt(offer *Offer) {
	old := in.offer.Swap(offer)
	if old == nil {
		old = &Offer{}
	}
	in.mu.Lock()
	leases := in.leases
	in.mu.Unlock()
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

// refresh marks a list as stale.
func (in *instance) refresh(l List) {
	in.mu.Lock()
	in.stale[l] = true
	in.mu.Unlock()
	select {
	case in.wake <- struct{}{}:
	default: // it will wake anyway
	}
}

func (in *instance) set(s state) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.setLocked(s)
}

func (in *instance) setLocked(s state) {
	s.since = time.Now()
	in.state = s
	close(in.changed)
	in.changed = make(chan struct{})
}

// now returns the live connection, nil if there is none, and how the instance
// stands. changed is closed when either may be otherwise.
func (in *instance) now() (c *conn, s state, changed <-chan struct{}) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.live.Load(), in.state, in.changed
}

// adopted notes that connection c is live.
func (in *instance) adopted(c *conn) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.live.Store(c)
	in.setLocked(state{})
}

// lost notes that connection c is none any more: from now on the instance starts,
// until run says otherwise.
func (in *instance) lost(c *conn) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.live.CompareAndSwap(c, nil) {
		in.setLocked(state{})
	}
}

func (in *instance) unavailable(why error, stderr []string) error {
	return &Unavailable{Upstream: in.up.spec.Name, Cause: in.up.mask.Error(why), Stderr: stderr}
}

// close ends the instance and returns when its process and goroutines have.
func (in *instance) close() {
	in.cancel()
	<-in.ended
}
