package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/jsonrpc"
)

const (
	// listInterval is the least time between two readings of an upstream's lists.
	listInterval = 500 * time.Millisecond
	// readAgain is the pause before a list that could not be read is tried
	// again.
	readAgain = 10 * time.Second
	// maxPages bounds how many pages of one list are read.
	maxPages = 1000
)

// offered is what the server of an instance offers, and which lists are to be read again.
type offered struct {
	latest atomic.Pointer[Offer]
	wake   chan struct{} // capacity 1; a list went stale
	tried  chan struct{} // closed once the offer is a last-known one, or every list has been asked for
	once   sync.Once     // closes tried

	mu    sync.Mutex
	stale [Lists]bool // lists to be read again
}

// refresh marks a list as stale.
func (o *offered) refresh(l List) {
	o.mu.Lock()
	o.stale[l] = true
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default: // it will wake anyway
	}
}

// takeStale returns which lists were stale, and marks all as fresh.
func (o *offered) takeStale() (stale [Lists]bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	stale, o.stale = o.stale, stale
	return stale
}

// noteTried notes that sessions need not wait for the lists any more.
func (o *offered) noteTried() { o.once.Do(func() { close(o.tried) }) }

// serveLists reads lists again when they went stale, at most once in listInterval,
// until the connection or ctx ends. Each is offered as soon as it is there, so
// that one that hangs keeps none of the others.
func (in *instance) serveLists(ctx context.Context, c *conn) {
	for {
		select {
		case <-in.offered.wake:
		case <-c.done:
			return
		case <-ctx.Done():
			return
		}
		for l, stale := range in.offered.takeStale() {
			if stale {
				next := in.offered.latest.Load().clone()
				next.Lists[l] = in.readList(ctx, c, List(l))
				in.adopt(next)
			}
		}
		in.offered.noteTried()
		in.up.remember(in.client, in.offered.latest.Load())
		select {
		case <-time.After(listInterval):
		case <-c.done:
			return
		case <-ctx.Done():
			return
		}
	}
}

// readList returns one list of the server. What cannot be read stays as it was and
// is tried again later; a list that the server does not know is empty.
func (in *instance) readList(ctx context.Context, c *conn, l List) []Item {
	old := in.offered.latest.Load()
	if !old.Has(l.Capability()) {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, in.up.spec.StartTimeout)
	defer cancel()
	read, err := in.readPages(bounded, c, l)
	if answer, ok := errors.AsType[*jsonrpc.Error](err); ok && answer.Code == jsonrpc.CodeMethodNotFound {
		return nil // many servers have resources and no templates
	}
	if err != nil {
		select {
		case <-c.done:
		case <-ctx.Done(): // it is being ended
		default:
			in.up.log.Warn("list not read; the last-known one stands", "upstream", in.up.spec.Name, "list", l.Method(), "err", err)
			time.AfterFunc(readAgain, func() { in.offered.refresh(l) })
		}
		return old.Lists[l]
	}
	if l == Tools && c.http && c.stateless() {
		var bad []string
		if read, bad = withoutInvalidHeaders(read); len(bad) > 0 {
			in.up.log.Warn("upstream tools left out: invalid x-mcp-header", "upstream", in.up.spec.Name, "tools", bad)
		}
	}
	return read
}

// readPages reads all pages of one list.
func (in *instance) readPages(ctx context.Context, c *conn, l List) (all []Item, err error) {
	var params []byte
	for range maxPages {
		result, err := c.ask(ctx, &Request{Method: l.Method(), Params: params, Hop: in.client.hop()})
		if err != nil {
			return nil, err
		}
		all = append(all, items(l, jsonrpc.Get(result, l.Member()))...)
		cursor := jsonrpc.Get(result, "nextCursor")
		if cursor == nil || string(cursor) == "null" {
			return all, nil
		}
		next := append(append([]byte(`{"cursor":`), cursor...), '}')
		if string(next) == string(params) {
			return nil, fmt.Errorf("%s: the same cursor %s came twice", l.Method(), cursor)
		}
		params = next
	}
	return nil, fmt.Errorf("%s: more than %d pages", l.Method(), maxPages)
}

// adopt makes offer the current one and tells the sessions which lists are no
// longer the same to the byte.
func (in *instance) adopt(offer *Offer) {
	old := in.offered.latest.Swap(offer)
	if old == nil {
		old = &Offer{}
	}
	leases := in.leases.list()
	for l := range Lists {
		if sameItems(old.Lists[l], offer.Lists[l]) {
			continue
		}
		for _, lease := range leases {
			if lease.listener.Changed != nil {
				lease.listener.Changed(l)
			}
		}
	}
}

// awaitOffer returns once there are lists to offer, last-known ones or those of the
// server, or it is known to be away, or ctx has ended.
func (in *instance) awaitOffer(ctx context.Context) {
	for {
		_, at, changed := in.status.now()
		if at.away != nil {
			return
		}
		select {
		case <-in.offered.tried:
			return
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
