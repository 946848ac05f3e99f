package upstream

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// Lease is one session's hold on an instance of an upstream.
type Lease struct {
	in       *instance
	listener Listener
	lane     lane
	uris     map[string]bool // subscribed by this lease; guarded by in.mu
}

// Name is the upstream's.
func (l *Lease) Name() string { return l.in.up.spec.Name }

// Offer is what the server was last known to have; nil if it never answered.
func (l *Lease) Offer() *Offer { return l.in.offer.Load() }

// Settled waits until the offer is known or the server is known to be away.
func (l *Lease) Settled(ctx context.Context) { l.in.settled(ctx) }

// Live reports whether the server can be asked at once.
func (l *Lease) Live() bool { return l.in.live.Load() != nil }

// Stateless reports whether the live connection, or else the last one, speaks
// a stateless revision.
func (l *Lease) Stateless() bool {
	if c := l.in.live.Load(); c != nil {
		return c.stateless()
	}
	offer := l.Offer()
	return offer != nil && revision.Stateless(offer.Version)
}

// Problem says why the server cannot be asked now, nil if it can or is starting.
func (l *Lease) Problem() error {
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	if l.in.state.away == nil {
		return nil
	}
	return l.in.unavailable(l.in.state.away, l.in.state.stderr)
}

// Turn takes the next place in the order in which this session's requests are
// sent to this server. It is taken before the next message of the session is
// read, and must be handed to Call.
func (l *Lease) Turn() Turn { return l.lane.take() }

// Answer is what a server said to a request.
type Answer struct {
	Result    []byte // raw; nil if it answered with an error
	Error     []byte // the raw error object
	Stateless bool   // it came over a hop of the stateless era
	// Whole is the message that Result is part of, for who wants to send it on
	// and give its Buffer back.
	Whole jsonrpc.Message
}

// sendings is how often a request is sent that the server certainly has not
// run: over a connection that ended first, or in a session it had forgotten.
const sendings = 3

// Call sends a request in its turn and waits for the answer. A server that is
// starting is waited for; one that is away is an *Unavailable at once, as is
// one that ends before it has answered: the call is not repeated then, for it
// may have been run.
func (l *Lease) Call(ctx context.Context, turn Turn, req *Request) (Answer, error) {
	defer turn.Leave()
	for try := 1; ; try++ {
		c, err := l.await(ctx, turn)
		if err != nil {
			return Answer{}, err
		}
		if c.http {
			turn.Leave() // HTTP keeps no order between requests
		}
		m, err := c.call(ctx, req, turn.Leave)
		if err == nil {
			return Answer{Result: m.Result, Error: m.Error, Stateless: c.stateless(), Whole: m}, nil
		}
		if ctx.Err() != nil || errors.Is(err, ErrTimeout) {
			return Answer{}, err
		}
		notRun := errors.Is(err, errClosed) || errors.Is(err, errSessionLost)
		if !notRun || try == sendings {
			return Answer{}, l.in.broke(c, err)
		}
		l.in.over(ctx, c)
	}
}

// await waits for the request's turn and for the connection. The time that a
// starting server may take counts from here, so that the waits of requests
// behind each other do not add up.
func (l *Lease) await(ctx context.Context, turn Turn) (*conn, error) {
	if c := l.in.live.Load(); c != nil && turn.free() {
		return c, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, l.in.up.spec.StartTimeout, errStarting)
	defer cancel()
	if err := turn.wait(ctx); err != nil && !errors.Is(err, errStarting) {
		return nil, err
	}
	return l.in.ready(ctx)
}

// over waits until the instance has seen that connection c has ended, so that
// ready does not hand it out again.
func (in *instance) over(ctx context.Context, c *conn) {
	select {
	case <-c.done:
		in.live.CompareAndSwap(c, nil)
	case <-ctx.Done():
	}
}

// broke words the end of a connection under a request.
func (in *instance) broke(c *conn, err error) error {
	var lines []string
	select {
	case <-c.done:
		lines = in.up.lines(c)
	default: // one request failed, over HTTP: the connection lives
	}
	return in.unavailable(err, lines)
}

// Notify sends a notification to the server if it is there.
func (l *Lease) Notify(method string, params []byte) {
	if c := l.in.live.Load(); c != nil && !c.stateless() {
		c.notify(method, params)
	}
}

// SetLevel asks the server for log messages from level on, now and after a
// restart.
func (l *Lease) SetLevel(level string) {
	l.in.mu.Lock()
	same := l.in.level == level
	l.in.level = level
	l.in.mu.Unlock()
	if c := l.in.live.Load(); c != nil && !same {
		l.in.tellLevel(c)
	}
}

// Subscribe asks for updates of a resource, now and after a restart.
func (l *Lease) Subscribe(uri string) {
	in := l.in
	in.mu.Lock()
	fresh := !l.uris[uri]
	if fresh {
		l.uris[uri] = true
		in.watched[uri]++
	}
	in.mu.Unlock()
	if c := in.live.Load(); c != nil && fresh && c.stateless() {
		in.listen(c)
	}
}

// Watch is Subscribe for a session that has no request of its own to make: the
// server is asked as its revision has it.
func (l *Lease) Watch(uri string) {
	l.Subscribe(uri)
	if c := l.in.live.Load(); c != nil && !c.stateless() {
		l.in.tell(c, "resources/subscribe", append(jsonrpc.AppendString([]byte(`{"uri":`), uri), '}'))
	}
}

// Unwatch ends what Watch asked for.
func (l *Lease) Unwatch(uri string) {
	last := l.Unsubscribe(uri)
	if c := l.in.live.Load(); c != nil && last && !c.stateless() {
		l.in.tell(c, "resources/unsubscribe", append(jsonrpc.AppendString([]byte(`{"uri":`), uri), '}'))
	}
}

// Unsubscribe ends what Subscribe asked for and reports whether the server
// need not send updates any more.
func (l *Lease) Unsubscribe(uri string) (last bool) {
	in := l.in
	in.mu.Lock()
	if l.uris[uri] {
		delete(l.uris, uri)
		if in.watched[uri]--; in.watched[uri] <= 0 {
			delete(in.watched, uri)
			last = true
		}
	}
	in.mu.Unlock()
	if c := in.live.Load(); c != nil && last && c.stateless() {
		in.listen(c)
	}
	return last
}

// Watches returns the URIs that the lease subscribed to.
func (l *Lease) Watches() []string {
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	return slices.Collect(maps.Keys(l.uris))
}

// Close gives the lease back; a private instance ends with it, a shared one is
// told what nobody watches any more.
func (l *Lease) Close() {
	in := l.in
	in.mu.Lock()
	in.leases = slices.DeleteFunc(slices.Clone(in.leases), func(m *Lease) bool { return m == l })
	shared := len(in.leases) > 0
	in.mu.Unlock()
	if shared {
		for _, uri := range l.Watches() {
			l.Unwatch(uri)
		}
	}
	in.up.release(in)
}

// notify passes on what the server says to nobody in particular.
func (in *instance) notify(method string, params []byte) {
	if strings.HasSuffix(method, "/list_changed") {
		for l := range Lists {
			if l.Changed() == method {
				in.refresh(l)
			}
		}
		return
	}
	in.mu.Lock()
	leases := in.leases
	var to []*Lease
	switch {
	case method == "notifications/resources/updated":
		uri := text(jsonrpc.Get(params, "uri"))
		for _, l := range leases {
			if covers(l.uris, uri) {
				to = append(to, l)
			}
		}
	case len(leases) == 1: // with more, it would reach a session it is not for
		to = leases
	}
	in.mu.Unlock()
	for _, l := range to {
		if l.listener.Notify != nil {
			l.listener.Notify(method, stripped(params))
		}
	}
}

// covers reports whether uri, or a resource it is part of, is subscribed to.
func covers(uris map[string]bool, uri string) bool {
	if uris[uri] {
		return true
	}
	for u := range uris {
		if Covers(u, uri) {
			return true
		}
	}
	return false
}

// Covers reports whether an update of uri is one for who subscribed to
// another: the same, or one above it.
func Covers(subscribed, uri string) bool {
	return subscribed == uri || strings.HasPrefix(uri, strings.TrimSuffix(subscribed, "/")+"/")
}

// ask passes a question of the server to the one session that can be meant.
func (in *instance) ask(ctx context.Context, method string, params []byte) ([]byte, *jsonrpc.Error) {
	in.mu.Lock()
	leases := in.leases
	in.mu.Unlock()
	if len(leases) != 1 || leases[0].listener.Ask == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: method + ": this server is shared by several sessions, none of which can be asked"}
	}
	return leases[0].listener.Ask(ctx, method, params)
}

// resume tells a server that was started anew what the old one knew.
func (in *instance) resume(c *conn) {
	in.tellLevel(c)
	if c.stateless() {
		return // its listen request carries the subscriptions
	}
	in.mu.Lock()
	var uris []string
	for uri := range in.watched {
		uris = append(uris, uri)
	}
	in.mu.Unlock()
	for _, uri := range uris {
		in.tell(c, "resources/subscribe", append(jsonrpc.AppendString([]byte(`{"uri":`), uri), '}'))
	}
}

func (in *instance) tellLevel(c *conn) {
	in.mu.Lock()
	level := in.level
	in.mu.Unlock()
	if offer := in.offer.Load(); level == "" || c.stateless() || offer == nil || !offer.Has("logging") {
		return
	}
	in.tell(c, "logging/setLevel", append(jsonrpc.AppendString([]byte(`{"level":`), level), '}'))
}

// tell sends a request whose answer changes nothing here, before it returns:
// what the session sends next must come after it.
func (in *instance) tell(c *conn, method string, params []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), in.up.spec.StartTimeout)
	p, err := c.start(ctx, &Request{Method: method, Params: params}, nil)
	if err != nil || !c.spawn(func() {
		defer cancel()
		m, err := c.wait(ctx, p)
		if err == nil && m.Error != nil {
			err = readError(m.Error)
		}
		if err != nil {
			in.up.log.Debug("upstream did not take a setting", "upstream", in.up.spec.Name, "method", method, "err", err)
		}
	}) {
		cancel()
	}
}
