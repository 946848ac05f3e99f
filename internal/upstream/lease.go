package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// Lease is one session's hold on an instance of an upstream.
type Lease struct {
	in       *instance
	listener Listener
	lane     lane
	number   uint64 // of the instance's leases
	mixed    bool   // what the server says may be for others than this lease's client
	mute     bool   // its client gets log messages only with requests that ask for them

	// Guarded by in.mu.
	uris     map[string]bool // subscribed by this lease
	level    string          // log level its client wants; "": it did not say
	hasTasks bool            // a task was started, which goes on after its answer
	gone     bool            // it was closed
}

// Name is the upstream's.
func (l *Lease) Name() string { return l.in.up.spec.Name }

// Offer is what the server was last known to have; nil if it never answered.
func (l *Lease) Offer() *Offer { return l.in.offer.Load() }

// Settled waits until the offer is known or the server is known to be away.
func (l *Lease) Settled(ctx context.Context) { l.in.settled(ctx) }

// Instance identifies what the lease is on. No other instance of any upstream
// ever has the same number, the first of which is 1; a restart keeps it.
func (l *Lease) Instance() uint64 { return l.in.id }

// Shared reports whether all sessions have the same instance.
func (l *Lease) Shared() bool { return l.in.up.spec.Shared }

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

// Answer is what a server said to a request. Beside an error, only what it says
// of the sending counts.
type Answer struct {
	Result     []byte // raw; nil if it answered with an error
	Error      []byte // the raw error object
	Stateless  bool   // it came over a hop of the stateless era
	Sent       bool   // the server may have been handed the request; also beside an error
	Requests   int    // how often it went out: again where it certainly had not been run; also beside an error
	Limited    bool   // the server refused it by HTTP status, as one request too many; also beside an error
	RetryAfter string // if Limited: the raw Retry-After header; "" without one
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
// may have been run. Where it certainly has not been, the answer says so beside
// the error. A request that is given up or times out before it is sent never is.
func (l *Lease) Call(ctx context.Context, turn Turn, req *Request) (Answer, error) {
	defer turn.leave(true)
	sent := func() {
		if req.Sent != nil {
			req.Sent()
		}
		turn.leave(true)
	}
	requests := 0
	for try := 1; ; try++ {
		c, by, err := l.await(ctx, turn, req)
		if err != nil {
			return Answer{Requests: requests}, err
		}
		if req.Pace != nil && try == 1 {
			if err := l.pace(ctx, turn, req, by); err != nil {
				return Answer{}, err
			}
		}
		if c.http {
			sent() // HTTP keeps no order between requests
		}
		a := c.call(ctx, l, req, sent)
		if !a.unsent || errors.Is(a.err, errSessionLost) { // which it has read and not run
			requests++
		}
		if a.err == nil || ctx.Err() != nil || errors.Is(a.err, ErrTimeout) {
			return c.answered(a, requests), a.err
		}
		notRun := errors.Is(a.err, errClosed) || errors.Is(a.err, errSessionLost)
		if !notRun || try == sendings || req.Alone {
			return c.answered(a, requests), l.in.broke(c, a.err)
		}
		l.in.over(ctx, c)
	}
}

// answered is what the caller learns of a request that went out so often.
func (c *conn) answered(a answer, requests int) Answer {
	said := Answer{Sent: !a.unsent, Requests: requests, Limited: a.limited, RetryAfter: a.retryAfter}
	if a.err == nil {
		said.Result, said.Error, said.Whole = a.msg.Result, a.msg.Error, a.msg
		said.Stateless = c.stateless()
	}
	return said
}

// errStarting: a server does not get ready.
var errStarting = errors.New("still starting")

// unsent says that a request's time was up before it could be sent.
func unsent(req *Request) error {
	return fmt.Errorf("not sent within %v: the limit of its host, or of that of an earlier call, did not let it", req.Timeout)
}

// await waits for the request's turn and for the connection, and says until when
// the request must have been sent; zero: there is no hurry. It waits at most the
// start timeout for a server that is starting, and at most the request's own for
// its turn at one that is there. Either counts from when the request came, or from
// when the server began to start or got ready if that was later: so the waits of
// requests behind each other do not add up, and a wait for the turn is none for the
// server.
func (l *Lease) await(ctx context.Context, turn Turn, req *Request) (c *conn, by time.Time, err error) {
	for came := time.Now(); ; {
		turned := turn.ask(req)
		c, s, changed := l.in.now()
		by = time.Time{}
		bound := l.in.up.spec.StartTimeout
		if c != nil {
			bound = 0
			if turn != (Turn{}) { // else it is not in line, and its caller says how long it may wait
				bound = req.Timeout
			}
		}
		if bound > 0 {
			by = came
			if s.since.After(came) {
				by = s.since
			}
			by = by.Add(bound)
		}
		if c != nil && turned == nil {
			return c, by, nil
		}
		if c == nil && s.away != nil {
			return nil, by, l.in.unavailable(s.away, s.stderr)
		}
		waiting, cancel := ctx, context.CancelFunc(func() {})
		if bound > 0 {
			waiting, cancel = context.WithDeadline(ctx, by)
		}
		select {
		case <-turned:
		case <-changed:
		case <-waiting.Done():
			err = context.Cause(ctx)
			if err == nil && c != nil {
				err = unsent(req)
			} else if err == nil {
				err = l.in.unavailable(fmt.Errorf("%w after %v", errStarting, bound), s.stderr)
			}
		}
		cancel()
		if err != nil {
			return nil, by, err
		}
	}
}

// pace waits until the request may go, at most until by. Nothing that is behind
// passes it any more when it returns.
func (l *Lease) pace(ctx context.Context, turn Turn, req *Request, by time.Time) error {
	if !by.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, by, unsent(req))
		defer cancel()
	}
	defer turn.waits(false)
	return req.Pace(ctx)
}

// over waits until the instance has seen that connection c has ended, so that
// it is not handed out again.
func (in *instance) over(ctx context.Context, c *conn) {
	select {
	case <-c.done:
		in.lost(c)
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
		c.touch(l)
		c.notify(method, params)
	}
}

// Close gives the lease back; a private instance ends with it, a shared one is
// told what nobody watches any more.
func (l *Lease) Close() {
	in := l.in
	in.mu.Lock()
	in.leases = slices.DeleteFunc(slices.Clone(in.leases), func(m *Lease) bool { return m == l })
	shared, hasTasks := len(in.leases) > 0, l.hasTasks
	l.gone = true
	in.mu.Unlock()
	if hasTasks {
		l.noteUnfinished()
	}
	if in.up.spec.Shared {
		in.tellLevel()
	}
	if shared {
		for _, uri := range l.Watches() {
			l.Unwatch(uri)
		}
	}
	in.up.release(in)
}
