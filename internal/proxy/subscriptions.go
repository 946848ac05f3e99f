package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// subscriptions holds the listeners of a session: its open listen requests, and one for what a client
// of the handshake era has subscribed to. Leases hold the subscriptions to servers' resources.
type subscriptions struct {
	mu     sync.Mutex // also held while leases' watches change
	open   []*listener
	client *listener // of a client of the handshake era; always open
}

// listener receives the notifications that a client has subscribed to.
type listener struct {
	changes []string // methods of the requested list_changed notifications
	uris    []string // requested resources
	send    func(method string, params []byte)
}

const (
	maxSubscribed    = 2 << 20 // maximum bytes of a session's subscriptions to resources: about 5,000 typical ones
	subscriptionSize = 128     // assumed bytes of a subscription besides its URI
)

// checkLocked returns an error if the session's subscriptions and further ones exceed their maximum.
func (s *subscriptions) checkLocked(further ...string) error {
	size := 0
	for _, l := range append(s.open, &listener{uris: further}) {
		for _, uri := range l.uris {
			size += len(uri) + subscriptionSize
		}
	}
	if size > maxSubscribed {
		return fmt.Errorf("too many subscriptions to resources: they take more than %d MiB; end others first", maxSubscribed>>20)
	}
	return nil
}

// urisLocked returns the resources that each listener wants.
func (s *subscriptions) urisLocked() (all []string) {
	for _, l := range s.open {
		all = append(all, l.uris...)
	}
	return all
}

// serveListen serves subscriptions/listen. The request stays open, and its stream carries
// the requested notifications, until the client cancels it or the session drains.
func serveListen(x *request) outcome {
	if !x.msg.Stateless() {
		return outcome{err: &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "subscriptions/listen: not part of this revision"}}
	}
	l, honoured := newListener(x, x.msg.Index.Get("notifications"))
	acknowledgement := revision.WithSubscription(jsonrpc.Set(nil, "notifications", honoured), x.msg.ID)
	x.stream.mu.Lock() // a change from here on is notified, after the acknowledgement
	if err := x.s.subscriptions.begin(l, x.s); err != nil {
		x.stream.mu.Unlock()
		return outcome{err: err}
	}
	sendNotification(x.s.srv.log, x.stream.out, "notifications/subscriptions/acknowledged", acknowledgement)
	x.stream.mu.Unlock()
	x.s.lists.refresh(func(list upstream.List) bool { return slices.Contains(l.changes, list.ChangedMethod()) }) // later changes are notified
	select {
	case <-x.ctx.Done():
	case <-x.s.lifecycle.draining.Done():
	}
	x.s.subscriptions.end(l, x.s)
	return ownOutcome(revision.WithSubscription([]byte("{}"), x.msg.ID)) // not sent if the client cancelled the request
}

// newListener parses the notifications that a listen request subscribes to, and returns
// the supported ones.
func newListener(x *request, notifications []byte) (l *listener, honoured []byte) {
	l, honoured = &listener{send: func(method string, params []byte) {
		x.stream.notify(x.s.srv.log, method, revision.WithSubscription(params, x.msg.ID))
	}}, []byte("{}")
	for list := range upstream.Lists {
		member := list.Capability() + "ListChanged"
		if string(jsonrpc.Get(notifications, member)) == "true" {
			l.changes = append(l.changes, list.ChangedMethod())
			honoured = jsonrpc.Set(honoured, member, []byte("true"))
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

// begin registers a listen request and subscribes to its resources at the servers that
// may have them, or returns why it cannot.
func (s *subscriptions) begin(l *listener, in *session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkLocked(l.uris...); err != nil {
		return err
	}
	s.open = append(s.open, l)
	in.watch(l.uris, func(*catalog.Lease) bool { return true })
	return nil
}

// renew subscribes to the wanted resources at leases that the session did not have before.
func (s *subscriptions) renew(in *session, fresh catalog.Leases) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(fresh) > 0 {
		in.watch(s.urisLocked(), func(l *catalog.Lease) bool { return slices.Contains(fresh, l) })
	}
}

// watch subscribes to resources at the leases on servers that may have them and for which at returns true.
func (s *session) watch(uris []string, at func(*catalog.Lease) bool) {
	leases, held, v := *s.leases.load(), make(map[*catalog.Lease][]string), s.view()
	for _, uri := range uris {
		if _, own := v.ownResource(uri); own {
			continue
		}
		for _, l := range leases.Holders(uri).Filter(at) {
			held[l] = append(held[l], uri)
		}
	}
	for l, uris := range held {
		l.Watch(true, uris...)
	}
}

// end removes a listen request and unsubscribes from the resources that no other listener wants.
func (s *subscriptions) end(l *listener, in *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = slices.DeleteFunc(s.open, func(o *listener) bool { return o == l })
	wanted := s.urisLocked()
	slices.Sort(wanted)
	last := slices.DeleteFunc(l.uris, func(uri string) bool {
		_, again := slices.BinarySearch(wanted, uri)
		return again
	})
	for _, lease := range *in.leases.load() {
		lease.Watch(false, last...)
	}
}

// routeSubscription subscribes a client of the handshake era to a resource, or ends the subscription.
// It runs on the client's reader, so that the client's last request counts. The handler then waits for
// the answers of the servers. It fails if all of them refuse. An error says why the session can have no
// further subscription.
func (x *request) routeSubscription(uri string, wanted bool) error {
	in, s := x.s, &x.s.subscriptions
	s.mu.Lock()
	defer s.mu.Unlock()
	isURI := func(other string) bool { return other == uri }
	s.client.uris = slices.DeleteFunc(s.client.uris, isURI)
	if wanted {
		if err := s.checkLocked(uri); err != nil {
			return err
		}
		s.client.uris = append(s.client.uris, uri)
	}
	if _, own := x.view.ownResource(uri); own {
		x.handler = serveEmpty
		return nil
	}
	at := watching(*in.leases.load(), uri)
	if wanted {
		at = in.leases.load().Holders(uri)
	}
	answers := make([]<-chan error, len(at))
	for i, l := range at {
		answers[i] = l.Watch(wanted, uri)[uri]
	}
	collect := func() outcome {
		refusal := &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: x.msg.Method + ": no server offers this"}
		var refusing catalog.Leases
		for i, answer := range answers {
			if answer == nil { // nothing was sent
				continue
			}
			select {
			case err := <-answer:
				if refused, ok := err.(*jsonrpc.Error); ok { // after any other error, the subscription is sent to the next connection
					refusal = refused
					refusing = append(refusing, at[i])
				}
			case <-in.ctx.Done():
				return outcome{err: context.Cause(in.ctx)}
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if in.ctx.Err() != nil { // the session may have ended meanwhile
			return outcome{err: context.Cause(in.ctx)}
		}
		for _, l := range refusing {
			l.Watch(false, uri)
		}
		if !wanted || len(refusing) < len(at) {
			return serveEmpty(x)
		}
		if len(watching(*in.leases.load(), uri)) == 0 { // else the client has subscribed again
			s.client.uris = slices.DeleteFunc(s.client.uris, isURI)
		}
		return outcome{err: refusal}
	}
	x.handler = func(x *request) outcome {
		done := make(chan outcome, 1)
		in.srv.running.Go(func() { done <- collect() }) // also if the request is cancelled, as a server may refuse later
		select {
		case o := <-done:
			return o
		case <-x.ctx.Done():
			return outcome{err: context.Cause(x.ctx)}
		}
	}
	return nil
}

// watching returns the leases that are subscribed to a resource.
func watching(leases catalog.Leases, uri string) catalog.Leases {
	return leases.Filter(func(l *catalog.Lease) bool { return l.Watches(uri) })
}

// publish sends a notification to every listener that wants it, and reports whether there
// is one.
func (s *subscriptions) publish(method string, params []byte, wants func(*listener) bool) bool {
	s.mu.Lock()
	wanted := slices.DeleteFunc(slices.Clone(s.open), func(l *listener) bool { return !wants(l) })
	s.mu.Unlock()
	for _, l := range wanted {
		l.send(method, params)
	}
	return len(wanted) > 0
}

// relay forwards a server's notification that the transport does not tie to a request.
func (s *session) relay(l *catalog.Lease, method string, params []byte) {
	handshake := s.client.load().Handshake()
	s.tasks.note(l, method, params)
	switch method {
	case "notifications/message":
		if s.onlyPrefetches(l, method) { // may belong to a prefetch, which has no client
			return
		}
		if !handshake { // such a client receives logs on the stream of the request that wants them
			if x := s.requests.onlyAt(l.Lease); x != nil {
				x.forward(l, method, params)
			}
			return
		}
		if !upstream.LogLevelEnabled(s.client.load().LogLevel, params) {
			return
		}
	case "notifications/resources/updated":
		uri := jsonrpc.Text(params, "uri")
		covers := func(wanted string) bool { return upstream.Covers(wanted, uri) }
		if s.subscriptions.publish(method, params, func(l *listener) bool { return slices.ContainsFunc(l.uris, covers) }) {
			return
		}
	}
	s.notify(method, params)
}

// notify sends a notification that belongs to no request to a client of the handshake
// era, if the client has initialized. The error means that the client does not read.
func (s *session) notify(method string, params []byte) error {
	if s.identity.Out == nil || !s.client.load().Handshake() || s.questions.ready.Err() == nil {
		return nil
	}
	return sendNotification(s.srv.log, s.identity.Out, method, params)
}

// sendNotification sends a notification, and logs an error.
func sendNotification(log *slog.Logger, to front.Outlet, method string, params []byte) error {
	err := to.Send(jsonrpc.AppendNotification(nil, method, params))
	if err != nil {
		log.Debug("notification not delivered", "method", method, "err", err)
	}
	return err
}
