package proxy

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"mcpschedd/internal/upstream"
)

// listInterval is the minimum time between two list_changed notifications of one kind, as
// each invalidates the model's prompt cache.
const listInterval = 500 * time.Millisecond

// shownLists holds the hashes of the merged lists as the client last saw them, and throttles
// list_changed notifications.
type shownLists struct {
	s       *session
	changes throttle // notifies the client of changed lists

	mu    sync.Mutex             // held while a list is merged and compared with the last one shown
	shown [upstream.Lists]uint64 // hash of the list; 0 if not shown yet, outdated if the client could not be told of a change
}

func newShownLists(s *session) *shownLists {
	lists := &shownLists{s: s}
	lists.changes.interval, lists.changes.call = listInterval, lists.notifyChanges
	return lists
}

// retryNotify is the time after which a client that does not read is told again of a changed list.
const retryNotify = 5 * time.Second

// outdated differs from the hash of every list.
const outdated = 1

// notifyChanges sends a list_changed notification for the lists that were shown before and have
// changed. If the client does not read, it tries again later.
func (s *shownLists) notifyChanges() {
	s.s.awaitOffers(s.s.ctx) // a server that was replaced may have the same lists
	for _, method := range s.refresh(s.wereShown) {
		if s.s.notify(method, nil) == nil {
			continue
		}
		s.mu.Lock()
		for l := range upstream.Lists {
			if s.shown[l] != 0 && l.ChangedMethod() == method {
				s.shown[l] = outdated
			}
		}
		s.mu.Unlock()
		time.AfterFunc(retryNotify, s.changes.trigger)
	}
}

// wereShown reports whether a list was shown before.
func (s *shownLists) wereShown(l upstream.List) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown[l] != 0
}

// outdate makes each list count as changed since it was shown.
func (s *shownLists) outdate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.shown {
		s.shown[l] = outdated
	}
}

// refresh shows the lists that wanted accepts. It returns the methods of the list_changed
// notifications about those that have changed, and sends them to the listen requests.
func (s *shownLists) refresh(wanted func(upstream.List) bool) (methods []string) {
	for l := range upstream.Lists {
		if !wanted(l) {
			continue
		}
		// One notification covers resources and their templates.
		if _, changed := s.show(l, false); changed && !slices.Contains(methods, l.ChangedMethod()) {
			methods = append(methods, l.ChangedMethod())
		}
	}
	for _, method := range methods {
		s.publish(method)
	}
	return methods
}

// publish sends a list_changed to the listen requests of all clients that share the session.
func (s *shownLists) publish(method string) {
	s.s.subscriptions.publish(method, nil, func(o *listener) bool { return slices.Contains(o.changes, method) })
}

// show returns the current list; listing means that the client asked for it. changed reports
// whether a list was shown before and differed in any byte.
func (s *shownLists) show(l upstream.List, listing bool) (now []byte, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.s.view()
	now = v.mergedList(l, listing)
	hash := max(xxhash.Sum64(now), outdated+1)
	changed = s.shown[l] != 0 && s.shown[l] != hash
	s.shown[l] = hash
	return now, changed
}

// listHandler returns the handler of the requests for a list.
func listHandler(l upstream.List) handler {
	return func(x *request) outcome {
		if err := refuseCursor(x); err != nil {
			return outcome{err: err}
		}
		if l == upstream.Tools && x.msg.Index.Meta.Get(AwaitTools) != nil {
			if err := x.s.awaitTools(x.ctx); err != nil {
				return outcome{err: err}
			}
		}
		x.s.awaitOffers(x.ctx)
		items, changed := x.s.lists.show(l, true)
		if changed {
			x.s.lists.publish(l.ChangedMethod())
		}
		return ownOutcome(slices.Concat([]byte(`{"`+l.Member()+`":[`), items, []byte("]}")))
	}
}

// refuseCursor returns an error if a request for a list asks for another page than the first.
func refuseCursor(x *request) error {
	if cursor := x.msg.Index.Get("cursor"); cursor != nil && string(cursor) != "null" {
		return invalidParams("params.cursor: unknown; lists have a single page")
	}
	return nil
}

// mergedList returns the elements of one merged list, without brackets: the items of all
// upstreams, in the order of the configuration, and the proxy's own. It is never nil.
func (v *view) mergedList(list upstream.List, listing bool) []byte {
	if list == upstream.Tools {
		v.Choose(listing)
	}
	own := v.ownItems(list) // first, so that the proxy's tools get their names before the upstreams' do
	items := v.Items(list)
	if list == upstream.Tools {
		items = slices.Concat(own, items)
	} else {
		items = append(items, own...)
	}
	return bytes.Join(items, []byte(","))
}

// throttle limits how often a function is called: the first trigger after a pause calls
// it at once, later ones after the interval.
type throttle struct {
	interval time.Duration
	call     func()

	mu      sync.Mutex
	timer   *time.Timer // makes the call that is due; nil if none is
	last    time.Time   // time of the last call
	stopped bool
	calls   sync.WaitGroup // calls that are due or running
}

// trigger schedules a call unless one is due already.
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
	t.timer = time.AfterFunc(wait, func() {
		defer t.calls.Done()
		t.mu.Lock()
		t.timer, t.last = nil, time.Now()
		t.mu.Unlock()
		t.call()
	})
}

// stop prevents further calls and waits for a running one.
func (t *throttle) stop() {
	t.mu.Lock()
	t.stopped = true
	if t.timer != nil && t.timer.Stop() {
		t.calls.Done()
	}
	t.mu.Unlock()
	t.calls.Wait()
}
