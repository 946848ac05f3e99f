package upstream

import (
	"context"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

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
	in.listening.Lock() // of two changes the later must win
	defer in.listening.Unlock()
	in.mu.Lock()
	hop := in.spoken.hop()
	params := []byte(`{"notifications":{`)
	offer := in.offer.Load()
	for _, l := range []List{Tools, Prompts, Resources} {
		if offer != nil && string(jsonrpc.Get(jsonrpc.Get(offer.Capabilities, l.Capability()), "listChanged")) == "true" {
			params = append(params, `"`+l.Capability()+`ListChanged":true,`...)
		}
	}
	if len(in.watched) > 0 {
		params = append(params, `"resourceSubscriptions":[`...)
		for uri := range in.watched {
			params = append(jsonrpc.AppendString(params, uri), ',')
		}
		params = append(params[:len(params)-1], "],"...)
	}
	in.mu.Unlock()
	if params[len(params)-1] == '{' { // it would end at once, and be asked again and again
		c.unlistened()
		return
	}
	params = append(params[:len(params)-1], "}}"...)
	c.relisten(&Request{
		Method: "subscriptions/listen", Params: params, Hop: hop,
		Notify: func(method string, params []byte) {
			if method == "notifications/subscriptions/acknowledged" {
				in.up.stirred("gap") // only from here on is nothing missed
				return
			}
			in.notify(c, nil, method, params)
		},
	})
}

// relisten replaces the connection's listen request by req. The new one is
// sent before the old one ends, so that nothing is missed between them.
func (c *conn) relisten(req *Request) {
	ctx, cancel := context.WithCancel(context.Background())
	sent := make(chan struct{})
	signal := sync.OnceFunc(func() { close(sent) })
	if !c.spawn(func() {
		defer cancel()
		defer signal()
		c.keepListening(ctx, req, signal)
	}) {
		cancel()
		return
	}
	<-sent
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

// unlistened ends the connection's listen request, if there is one.
func (c *conn) unlistened() {
	c.mu.Lock()
	old := c.unlisten
	c.unlisten = nil
	c.mu.Unlock()
	if old != nil {
		old()
	}
}

// listenRefusals is how often in a row a server may refuse the listen request
// before it is left in peace.
const listenRefusals = 5

// keepListening makes the listen request again whenever it ends, after a
// growing wait, until ctx or the connection does, or the server will not have
// it. What happened between two streams may have been missed.
func (c *conn) keepListening(ctx context.Context, req *Request, sent func()) {
	pause := backoff.NewExponentialBackOff()
	for refused := 0; refused < listenRefusals; {
		began := time.Now()
		a := c.call(ctx, req, sent)
		sent()
		if ctx.Err() != nil || a.msg.Error != nil && readError(a.msg.Error).Code == jsonrpc.CodeMethodNotFound {
			return
		}
		c.log.Debug("listen request ended", "upstream", c.name, "err", a.err)
		if a.msg.Error != nil {
			refused++
		} else {
			refused = 0
			c.stirred("gap")
		}
		if time.Since(began) >= steady {
			pause.Reset()
		}
		select {
		case <-time.After(pause.NextBackOff()):
		case <-c.done:
			return
		case <-ctx.Done():
			return
		}
		if refused == 0 {
			c.gap()
		}
	}
}

// stripped returns params without the id of our listen request, which means
// nothing to the client.
func stripped(params []byte) []byte {
	if revision.Subscription(params) == nil {
		return params
	}
	return revision.Translate(params, revision.Change{})
}
