package proxy

import (
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
)

// subscribes reports whether the request changes the session's subscriptions.
func (x *request) subscribes() bool {
	return x.msg.Method == "resources/subscribe" || x.msg.Method == "resources/unsubscribe"
}

// watched notes what a request changes about the session's subscriptions, which
// outlive the server's process, and reports whether the server need not be
// told.
func (x *request) watched() bool {
	uri, _ := jsonrpc.String(x.msg.Index.Get("uri"))
	switch x.msg.Method {
	case "resources/subscribe":
		x.call.lease.Subscribe(uri) // before it is sent: an update may precede the answer
		return x.call.lease.Stateless()
	case "resources/unsubscribe":
		return !x.call.lease.Unsubscribe(uri) || x.call.lease.Stateless()
	}
	return false
}

// subscription makes a request that changes the session's subscriptions. A stateless
// server knows no such request: it is told what to watch in another way.
func (x *request) subscription(req *upstream.Request, done func(outcome)) {
	empty := outcome{answer: upstream.Answer{Result: []byte("{}")}}
	if x.watched() {
		done(empty)
		return
	}
	x.call.fetch(x.ctx, req, func(o outcome) {
		switch {
		case o.err == nil && o.answer.Stateless:
			o = empty
		case x.msg.Method == "resources/subscribe" && (o.err != nil || o.answer.Error != nil):
			uri, _ := jsonrpc.String(x.msg.Index.Get("uri"))
			x.call.lease.Unsubscribe(uri)
		}
		done(o)
	})
}
