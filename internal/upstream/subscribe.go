package upstream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"mcpschedd/internal/jsonrpc"
)

// Subscribe asks for updates of a resource, now and after a restart.
func (l *Lease) Subscribe(uri string) { l.watch(uri, true, false) }

// Unsubscribe ends what Subscribe asked for and reports whether the server
// need not send updates any more.
func (l *Lease) Unsubscribe(uri string) (last bool) { return l.watch(uri, false, false) }

// Watch is Subscribe for a caller that does not send the server a request about it
// itself: Watch does, if the server's revision has one.
func (l *Lease) Watch(uri string) { l.watch(uri, true, true) }

// Unwatch ends what Watch asked for.
func (l *Lease) Unwatch(uri string) { l.watch(uri, false, true) }

// watch notes whether the session watches a resource. A stateless server is told by its
// listen request, another one, if asked to, by a request.
func (l *Lease) watch(uri string, on, request bool) (differs bool) {
	differs = l.in.leases.watch(l, uri, on)
	switch c := l.in.live(); {
	case c == nil:
	case c.stateless():
		if differs {
			l.in.listen(c)
		}
	case request && on:
		l.in.tell(c, l, "resources/subscribe", uriParams(uri), func() {})
	case request && differs:
		l.in.tell(c, l, "resources/unsubscribe", uriParams(uri), func() {})
	}
	return differs
}

// Watches returns the URIs that the lease subscribed to.
func (l *Lease) Watches() []string { return l.in.leases.watched(l) }

func uriParams(uri string) []byte {
	return append(jsonrpc.AppendString([]byte(`{"uri":`), uri), '}')
}

// restore tells a new connection's server the log level, and the resources to watch
// beside those it was told before, and returns all of these.
func (in *instance) restore(c *conn, told []string) (now []string) {
	now = in.leases.watched()
	in.tellLevel(c)
	if c.stateless() {
		return now // its listen request carries the subscriptions
	}
	for _, uri := range now {
		if !slices.Contains(told, uri) {
			in.tell(c, nil, "resources/subscribe", uriParams(uri), func() {})
		}
	}
	return now
}

// tell sends a setting of a lease, nil for none, to the server. The request has been
// sent when tell returns, so that what the session sends next comes after it. answered
// is called when it has an answer or has failed.
func (in *instance) tell(c *conn, of *Lease, method string, params []byte, answered func()) {
	ctx, cancel := context.WithTimeout(context.Background(), in.up.spec.StartTimeout)
	err := c.start(ctx, of, &Request{Method: method, Params: params}, func() {}, func(a Answer, err error) {
		cancel()
		if err == nil && a.Error != nil {
			err = readError(a.Error)
		}
		if err != nil {
			in.up.log.Debug("upstream did not take a setting", "upstream", in.up.spec.Name, "method", method, "err", err)
		}
		answered()
	})
	if err != nil {
		cancel() // the connection has ended
	}
}

// listening is the request by which a stateless server is asked for what changes.
type listening struct {
	c    *conn
	mu   sync.Mutex         // held while the request is replaced: of two changes the later must win
	stop context.CancelFunc // ends the open one; nil: none
}

// listen opens what brings changes beside answers: for a stateless server a
// subscriptions/listen request, again whenever what is subscribed changes; for
// an older one over HTTP its GET stream.
func (in *instance) listen(c *conn) {
	if c.stateless() {
		c.listening.replace()
	} else if l, ok := c.link.(*streamable); ok {
		l.listen()
	}
}

// replace makes the listen request for what is wanted now. The new one is sent before
// the old one ends, so that nothing is missed between them.
func (n *listening) replace() {
	n.mu.Lock()
	defer n.mu.Unlock()
	old := n.stop
	n.stop = nil
	if params := n.c.in.wanted(); params != nil {
		ctx, stop := context.WithCancel(context.Background())
		sent := make(chan struct{})
		if n.c.spawn(func() { n.keep(ctx, params, sync.OnceFunc(func() { close(sent) })) }) {
			<-sent
		}
		n.stop = stop
	}
	if old != nil {
		old()
	}
}

// wanted returns the params of a listen request, nil if there is nothing to listen
// for: it would end at once, and be made again and again.
func (in *instance) wanted() []byte {
	params := []byte(`{"notifications":{`)
	empty := len(params)
	offer := in.offer.Load()
	for _, l := range []List{Tools, Prompts, Resources} {
		if string(jsonrpc.Get(jsonrpc.Get(offer.Capabilities, l.Capability()), "listChanged")) == "true" {
			params = append(params, `"`+l.Capability()+`ListChanged":true,`...)
		}
	}
	if uris := in.leases.watched(); len(uris) > 0 {
		params = append(params, `"resourceSubscriptions":[`...)
		for _, uri := range uris {
			params = append(jsonrpc.AppendString(params, uri), ',')
		}
		params = append(params[:len(params)-1], "],"...)
	}
	if len(params) == empty {
		return nil
	}
	return append(params[:len(params)-1], "}}"...)
}

// listenRefusals is how often in a row a server may refuse the listen request
// before it is not made again.
const listenRefusals = 5

// keep makes the listen request, and again whenever it ends, after a growing wait, until
// ctx or the connection does, or the server will not have it. What happened between
// two streams may have been missed. sent is called when the first has been sent, or was not.
func (n *listening) keep(ctx context.Context, params []byte, sent func()) {
	defer sent()
	in := n.c.in
	up := in.up
	req := &Request{
		Method: "subscriptions/listen", Params: params, Hop: in.client.hop(),
		Notify: func(method string, params []byte) {
			if method == "notifications/subscriptions/acknowledged" {
				up.o.Invalidated("gap") // only from here on is nothing missed
				return
			}
			in.notify(n.c, nil, method, params)
		},
	}
	pause := backoff.NewExponentialBackOff()
	for refused := 0; refused < listenRefusals; {
		began := time.Now()
		_, err := n.c.ask(ctx, req, sent)
		sent()
		answer, no := errors.AsType[*jsonrpc.Error](err)
		if ctx.Err() != nil || no && answer.Code == jsonrpc.CodeMethodNotFound {
			return
		}
		up.log.Debug("listen request ended", "upstream", up.spec.Name, "err", err)
		if no {
			refused++
		} else {
			refused = 0
			up.o.Invalidated("gap")
		}
		if time.Since(began) >= steady {
			pause.Reset()
		}
		select {
		case <-time.After(pause.NextBackOff()):
		case <-n.c.done:
			return
		case <-ctx.Done():
			return
		}
		if refused == 0 {
			n.c.gap()
		}
	}
}
