package proxy

import (
	"context"
	"errors"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// serveListen answers subscriptions/listen: the request stays open, and what the
// client asked for goes out on its stream, until either side ends it.
func serveListen(x *request) {
	if !x.stateless {
		x.fail(&jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "subscriptions/listen: not part of this revision"})
		return
	}
	l, honoured := newListening(x, x.msg.Index.Get("notifications"))
	l.send("notifications/subscriptions/acknowledged", jsonrpc.Set(nil, "notifications", honoured))
	x.s.subscriptions.add(l)
	x.s.watch(l)
	select {
	case <-x.ctx.Done():
	case <-x.s.life.draining:
	}
	x.s.subscriptions.remove(l)
	x.s.unwatch(l)
	if gone := (withdrawn{}); errors.As(context.Cause(x.ctx), &gone) {
		return
	}
	x.finish(revision.WithSubscription([]byte("{}"), x.msg.ID)) // ended by us: say so
}

// newListening reads what a listen request subscribes to, and returns the part that is
// understood. Of the lists among it, it gets a list_changed when they are not what they are now.
func newListening(x *request, notifications []byte) (l *listening, honoured []byte) {
	l, honoured = &listening{x: x}, []byte("{}")
	for list := range upstream.Lists {
		member := list.Capability() + "ListChanged"
		if string(jsonrpc.Get(notifications, member)) == "true" {
			l.changes = append(l.changes, list.Changed())
			honoured = jsonrpc.Set(honoured, member, []byte("true"))
			x.s.showList(list)
		}
	}
	if uris := jsonrpc.Get(notifications, "resourceSubscriptions"); uris != nil {
		for raw := range jsonrpc.Elements(uris) {
			if uri, ok := jsonrpc.String(raw); ok {
				l.uris = append(l.uris, uri)
			}
		}
		honoured = jsonrpc.Set(honoured, "resourceSubscriptions", uris)
	}
	return l, honoured
}

// send sends a notification on the stream, nothing once that has ended.
func (l *listening) send(method string, params []byte) {
	l.x.mu.Lock()
	defer l.x.mu.Unlock()
	if !l.x.answered {
		sendNotification(l.x.s.srv.log, l.x.to, method, revision.WithSubscription(params, l.x.msg.ID))
	}
}
