package upstream

import (
	"context"
	"strings"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// Listener receives a server's notifications and requests. Its functions are called on the
// connection's reader and must not block. A nil function does nothing; a nil Ask refuses every
// request.
type Listener struct {
	Notify func(method string, params []byte)
	// Ask is called on the reader when the server sends a request. It selects the client that
	// will answer, and returns a func that sends the request to that client. The func is called
	// on another goroutine and may block.
	Ask func(method string) askFunc
	// Changed is called when a list of the offer has changed.
	Changed func(l List)
	// Pooled means that the session's requests come from unrelated clients. After one of them has
	// given up a request, messages that may be about it go to none of them for a while.
	Pooled bool
}

// askFunc sends a server's request to a client and waits for the answer.
type askFunc = func(ctx context.Context, method string, params []byte) (result []byte, err *jsonrpc.Error)

// notification dispatches a notification. p is the request whose response stream carried it, or
// nil. Changes of lists and resources invalidate answers and go to all sessions concerned, not to
// the request.
func (c *conn) notification(p *pending, method string, params []byte) {
	in := c.in
	switch {
	case method == "notifications/resources/updated":
		in.up.o.Invalidated("resources/updated")
		for _, l := range in.watching(text(jsonrpc.Get(params, "uri"))) {
			l.notify(method, params)
		}
	case strings.HasSuffix(method, "/list_changed"):
		if method == Resources.Changed() {
			in.up.o.Invalidated("list_changed")
		} else {
			in.noteInvalidated("list_changed")
		}
		for l := range Lists {
			if l.Changed() == method {
				in.markStale(l)
			}
		}
	case method == "notifications/subscriptions/acknowledged":
		if p != nil { // over HTTP, changes before this acknowledgement may have been missed
			in.noteInvalidated("gap")
		}
	case p != nil && p.req.Notify != nil:
		p.req.Notify(method, params)
	default:
		if l := in.attribute(c, p); l != nil {
			l.notify(method, params)
		} else {
			in.up.counts.dropped.Add(1)
		}
	}
}

// attribute returns the only lease that a message can be for, or nil if there may be several. p is
// the unanswered request whose response stream carried the message, or nil: most messages name no
// request. Over stdio and HTTP+SSE only progress does.
func (in *instance) attribute(c *conn, p *pending) *Lease {
	if p != nil && p.lease != nil {
		if p.lease.listener.Pooled {
			return nil // one of several clients
		}
		return p.lease
	}
	leases := in.sessions()
	if len(leases) != 1 || leases[0].multiplexed && c.requests.unclear(leases[0]) {
		return nil
	}
	return leases[0]
}

// Covers reports whether an update of uri concerns a client subscribed to subscribed, which is
// the same URI or a parent of it.
func Covers(subscribed, uri string) bool {
	return subscribed == uri || strings.HasPrefix(uri, strings.TrimSuffix(subscribed, "/")+"/")
}

// notify sends a notification to the lease's client, without the id of the proxy's listen
// request.
func (l *Lease) notify(method string, params []byte) {
	if l.listener.Notify == nil {
		return
	}
	if revision.Subscription(params) != nil {
		params = revision.Translate(params, revision.Change{})
	}
	l.listener.Notify(method, params)
}

// asker returns the func that answers a server's request. It selects the session now, on the
// reader, because a later message such as the answer to the request that caused the question can
// change which session is the only candidate.
func (in *instance) asker(c *conn, p *pending, method string) askFunc {
	var ask askFunc
	if l := in.attribute(c, p); l != nil && l.listener.Ask != nil && !in.up.spec.NoCapabilities {
		ask = l.listener.Ask(method)
	}
	return func(ctx context.Context, method string, params []byte) ([]byte, *jsonrpc.Error) {
		in.up.o.Asked(in.id, method)
		if ask == nil {
			in.up.counts.refused.Add(1)
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: method + ": this server is shared by several sessions, and the one that is meant cannot be determined"}
		}
		return ask(ctx, method, params)
	}
}
