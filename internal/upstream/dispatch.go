package upstream

import (
	"context"
	"strings"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// Listener gets what a server sends beside answers. Its functions are called
// from the connection's reader and must not block it. Nil functions do nothing; a nil
// Ask refuses.
type Listener struct {
	Notify func(method string, params []byte)
	// Ask finds out, on the reader, which client a question is for that has just
	// come. The func that it returns asks that client; it is called on a goroutine of
	// its own and may wait.
	Ask func(method string) askFunc
	// Changed is called when a list of the offer has changed.
	Changed func(l List)
	// Pooled says that the session's requests come from clients that know nothing of
	// each other. While one of them has given up a request, a message that may be about
	// it is given to none of them.
	Pooled bool
}

// askFunc puts a question of a server to a client and waits for the answer.
type askFunc = func(ctx context.Context, method string, params []byte) (result []byte, err *jsonrpc.Error)

// notification passes on a notification. p is the request on the stream of which it
// came, nil if there is none. What is about the server's lists and resources is not for
// the request, but says that what the server answers may have changed.
func (c *conn) notification(p *pending, method string, params []byte) {
	in := c.in
	switch {
	case method == "notifications/resources/updated":
		in.up.o.Invalidated("resources/updated")
		for _, l := range in.holders.watching(text(jsonrpc.Get(params, "uri"))) {
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
				in.refresh(l)
			}
		}
	case method == "notifications/subscriptions/acknowledged":
		if p != nil { // over HTTP, where only from here on nothing is missed
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

// attribute returns the only lease that a message can be for, nil if there are several.
// p is the request on the stream of which it came; nil: none that is unanswered.
func (in *instance) attribute(c *conn, p *pending) *Lease {
	if p != nil && p.lease != nil {
		if p.lease.listener.Pooled {
			return nil // it is for one of its clients
		}
		return p.lease
	}
	leases := in.holders.list()
	if len(leases) != 1 || leases[0].mixed && c.requests.ambiguous(leases[0]) {
		return nil
	}
	return leases[0]
}

// Covers reports whether an update of uri is one for a client that subscribed to
// another: the same, or one above it.
func Covers(subscribed, uri string) bool {
	return subscribed == uri || strings.HasPrefix(uri, strings.TrimSuffix(subscribed, "/")+"/")
}

// notify tells the lease's client, without the id of our listen request, which means
// nothing to it.
func (l *Lease) notify(method string, params []byte) {
	if l.listener.Notify == nil {
		return
	}
	if revision.Subscription(params) != nil {
		params = revision.Translate(params, revision.Change{})
	}
	l.listener.Notify(method, params)
}

// asker returns the func that asks the only session that a question can be for. The
// session is found on the reader, before a later message, such as the answer to the
// request that the question is about, can change which one it is.
func (in *instance) asker(c *conn, p *pending, method string) askFunc {
	var ask askFunc
	if l := in.attribute(c, p); l != nil && l.listener.Ask != nil && !in.up.spec.NoCapabilities {
		ask = l.listener.Ask(method)
	}
	return func(ctx context.Context, method string, params []byte) ([]byte, *jsonrpc.Error) {
		in.up.o.Asked(in.id, method)
		if ask == nil {
			in.up.counts.refused.Add(1)
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: method + ": this server is shared by several sessions, and which of them is meant cannot be told"}
		}
		return ask(ctx, method, params)
	}
}
