package upstream

import (
	"context"
	"sync"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// listen opens what brings changes beside answers: for a stateless server a
// subscriptions/listen request, again whenever what is subscribed changes; for
// an older one over HTTP its GET stream.
func (in *instance) listen(c *conn) {
	if !c.stateless() {
		if l, ok := c.link.(interface{ listen() }); ok {
			l.listen()
		}
		return
	}
	in.mu.Lock()
	hop := in.spoken.hop()
	params := []byte(`{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true`)
	if len(in.watched) > 0 {
		params = append(params, `,"resourceSubscriptions":[`...)
		for uri := range in.watched {
			params = append(jsonrpc.AppendString(params, uri), ',')
		}
		params[len(params)-1] = ']'
	}
	params = append(params, "}}"...)
	in.mu.Unlock()
	c.relisten(&Request{
		Method: "subscriptions/listen", Params: params, Hop: hop,
		Notify: func(method string, params []byte) {
			if method != "notifications/subscriptions/acknowledged" {
				in.notify(method, params)
			}
		},
	})
}

// relisten replaces the connection's listen request by req. The new one is
// sent before the old one ends, so that nothing is missed between them.
func (c *conn) relisten(req *Request) {
	ctx, cancel := context.WithCancel(context.Background())
	var sent sync.Once
	out := make(chan struct{})
	if !c.spawn(func() {
		defer cancel()
		c.keepListening(ctx, req, func() { sent.Do(func() { close(out) }) })
	}) {
		cancel()
		return
	}
	<-out
	c.mu.Lock()
	old := c.unlisten
	c.unlisten = cancel
	if c.err != nil {
		cancel()
	}
	c.mu.Unlock()
	if old != nil {
		old()
	}
}

// relistenAfter is the pause before a listen request that ended is made again.
const relistenAfter = time.Second

// keepListening makes the listen request again whenever it ends, until ctx or
// the connection does, or the server turns out not to know the request.
func (c *conn) keepListening(ctx context.Context, req *Request, sent func()) {
	for {
		m, err := c.call(ctx, req, sent)
		if ctx.Err() != nil || m.Error != nil {
			return
		}
		c.log.Debug("listen request ended", "upstream", c.name, "err", err)
		select {
		case <-time.After(relistenAfter):
			c.gap()
		case <-c.done:
			return
		case <-ctx.Done():
			return
		}
	}
}

// stripped returns params without the id of our listen request, which means
// nothing to the client.
func stripped(params []byte) []byte {
	if revision.Subscription(params) == nil {
		return params
	}
	return revision.Params(params, revision.Change{})
}
