package proxy

import (
	"maps"
	"slices"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// listening is an open subscriptions/listen request of a stateless client.
type listening struct {
	x     *exchange
	lists [upstream.Lists]bool
	uris  []string
}

// listen answers subscriptions/listen: the request stays open, and what the
// client asked to hear goes out on its stream, until either side ends it.
func (x *exchange) listen() {
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
	if !l.send("notifications/subscriptions/acknowledged", append(append([]byte(`{"notifications":`), ack...), "}}"...)) {
		return
	}
	x.s.subscribe(l)
	defer x.s.unsubscribe(l)
	select {
	case <-x.ctx.Done():
	case <-x.s.draining: // ended by us: say so
		x.finish(revision.WithSubscription([]byte("{}"), x.msg.ID))
	}
}

func (l *listening) send(method string, params []byte) bool {
	err := l.x.to.Send(jsonrpc.AppendNotification(nil, method, revision.WithSubscription(params, l.x.msg.ID)))
	if err != nil {
		l.x.s.srv.log.Debug("notification not delivered", "method", method, "err", err)
	}
	return err == nil
}

// subscribe opens l, and asks the upstreams for the updates it wants.
func (s *session) subscribe(l *listening) {
	s.mu.Lock()
	s.listens[l.x.key] = l
	s.mu.Unlock()
	for _, uri := range l.uris {
		for _, lease := range s.holders(uri) {
			lease.Watch(uri)
		}
	}
	for list, on := range l.lists {
		if on {
			s.mu.Lock()
			unseen := s.listed[list] == nil
			s.mu.Unlock()
			if unseen { // so that a change can be told from what there is now
				items := s.joined(upstream.List(list))
				s.mu.Lock()
				s.listed[list] = items
				s.mu.Unlock()
			}
		}
	}
}

func (s *session) unsubscribe(l *listening) {
	s.mu.Lock()
	delete(s.listens, l.x.key)
	others := slices.Collect(maps.Values(s.listens))
	s.mu.Unlock()
	for _, uri := range l.uris {
		if slices.ContainsFunc(others, func(o *listening) bool { return slices.Contains(o.uris, uri) }) {
			continue
		}
		for _, lease := range s.holders(uri) {
			lease.Unwatch(uri)
		}
	}
}

// publish sends a notification to every open listen request that asked for
// it, and reports whether there was one.
func (s *session) publish(method string, params []byte) bool {
	s.mu.Lock()
	var to []*listening
	for _, l := range s.listens {
		if l.wants(method, params) {
			to = append(to, l)
		}
	}
	s.mu.Unlock()
	for _, l := range to {
		l.send(method, params)
	}
	return len(to) > 0
}

func (l *listening) wants(method string, params []byte) bool {
	if method == "notifications/resources/updated" {
		uri, _ := jsonrpc.String(jsonrpc.Get(params, "uri"))
		return slices.Contains(l.uris, uri)
	}
	for list, on := range l.lists {
		if on && upstream.List(list).Changed() == method {
			return true
		}
	}
	return false
}
