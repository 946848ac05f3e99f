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

// listenRefusals is how often in a row a server may refuse the listen request
// before it is not made again.
const listenRefusals = 5

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
	wanted := make(map[string]any)
	offer := in.offer.Load()
	for _, l := range []List{Tools, Prompts, Resources} {
		if string(jsonrpc.Get(jsonrpc.Get(offer.Capabilities, l.Capability()), "listChanged")) == "true" {
			wanted[l.Capability()+"ListChanged"] = true
		}
	}
	if uris := in.holders.watched(in.holders.list()...); len(uris) > 0 {
		wanted["resourceSubscriptions"] = slices.Sorted(slices.Values(uris))
	}
	if len(wanted) == 0 {
		return nil
	}
	params, err := json.Marshal(map[string]any{"notifications": wanted})
	if err != nil {
		return nil // names can be written
	}
	return params
}

// keep makes the listen request, and again whenever it ends, after a growing wait, until
// ctx or the connection does, or the server will not have it. What happened between
// two streams may have been missed. sent is called when the first has been sent, or was not.
func (n *listening) keep(ctx context.Context, params []byte, sent func()) {
	defer sent()
	up := n.c.in.up
	req := &Request{Method: "subscriptions/listen", Params: params, Hop: n.c.in.client.hop(), Sent: sent}
	pause := backoff.NewExponentialBackOff()
	for refused := 0; refused < listenRefusals; {
		began := time.Now()
		_, err := n.c.ask(ctx, req)
		sent() // or it was not, and will not be
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
