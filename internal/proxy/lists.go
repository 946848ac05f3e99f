package proxy

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
)

// listInterval is the least time between two list_changed of one kind: each voids a
// model's prompt cache.
const listInterval = 500 * time.Millisecond

// shownLists owns what of the joined lists was shown last, to the client in answer to
// its requests and on each of its listen requests, and when it is told of changes.
type shownLists struct {
	join    func(upstream.List) []byte // a list as the client is to see it now
	notify  func(method string)        // sends the client a notice
	streams func() []*listening        // the listen requests that are open
	changes map[string]*throttle       // method of list_changed → what sends it

	mu    sync.Mutex // held while a list is joined and compared with what was shown
	shown snapshot   // to the client
}

// snapshot is the lists as they were once; nil: not looked at.
type snapshot [upstream.Lists][]byte

// replace puts in the list as it is now, and reports whether it was there and was not the
// same to the byte.
func (s *snapshot) replace(l upstream.List, now []byte) bool {
	if s[l] == nil || bytes.Equal(s[l], now) {
		return false
	}
	s[l] = now
	return true
}

func newShownLists(s *session) *shownLists {
	lists := &shownLists{
		join: s.joined, notify: func(method string) { s.notify(method, nil) }, streams: s.subscriptions.listeners,
		changes: make(map[string]*throttle),
	}
	for l := range upstream.Lists {
		method := l.Changed()
		lists.changes[method] = &throttle{interval: listInterval, call: func() { lists.announce(method) }}
	}
	return lists
}

// changed notes that an upstream's list is not what it was.
func (s *shownLists) changed(l upstream.List) { s.changes[l.Changed()].trigger() }

// stop ends the notices.
func (s *shownLists) stop() {
	for _, t := range s.changes {
		t.stop()
	}
}

// announce tells the client that lists have changed, where it has seen others: on its
// stream, and on the listen requests that asked for them.
func (s *shownLists) announce(method string) {
	changed := false
	streams := make(map[*listening]bool)
	s.mu.Lock()
	for l := range upstream.Lists {
		if l.Changed() != method {
			continue
		}
		now := s.join(l)
		changed = s.shown.replace(l, now) || changed
		for _, stream := range s.streams() {
			if stream.seen.replace(l, now) {
				streams[stream] = true
			}
		}
	}
	s.mu.Unlock()
	if changed {
		s.notify(method)
	}
	for stream := range streams {
		stream.send(method, nil)
	}
}

// note takes note of what the lists are of which a listen request is to hear when they
// change.
func (s *shownLists) note(stream *listening, lists []upstream.List) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range lists {
		stream.seen[l] = s.join(l)
	}
}

// show is a list as it is shown to the client now.
func (s *shownLists) show(l upstream.List) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown[l] = s.join(l)
	return s.shown[l]
}

// serveList answers one of the four list requests.
func serveList(x *request, l upstream.List) {
	if cursor := x.msg.Index.Get("cursor"); cursor != nil && string(cursor) != "null" {
		x.fail(&jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.cursor: unknown; lists are given in one page"})
		return
	}
	if p := x.s.srv.policy.Load(); l == upstream.Tools && len(p.own) > 0 && x.s.identity.view.offersOwn() {
		x.s.srv.work.Go(loadVocabulary) // for which no plan should wait
	}
	x.s.awaitOffers(x.ctx)
	items := x.s.lists.show(l)
	result := make([]byte, 0, len(items)+96)
	result = append(append(result, `{"`...), l.Member()...)
	result = append(append(append(result, `":[`...), items...), "]}"...)
	x.finish(result)
}

// joined is one list as the client is to see it now, as the inside of an array: what all
// upstreams offer, in configuration order, and what the proxy itself offers. It is never
// nil.
func (s *session) joined(l upstream.List) []byte {
	p := s.srv.policy.Load()
	own := s.identity.view.ownItems(p, l) // before the others are named: they claim theirs first
	items, left := joinItems(offersOf(s.leases.current()), l, func(t target) string { return s.identity.view.nameOf(p, l, t) })
	for _, t := range left {
		s.srv.log.Debug("left out of the list: its name is another's, or it had no room for another", "upstream", t.upstream, "list", l.Method(), "name", t.name)
	}
	if l == upstream.Tools {
		items = slices.Concat(own, items)
	} else {
		items = append(items, own...)
	}
	return bytes.Join(items, []byte(","))
}

// offered is what one upstream offers.
type offered struct {
	lease *leased
	offer *upstream.Offer // nil: nothing is known of it yet
}

// offersOf is what the upstreams of leases offer now.
func offersOf(leases []*leased) []offered {
	out := make([]offered, len(leases))
	for i, l := range leases {
		out[i] = offered{l, l.Offer()}
	}
	return out
}

// items are those of one list that a client may see.
func (o *offered) items(l upstream.List) []upstream.Item {
	if o.offer == nil {
		return nil
	}
	items := o.offer.Lists[l]
	if l == upstream.Tools && o.lease.member.Allows != nil {
		items = slices.DeleteFunc(slices.Clone(items), func(item upstream.Item) bool { return !o.lease.member.Allows(item.Name) })
	}
	return items
}

// has reports whether the session of a lease may call a tool that the upstream is known to
// have.
func has(l *leased, tool string) bool {
	o := offered{l, l.Offer()}
	return o.lists(upstream.Tools, tool) && l.member.allows(tool)
}

// joinItems are the items of one list in the order of the upstreams. Tools and prompts
// are listed under the names that show gives them. Of two items with one name the first
// counts; the other is left out, as is one that show gives no name.
func joinItems(offers []offered, l upstream.List, show func(target) string) (items [][]byte, left []target) {
	seen := make(map[string]bool)
	for _, o := range offers {
		for _, item := range o.items(l) {
			t := target{o.lease.member.Spec.Name, item.Name}
			raw, name := item.Raw, item.Name
			if l == upstream.Tools || l == upstream.Prompts {
				if name = show(t); name != item.Name {
					raw = jsonrpc.Set(raw, "name", jsonrpc.AppendString(nil, name))
				}
			}
			if name == "" || seen[name] {
				left = append(left, t)
				continue
			}
			seen[name] = true
			items = append(items, raw)
		}
	}
	return items, left
}
