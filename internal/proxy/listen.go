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
	wanted := readWanted(x.msg.Index.Get("notifications"))
	l := &listening{x: x}
	for _, uri := range wanted.uris {
		if _, own := x.s.identity.view.ownResource(uri); own {
			l.own = append(l.own, uri)
		} else {
			l.uris = append(l.uris, uri)
		}
	}
	l.send("notifications/subscriptions/acknowledged", jsonrpc.Set(nil, "notifications", wanted.honoured))
	x.s.subscriptions.add(l)
	x.s.lists.note(l, wanted.lists)
	x.s.subscriptions.watch(l, offersOf(x.s.leases.current()))
	select {
	case <-x.ctx.Done():
	case <-x.s.life.draining:
	}
	x.s.subscriptions.remove(l)
	x.s.subscriptions.unwatch(l)
	if gone := (withdrawn{}); errors.As(context.Cause(x.ctx), &gone) {
		return
	}
	x.finish(revision.WithSubscription([]byte("{}"), x.msg.ID)) // ended by us: say so
}

// wanted is what a listen request asks to be told of.
type wanted struct {
	lists    []upstream.List
	uris     []string
	honoured []byte // the part of the request that is understood
}

// listKinds are the members of a listen request that ask for changes of lists.
var listKinds = []struct {
	member string
	lists  []upstream.List
}{
	{"toolsListChanged", []upstream.List{upstream.Tools}},
	{"promptsListChanged", []upstream.List{upstream.Prompts}},
	{"resourcesListChanged", []upstream.List{upstream.Resources, upstream.Templates}},
}

func readWanted(notifications []byte) wanted {
	w := wanted{honoured: []byte("{}")}
	for _, kind := range listKinds {
		if string(jsonrpc.Get(notifications, kind.member)) == "true" {
			w.lists = append(w.lists, kind.lists...)
			w.honoured = jsonrpc.Set(w.honoured, kind.member, []byte("true"))
		}
	}
	if uris := jsonrpc.Get(notifications, "resourceSubscriptions"); uris != nil {
		for raw := range jsonrpc.Elements(uris) {
			if uri, ok := jsonrpc.String(raw); ok {
				w.uris = append(w.uris, uri)
			}
		}
		w.honoured = jsonrpc.Set(w.honoured, "resourceSubscriptions", uris)
	}
	return w
}

// send sends a notification on the stream, nothing once that has ended.
func (l *listening) send(method string, params []byte) {
	l.x.mu.Lock()
	defer l.x.mu.Unlock()
	if !l.x.answered {
		sendNotification(l.x.s.srv.log, l.x.to, method, revision.WithSubscription(params, l.x.msg.ID))
	}
}
