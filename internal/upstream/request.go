package upstream

import (
	"context"
	"errors"
	"net/http"
	"strconv"
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
	// TryPace and Pace let the request go, once its turn has come and its server is
	// there: TryPace, of Begin, says whether it may at once, Pace, of Call, waits
	// until it may, and yields its turn for that time. Each is called at most once;
	// nil: at once.
	TryPace func() bool
	Pace    func(context.Context) error
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
	of      *Lease // whose it is; nil: the proxy's own
	req     *Request
	answer  chan answer // capacity 1; nil if begun
	timer   *time.Timer // nil without a timeout
	begun   *begun      // nil: somebody waits for answer
	account *account    // where it is counted while it has no answer; nil: nowhere

	limited    bool   // the answer's HTTP status said so; guarded by conn.mu while it waits
	retryAfter string // the header beside it
}

type answer struct {
	msg        jsonrpc.Message
	err        error
	unsent     bool // with err: the server has certainly not run it
	limited    bool // see pending
	retryAfter string
}

// call sends a request of a lease, nil for the proxy's own, and waits for its
// answer. An error that wraps errClosed or errSessionLost means that the server
// has not run it.
func (c *conn) call(ctx context.Context, of *Lease, req *Request, sent func()) answer {
	var expire context.CancelCauseFunc
	if req.Timeout > 0 {
		ctx, expire = context.WithCancelCause(ctx)
		defer expire(nil)
	}
	p, err := c.start(ctx, of, req, expire)
	if err != nil { // it keeps its turn: it may be sent over the next connection
		return answer{err: c.unsent(ctx, err), unsent: true}
	}
	sent()
	if p.timer != nil {
		defer p.timer.Stop()
	}
	return c.wait(ctx, p)
}

// start sends a request; the caller must wait for its answer. expire is called
// when the request's timeout has passed.
func (c *conn) start(ctx context.Context, of *Lease, req *Request, expire context.CancelCauseFunc) (*pending, error) {
	p := &pending{id: c.next.Add(1), of: of, req: req, answer: make(chan answer, 1)}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return nil, errClosed
	}
	c.enterLocked(p)
	if expire != nil {
		p.timer = time.AfterFunc(req.Timeout, func() { c.expired(p, expire) })
	}
	c.mu.Unlock()
	err := context.Cause(ctx) // nobody may be waiting any more
	if err == nil {
		err = c.link.send(ctx, c.frame(p.id, req))
	}
	if err == nil {
		return p, nil
	}
	c.take(p.id)
	if p.timer != nil {
		p.timer.Stop()
	}
	return nil, err
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

// expired ends a request whose timeout has passed, unless the server waits for
// its client: a person may take as long as they like.
func (c *conn) expired(p *pending, expire context.CancelCauseFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.asked {
		if p.id <= q.after {
			p.timer.Reset(p.req.Timeout)
			return
		}
	}
	expire(ErrTimeout)
}

// wait returns the answer to a request that start sent.
func (c *conn) wait(ctx context.Context, p *pending) answer {
	select {
	case a := <-p.answer:
		return a
	case <-ctx.Done():
		if !c.abandon(p) {
			return <-p.answer // it came at the same time
		}
		c.cancelled(p, context.Cause(ctx))
		return answer{err: context.Cause(ctx)}
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
