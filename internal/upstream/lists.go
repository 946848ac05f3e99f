package upstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mcpschedd/internal/jsonrpc"
)

const (
	// listInterval is the minimum time between two reads of an upstream's lists.
	listInterval = 500 * time.Millisecond
	// listRetryDelay is the time before a list that could not be read is read again.
	listRetryDelay = 10 * time.Second
	// maxPages limits the pages of one list.
	maxPages = 1000
)

// markStale marks a list as stale and wakes serveLists.
func (in *instance) markStale(l List) {
	in.stale[l].Store(true)
	select {
	case in.wake <- struct{}{}:
	default: // a wake-up is already pending
	}
}

// serveLists reads stale lists, at most once per listInterval, until the connection or ctx ends.
// It publishes each list as soon as it is read, so that a slow one does not delay the others.
func (in *instance) serveLists(ctx context.Context, c *conn) {
	for {
		select {
		case <-in.wake:
		case <-c.done:
			return
		case <-ctx.Done():
			return
		}
		for l := range Lists {
			if in.stale[l].Swap(false) {
				next := *in.offer.Load()
				next.Lists[l] = in.readList(ctx, c, l)
				in.setOffer(&next)
			}
		}
		in.up.remember(in.offer.Load())
		in.change(func(s *state) { s.listed = true })
		select {
		case <-time.After(listInterval):
		case <-c.done:
			return
		case <-ctx.Done():
			return
		}
	}
}

// readList returns one list of the server. If reading fails, it returns the old list and retries
// later. A list that the server does not support is empty.
func (in *instance) readList(ctx context.Context, c *conn, l List) []Item {
	old := in.offer.Load()
	if !old.Has(l.Capability()) {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, in.up.spec.StartTimeout)
	defer cancel()
	read, err := in.readPages(bounded, c, l)
	if answer, ok := errors.AsType[*jsonrpc.Error](err); ok && answer.Code == jsonrpc.CodeMethodNotFound {
		return nil // many servers have resources but no templates
	}
	if err != nil {
		select {
		case <-c.done:
		case <-ctx.Done(): // the instance is closing
		default:
			in.up.log.Warn("list not read; the last-known one stays in use", "upstream", in.up.spec.Name, "list", l.Method(), "err", err)
			time.AfterFunc(listRetryDelay, func() { in.markStale(l) })
		}
		return old.Lists[l]
	}
	if l == Tools && c.http && c.stateless() {
		var bad []string
		if read, bad = withoutInvalidHeaders(read); len(bad) > 0 {
			in.up.log.Warn("upstream tools omitted: invalid x-mcp-header", "upstream", in.up.spec.Name, "tools", bad)
		}
	}
	return read
}

// readPages reads all pages of one list.
func (in *instance) readPages(ctx context.Context, c *conn, l List) (all []Item, err error) {
	var params []byte
	for range maxPages {
		result, err := c.ask(ctx, &Request{Method: l.Method(), Params: params, Client: &in.client})
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
			return nil, fmt.Errorf("%s: the server repeated cursor %s", l.Method(), cursor)
		}
		params = next
	}
	return nil, fmt.Errorf("%s: more than %d pages", l.Method(), maxPages)
}

// setOffer replaces the offer and notifies the sessions of each list that is not byte for byte
// the same.
func (in *instance) setOffer(offer *Offer) {
	old := in.offer.Swap(offer)
	if old == nil {
		old = &Offer{}
	}
	leases := in.sessions()
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
