package upstream

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// Request is one request of a client on its way to a server.
type Request struct {
	Method string
	Params []byte               // as the client wrote them
	Target []byte               // raw JSON; replaces the member that names the target; nil leaves it
	Hop    revision.Hop         // what the client says of itself, for a stateless server
	Token  bool                 // progress is wanted
	Notify func(string, []byte) // hears what the transport attributes to this request, progress always; nil: nothing
	Ask    func(context.Context, string, []byte) ([]byte, *jsonrpc.Error)
	// Reads says that the request changes nothing, and Host by whose limit it goes:
	// reads for one host may be sent while those for another wait for its limit.
	Reads bool
	Host  string
	// Admit lets the request go, once its turn has come and its server is there. Without
	// wait it answers at once; where it says no, it is called again, with wait, to return
	// once the request may go or with an error. Of reads, those behind may pass this one
	// meanwhile if they are for another host. Nil: it may go.
	Admit func(ctx context.Context, wait bool) (ok bool, err error)
	// Sent is called when the request has been handed to the server, before what is
	// behind it in its lane is, once or more often; nil: not of interest.
	Sent func()
	// Alone is a request that may be refused for what it is: neither its credentials
	// nor its session count as refused with it, and it is not sent again.
	Alone bool
	// Timeout without an answer, restarted by progress; 0 is none. It also bounds the
	// wait of a request with a turn to be sent to a server that is there, and counts
	// anew from when it is.
	Timeout time.Duration
	// Late is called once, on the reader, when the answer comes after all to a
	// request whose caller has given up: its context has ended, or its time was
	// up. That may be before the caller hears of the end. It is never called where
	// no answer can come any more: the connection has ended, or the response over
	// HTTP was dropped. Nil hears nothing.
	Late func()
}

// pending is a request without its answer.
type pending struct {
	id      int64
	of      *Lease // nil: it is the proxy's own
	req     *Request
	done    func(answer)            // called once if the request was sent, else never
	timer   *time.Timer             // nil without a timeout
	drop    context.CancelCauseFunc // over HTTP, with a timeout: ends the exchange; else nil
	account *account                // where it is counted while it has no answer; nil: nowhere

	limited    bool   // the answer's HTTP status said so; guarded by conn.mu while it waits
	retryAfter string // the header beside it

	sending sync.Mutex  // held while the request is sent: its outcome is told after that
	sent    bool        // it was; guarded by sending
	unwatch func() bool // ends the watch over the request's context
}

type answer struct {
	msg        jsonrpc.Message
	err        error
	unsent     bool // with err: the server has certainly not run it
	limited    bool // see pending
	retryAfter string
}

// start sends a request of a lease, nil for the proxy's own, and does not wait for
// its answer. sent is called when it has been handed to the link, then done, once,
// with its outcome: an answer on the connection's reader, the end of ctx or of its
// time on a goroutine of its own. An error says that it was not sent: neither is
// called.
func (c *conn) start(ctx context.Context, of *Lease, req *Request, sent func(), done func(answer)) error {
	p := &pending{id: c.next.Add(1), of: of, req: req, done: done}
	p.sending.Lock()
	defer p.sending.Unlock()
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return errClosed
	}
	c.enterLocked(p)
	if req.Timeout > 0 {
		p.timer = time.AfterFunc(req.Timeout, func() { c.expired(p) })
	}
	c.mu.Unlock()
	if req.Timeout > 0 && c.http {
		ctx, p.drop = context.WithCancelCause(ctx)
	}
	err := context.Cause(ctx) // it may have been given up already
	if err == nil {
		err = c.link.send(ctx, c.frame(p.id, req))
	}
	if err != nil {
		c.take(p.id)
		p.release(err)
		return err
	}
	p.sent = true
	sent()
	p.unwatch = context.AfterFunc(ctx, func() { c.giveUp(p, context.Cause(ctx)) })
	return nil
}

// release frees what a request holds that waits no more.
func (p *pending) release(why error) {
	if p.timer != nil {
		p.timer.Stop()
	}
	if p.drop != nil {
		p.drop(why)
	}
}

// finish tells the outcome of a request that waits no more.
func (p *pending) finish(a answer) {
	p.sending.Lock()
	sent := p.sent
	p.sending.Unlock()
	if !sent {
		return // start says so
	}
	p.unwatch()
	p.release(a.err)
	a.limited, a.retryAfter = p.limited, p.retryAfter
	p.done(a)
}

// giveUp ends a request that has no answer yet.
func (c *conn) giveUp(p *pending, why error) {
	p.sending.Lock() // it is told to the server after the request
	sent := p.sent
	p.sending.Unlock()
	if sent && c.abandon(p) {
		c.cancelled(p, why)
		p.finish(answer{err: why})
	}
}

// expired gives up a request whose timeout has passed, unless the server waits for
// its client: a person may take as long as they like.
func (c *conn) expired(p *pending) {
	c.mu.Lock()
	for _, q := range c.asked {
		if p.id <= q.after {
			p.timer.Reset(p.req.Timeout)
			c.mu.Unlock()
			return
		}
	}
	c.mu.Unlock()
	c.giveUp(p, ErrTimeout)
}

// call sends a request of the proxy's own and waits for its answer.
func (c *conn) call(ctx context.Context, req *Request, sent func()) answer {
	outcome := make(chan answer, 1)
	if err := c.start(ctx, nil, req, sent, func(a answer) { outcome <- a }); err != nil {
		return answer{err: c.unsent(ctx, err), unsent: true}
	}
	return <-outcome
}

// endNoticed is how long a connection whose link refused a message may take to
// say that it has ended: longer than it waits for late answers, or for a
// process to end by itself.
const endNoticed = 2*lateAnswers + 2*stopGrace

// unsent words why a request did not go out: with the connection's end it may
// be sent over the next one.
func (c *conn) unsent(ctx context.Context, err error) error {
	if errors.Is(err, errNotReading) {
		return err // it lives, and will not end by that
	}
	notice := time.NewTimer(endNoticed)
	defer notice.Stop()
	select {
	case <-c.done:
		return errClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-notice.C:
		return err
	}
}

// frame writes the request as this server wants it.
func (c *conn) frame(id int64, req *Request) outgoing {
	var number [20]byte
	raw := strconv.AppendInt(number[:0], id, 10)
	change := revision.Change{Target: req.Target, Member: targetMember(req.Method), Arguments: req.Method == "tools/call"}
	if req.Token {
		change.Token = raw
	}
	out := outgoing{id: id, alone: req.Alone}
	version := c.revision()
	if revision.Stateless(version) {
		hop := req.Hop
		hop.Version = version
		change.Hop = &hop
	}
	params := revision.Translate(req.Params, change)
	if c.http && revision.Stateless(version) {
		out.header = c.headers(version, req.Method, params)
	}
	out.line = jsonrpc.AppendRequest(make([]byte, 0, len(params)+len(req.Method)+64), raw, req.Method, params)
	return out
}

// targetMember names the member of a method's params that routes it.
func targetMember(method string) string {
	switch method {
	case "tools/call", "prompts/get":
		return "name"
	case "resources/read", "resources/subscribe", "resources/unsubscribe":
		return "uri"
	case "completion/complete":
		return "ref"
	}
	return ""
}

func (c *conn) headers(version, method string, params []byte) http.Header {
	header := make(http.Header)
	for k, v := range mcp.StandardHeaders(version, mcp.MCPMethod(method), params) {
		header.Set(k, v)
	}
	if method == "tools/call" {
		for k, v := range c.offer().paramHeaders(params) {
			header.Set(k, v)
		}
	}
	return header
}

// notify sends a notification; a server that is gone does not hear it.
func (c *conn) notify(method string, params []byte) {
	line := jsonrpc.AppendNotification(nil, method, params)
	if err := c.link.send(context.Background(), outgoing{line: line}); err != nil {
		c.log.Debug("notification not sent", "upstream", c.name, "method", method, "err", err)
	}
}

// cancelled tells the server that nobody waits for a request any more.
func (c *conn) cancelled(p *pending, why error) {
	if p.req.Method == "initialize" || p.req.Method == "server/discover" {
		return // the specification forbids it, and older servers choke on it
	}
	if c.http && c.stateless() {
		return // the end of ctx has dropped the response stream, which says it
	}
	params := strconv.AppendInt([]byte(`{"requestId":`), p.id, 10)
	if why != nil {
		params = jsonrpc.AppendString(append(params, `,"reason":`...), why.Error())
	}
	c.notify("notifications/cancelled", append(params, '}'))
}

// take removes and returns the request that waits under id.
func (c *conn) take(id int64) *pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.waiting[id]
	if p != nil {
		c.leaveLocked(p)
	}
	return p
}

func (c *conn) peek(id int64) *pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting[id]
}
