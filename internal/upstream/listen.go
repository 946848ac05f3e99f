package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"mcpschedd/internal/jsonrpc"
)

// listenRequest manages the subscriptions/listen request to a stateless server.
type listenRequest struct {
	mu   sync.Mutex         // held while the request is replaced, so that the latest change wins
	stop context.CancelFunc // cancels the current request; nil if there is none
}

// listen opens the stream of change notifications: a subscriptions/listen request to a stateless
// server, replaced whenever the subscriptions change, or the GET stream of an older server over
// HTTP. It sends a new request before it cancels the old one, so that no change is missed.
func (in *instance) listen(c *conn) {
	if l, ok := c.link.(*streamable); ok && !c.stateless() {
		l.listen()
	}
	if !c.stateless() {
		return
	}
	n := &c.listening
	n.mu.Lock()
	defer n.mu.Unlock()
	old := n.stop
	n.stop = nil
	if params := in.listenParams(); params != nil {
		ctx, stop := context.WithCancel(context.Background())
		sent := make(chan struct{})
		if c.spawn(func() { c.keepListening(ctx, params, sync.OnceFunc(func() { close(sent) })) }) {
			<-sent
		}
		n.stop = stop
	}
	if old != nil {
		old()
	}
}

// listenParams returns the params of the listen request, or nil if there is nothing to listen
// for: the server would end such a request at once.
func (in *instance) listenParams() []byte {
	wanted := make(map[string]any)
	offer := in.offer.Load()
	for _, l := range []List{Tools, Prompts, Resources} {
		if string(jsonrpc.Get(jsonrpc.Get(offer.Capabilities, l.Capability()), "listChanged")) == "true" {
			wanted[l.Capability()+"ListChanged"] = true
		}
	}
	if uris := in.watched(in.sessions()...); len(uris) > 0 {
		wanted["resourceSubscriptions"] = uris
	}
	if len(wanted) == 0 {
		return nil
	}
	params, _ := json.Marshal(map[string]any{"notifications": wanted}) // cannot fail
	return params
}

// keepListening sends the listen request, and repeats it with exponential backoff whenever it
// ends, until ctx or the connection ends or the server does not know the method. Changes between
// two streams may be missed. sent is called when the first request was sent or failed.
func (c *conn) keepListening(ctx context.Context, params []byte, sent func()) {
	defer sent()
	req := &Request{Method: "subscriptions/listen", Params: params, Client: &c.in.client, Sent: sent}
	for pause := backoff.NewExponentialBackOff(); ; {
		began := time.Now()
		_, err := c.ask(ctx, req)
		sent() // in case it failed before it was sent
		answer, refused := errors.AsType[*jsonrpc.Error](err)
		if ctx.Err() != nil || refused && answer.Code == jsonrpc.CodeMethodNotFound {
			return
		}
		if !refused {
			c.in.up.o.Invalidated("gap")
		}
		if time.Since(began) >= stableAfter {
			pause.Reset()
		}
		select {
		case <-time.After(pause.NextBackOff()):
		case <-c.done:
			return
		case <-ctx.Done():
			return
		}
		if !refused {
			c.gap()
		}
	}
}
