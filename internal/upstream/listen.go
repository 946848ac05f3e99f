package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"mcpschedd/internal/jsonrpc"
)

// maxListenRefusals is the number of consecutive refusals after which the listen request is not
// retried.
const maxListenRefusals = 5

// listenRequest manages the subscriptions/listen request to a stateless server.
type listenRequest struct {
	c    *conn
	mu   sync.Mutex         // held while the request is replaced, so that the latest change wins
	stop context.CancelFunc // cancels the current request; nil if there is none
}

// listen opens the stream of change notifications: a subscriptions/listen request to a stateless
// server, replaced whenever the subscriptions change, or the GET stream of an older server over
// HTTP.
func (in *instance) listen(c *conn) {
	if c.stateless() {
		c.listening.replace()
	} else if l, ok := c.link.(*streamable); ok {
		l.listen()
	}
}

// replace sends a listen request with the current params. It sends the new request before it
// cancels the old one, so that no change is missed.
func (n *listenRequest) replace() {
	n.mu.Lock()
	defer n.mu.Unlock()
	old := n.stop
	n.stop = nil
	if params := n.c.in.listenParams(); params != nil {
		ctx, stop := context.WithCancel(context.Background())
		sent := make(chan struct{})
		if n.c.spawn(func() { n.run(ctx, params, sync.OnceFunc(func() { close(sent) })) }) {
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
	if uris := in.leases.watched(in.leases.list()...); len(uris) > 0 {
		wanted["resourceSubscriptions"] = slices.Sorted(slices.Values(uris))
	}
	if len(wanted) == 0 {
		return nil
	}
	params, err := json.Marshal(map[string]any{"notifications": wanted})
	if err != nil {
		return nil // cannot fail
	}
	return params
}

// run sends the listen request, and repeats it with exponential backoff whenever it ends, until
// ctx or the connection ends or the server refuses it. Changes between two streams may be missed.
// sent is called when the first request was sent or failed.
func (n *listenRequest) run(ctx context.Context, params []byte, sent func()) {
	defer sent()
	up := n.c.in.up
	req := &Request{Method: "subscriptions/listen", Params: params, Hop: n.c.in.client.hop(), Sent: sent}
	pause := backoff.NewExponentialBackOff()
	for refused := 0; refused < maxListenRefusals; {
		began := time.Now()
		_, err := n.c.ask(ctx, req)
		sent() // in case it failed before it was sent
		answer, refusal := errors.AsType[*jsonrpc.Error](err)
		if ctx.Err() != nil || refusal && answer.Code == jsonrpc.CodeMethodNotFound {
			return
		}
		up.log.Debug("listen request ended", "upstream", up.spec.Name, "err", err)
		if refusal {
			refused++
		} else {
			refused = 0
			up.o.Invalidated("gap")
		}
		if time.Since(began) >= stableAfter {
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
