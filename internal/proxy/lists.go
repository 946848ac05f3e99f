package proxy

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
)

// listInterval is the least time between two list_changed of one kind: each voids a
// model's prompt cache.
const listInterval = 500 * time.Millisecond

// shownLists owns the joined lists as the client of a session last saw them, and when a
// list_changed is sent.
type shownLists struct {
	join    func(upstream.List) []byte // a list as the client is to see it now
	changes map[string]*throttle       // method of list_changed → what sends it

	mu    sync.Mutex             // held while a list is joined and compared with what was shown
	shown [upstream.Lists][]byte // nil: not looked at

	choosing sync.Once
	choice   atomic.Pointer[choice] // which tools are listed; nil: that was not decided yet, or all are
}

func newShownLists(s *session) *shownLists {
	lists := &shownLists{join: func(l upstream.List) []byte { return joinedList(s, l) }, changes: make(map[string]*throttle)}
	for l := range upstream.Lists {
		method := l.Changed()
		lists.changes[method] = &throttle{interval: listInterval, call: func() {
			if lists.refresh(method) {
				s.notify(method, nil)
				s.subscriptions.publishChange(method)
			}
		}}
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

// show is a list as it is now, and whether it was seen before and is not the same to the
// byte.
func (s *shownLists) show(l upstream.List) (now []byte, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.showLocked(l)
}

func (s *shownLists) showLocked(l upstream.List) (now []byte, changed bool) {
	now = s.join(l)
	changed = s.shown[l] != nil && !bytes.Equal(s.shown[l], now)
	s.shown[l] = now
	return now, changed
}

// refresh reports whether any list that was seen before, of those that a list_changed
// method stands for, is not the same now.
func (s *shownLists) refresh(method string) (any bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range upstream.Lists {
		if l.Changed() == method && s.shown[l] != nil {
			_, changed := s.showLocked(l)
			any = any || changed
		}
	}
	return any
}

// serveList answers one of the four list requests.
func serveList(x *request, l upstream.List) {
	if cursor := x.msg.Index.Get("cursor"); cursor != nil && string(cursor) != "null" {
		x.fail(&jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.cursor: unknown; lists are given in one page"})
		return
	}
	if p := x.s.srv.policy.Load(); l == upstream.Tools && len(p.own) > 0 && x.s.identity.view.offersOwn() {
		x.s.srv.running.Go(loadVocabulary) // for which no plan should wait
	}
	x.s.awaitOffers(x.ctx)
	if p := x.s.srv.policy.Load(); l == upstream.Tools && x.s.choose(p).search {
		x.s.running.Go(func() { x.s.srv.catalog.search.indexFor(x.s) }) // for which no search should wait
	}
	items := x.s.showList(l)
	result := make([]byte, 0, len(items)+96)
	result = append(append(result, `{"`...), l.Member()...)
	result = append(append(append(result, `":[`...), items...), "]}"...)
	x.finish(result)
}

// showList is a list as it is now. The listen requests of clients that the session is
// shared with get a list_changed if they may have seen another.
func (s *session) showList(l upstream.List) []byte {
	items, changed := s.lists.show(l)
	if changed {
		s.subscriptions.publishChange(l.Changed())
	}
	return items
}

// joinedList is one list as the client is to see it now, as the inside of an array: what all
// upstreams offer, in configuration order, and what the proxy itself offers. It is never
// nil.
func joinedList(s *session, list upstream.List) []byte {
	p := s.srv.policy.Load()
	own := s.ownItems(p, list) // before the others are named: they claim theirs first
	shown := upstreamItems(s, p, list)
	items := make([][]byte, 0, len(shown)+len(own))
	for _, item := range shown {
		if list == upstream.Tools {
			item.raw = s.choose(p).listed(p, item)
		}
		if item.raw != nil {
			items = append(items, item.raw)
		}
	}
	if list == upstream.Tools {
		items = slices.Concat(own, items)
	} else {
		items = append(items, own...)
	}
	return bytes.Join(items, []byte(","))
}

// shownItem is an item of an upstream's list as it is shown.
type shownItem struct {
	target
	raw []byte
}

// upstreamItems are the items of one list in the order of the upstreams, tools and prompts
// under the names that they bear here. Of two items with one name the first counts; the
// other is left out, as is one that bears no name.
func upstreamItems(s *session, p *policy, list upstream.List) (items []shownItem) {
	seen := make(map[string]bool)
	for _, l := range s.leases.current() {
		for _, item := range l.items(list) {
			raw, name := item.Raw, item.Name
			if list == upstream.Tools || list == upstream.Prompts {
				if name = s.identity.view.nameOf(p, list, target{l.Name(), item.Name}); name != item.Name {
					raw = jsonrpc.Set(raw, "name", jsonrpc.AppendString(nil, name))
				}
			}
			if name == "" || seen[name] {
				s.srv.log.Debug("left out of the list: its name is another's, or it had no room for another", "upstream", l.Name(), "list", list.Method(), "name", item.Name)
				continue
			}
			seen[name] = true
			items = append(items, shownItem{target{l.Name(), item.Name}, raw})
		}
	}
	return items
}

// throttle calls a function when it is triggered: at once after a pause, else an interval
// after the first trigger since the last call.
type throttle struct {
	interval time.Duration
	call     func()

	mu      sync.Mutex
	timer   *time.Timer // makes the call that is due; nil: none is
	last    time.Time   // of the last call
	stopped bool
	calls   sync.WaitGroup // due or under way
}

// trigger has the function called, unless a call is due already.
func (t *throttle) trigger() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil || t.stopped {
		return
	}
	wait := time.Duration(0)
	if time.Since(t.last) < t.interval {
		wait = t.interval
	}
	t.calls.Add(1)
	t.timer = time.AfterFunc(wait, t.fire)
}

func (t *throttle) fire() {
	defer t.calls.Done()
	t.mu.Lock()
	t.timer, t.last = nil, time.Now()
	stopped := t.stopped
	t.mu.Unlock()
	if !stopped {
		t.call()
	}
}

// stop has the function called no more, and waits for a call under way.
func (t *throttle) stop() {
	t.mu.Lock()
	t.stopped = true
	if t.timer != nil && t.timer.Stop() {
		t.calls.Done()
	}
	t.mu.Unlock()
	t.calls.Wait()
}
