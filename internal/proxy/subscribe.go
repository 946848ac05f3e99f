package proxy

import (
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
)

// subscribes reports whether a request changes its session's subscriptions.
func subscribes(method string) bool {
	return method == "resources/subscribe" || method == "resources/unsubscribe"
}

// subscribe makes a request that changes the session's subscriptions, which outlive
// the server's process. A stateless server knows no such request: its listen request says
// what to watch.
func subscribe(x *request, req *upstream.Request, done func(outcome)) {
	empty := outcome{answer: upstream.Answer{Result: []byte("{}")}}
	uri, _ := jsonrpc.String(x.msg.Index.Get("uri"))
	begins, needed := x.msg.Method == "resources/subscribe", true
	if begins {
		x.call.lease.Subscribe(uri) // before it is sent: an update may precede the answer
	} else {
		needed = x.call.lease.Unsubscribe(uri)
	}
	if !needed || x.call.lease.Stateless() {
		done(empty)
		return
	}
	x.call.fetch(x.ctx, req, func(o outcome) {
		switch {
		case o.err == nil && o.answer.Stateless:
			o = empty
		case begins && (o.err != nil || o.answer.Error != nil):
			x.call.lease.Unsubscribe(uri)
		}
		done(o)
	})
}
