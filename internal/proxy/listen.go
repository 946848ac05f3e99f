package proxy

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// listening is an open subscriptions/listen request of a stateless client.
type listening struct {
	x     *request
	lists [upstream.Lists]bool
	uris  []string
	at    []watch                // what the upstreams were asked to watch for it
	seen  [upstream.Lists][]byte // the lists as they were last said to have changed to; guarded by session.listing
}

// watch is one resource that one upstream watches.
type watch struct {
	lease *leased
	uri   string
}

// listen answers subscriptions/listen: the request stays open, and what the
// client asked to hear goes out on its stream, until either side ends it.
func (x *request) listen() {
	if !x.stateless {
		x.fail(&jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "subscriptions/listen: not part of this revision"})
		return
	}
	l := &listening{x: x}
	wanted := jsonrpc.Get(x.msg.Params, "notifications")
	ack := []byte("{")
	for _, kind := range []struct {
		member string
		lists  []upstream.List
	}{
		{"toolsListChanged", []upstream.List{upstream.Tools}},
		{"promptsListChanged", []upstream.List{upstream.Prompts}},
		{"resourcesListChanged", []upstream.List{upstream.Resources, upstream.Templates}},
	} {
		if string(jsonrpc.Get(wanted, kind.member)) == "true" {
			for _, list := range kind.lists {
				l.lists[list] = true
			}
			ack = append(jsonrpc.AppendString(ack, kind.member), ":true,"...)
		}
	}
	if uris := jsonrpc.Get(wanted, "resourceSubscriptions"); uris != nil {
		for raw := range jsonrpc.Elements(uris) {
			if uri, ok := jsonrpc.String(raw); ok {
				l.uris = append(l.uris, uri)
			}
		}
		ack = append(append(append(ack, `"resourceSubscriptions":`...), uris...), ',')
	}
	if ack[len(ack)-1] == ',' {
		ack = ack[:len(ack)-1]
	}
	l.send("notifications/subscriptions/acknowledged", append(append([]byte(`{"notifications":`), ack...), "}}"...))
	x.s.subscribe(l)
	select {
	case <-x.ctx.Done():
	case <-x.s.draining:
	}
	x.s.unsubscribe(l)
	if gone := (withdrawn{}); errors.As(context.Cause(x.ctx), &gone) {
		return
	}
	x.finish(revision.WithSubscription([]byte("{}"), x.msg.ID)) // ended by us: say so
}

// send sends a notification on the stream, nothing once that has ended.
func (l *listening) send(method string, params []byte) {
	l.x.mu.Lock()
	defer l.x.mu.Unlock()
	if !l.x.answered {
		l.x.s.sendNotification(l.x.to, method, revision.WithSubscription(params, l.x.msg.ID))
	}
}

// subscribe opens l, and asks the upstreams for the updates it wants.
func (s *session) subscribe(l *listening) {
	s.listing.Lock()
	for list, on := range l.lists {
		if on { // so that a change can be told from what there is now
			l.seen[list] = s.joined(upstream.List(list))
		}
	}
	s.mu.Lock()
	s.listens[l.x.key] = l
	s.mu.Unlock()
	s.listing.Unlock()
	s.subscribed.Lock()
	defer s.subscribed.Unlock()
	for _, uri := range l.uris {
		if isOwn(uri) && s.tellsOfItself() {
			s.srv.news.watchers.Add(1)
			continue
		}
		for _, lease := range s.holders(uri) {
			lease.Watch(uri)
			l.at = append(l.at, watch{lease, uri})
		}
	}
}

func (s *session) unsubscribe(l *listening) {
	s.subscribed.Lock()
	defer s.subscribed.Unlock()
	s.mu.Lock()
	if s.listens[l.x.key] == l { // else another request has its id by now
		delete(s.listens, l.x.key)
	}
	others := slices.Collect(maps.Values(s.listens))
	s.mu.Unlock()
	for _, uri := range l.uris {
		if isOwn(uri) && s.tellsOfItself() {
			s.srv.news.watchers.Add(-1)
		}
	}
	for _, w := range l.at {
		if !slices.ContainsFunc(others, func(o *listening) bool { return slices.Contains(o.uris, w.uri) }) {
			w.lease.Unwatch(w.uri)
		}
	}
}

// publish sends a notification to every open listen request that asked for
// it, and reports whether there was one.
func (s *session) publish(method string, params []byte) bool {
	uri, _ := jsonrpc.String(jsonrpc.Get(params, "uri"))
	var sent bool
	for _, l := range s.listeners() {
		if slices.ContainsFunc(l.uris, func(u string) bool { return upstream.Covers(u, uri) }) {
			l.send(method, params)
			sent = true
		}
	}
	return sent
}

// publishList tells every open listen request whose list is no longer the
// same. s.listing is held.
func (s *session) publishList(list upstream.List, items []byte) {
	for _, l := range s.listeners() {
		if l.lists[list] && !bytes.Equal(l.seen[list], items) {
			l.seen[list] = items
			l.send(list.Changed(), nil)
		}
	}
}

func (s *session) listeners() []*listening {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.listens))
}
