package dedup

import (
	"context"
	"slices"
	"time"

	"mcpschedd/internal/age"
	"mcpschedd/internal/call"
)

// Peers are the other replicas of this proxy, reached through a store that all share.
// A replica queries that store before it serves or prefetches an answer, announces a write in
// it before the write is sent, and may share answers in it.
//
// Why no replica serves an answer from before another's write: each place has a token that
// is random and never reused. Before a write is sent, it replaces the tokens of its places
// and sets a mark there. A replica that finds a mark in its lookup, or another token than in its
// last lookup, takes the place as changed. So between two lookups that found the same token
// and no mark, no write began, and every earlier write had ended.
type Peers interface {
	// Lookup returns the token of each place, in order; "" for a place with a pending
	// write, or without a token, which it then gets. An error means that the tokens are not
	// known now.
	Lookup(ctx context.Context, places []call.Place) (tokens []string, err error)

	// Announce announces a write to the places, and returns when the other replicas will
	// see it. lost is called, at most once, if they might not see it any longer before it
	// has ended.
	Announce(ctx context.Context, places []call.Place, lost func(error)) (Announcement, error)

	// Lead returns an answer that a replica has shared under key and these tokens. While
	// another replica fetches it, Lead calls waits and blocks. If there is neither, this
	// replica must fetch, and call keep, unless it is nil, once: with the answer, or with nil if it
	// must not be shared.
	Lead(ctx context.Context, key string, tokens []string, waits func()) (found *SharedAnswer, keep func(*SharedAnswer))
}

// Announcement is a write announced to the other replicas.
type Announcement interface {
	// Fence returns an error if the request of the write must not be sent now. A process
	// that was stopped, or slept, gets it before lost is called.
	Fence() error
	// End announces the end of the write. It is called once, and does not block.
	End()
}

// SharedAnswer is an answer that replicas share.
type SharedAnswer struct {
	Body      []byte
	Stateless bool
	Age       time.Duration // since its fetch began
	MaxAge    time.Duration // until which it may be served; 0 in an answer from a replica
}

// replicas is what a store knows of its peers. The store's mutex guards the maps.
type replicas struct {
	Peers
	tokens    map[call.Place]string     // place → token at its last lookup
	changedAt map[call.Place]age.Moment // place → its last invalidation, or end of a write, at this replica
}

func newReplicas(p Peers) *replicas {
	if p == nil {
		return nil
	}
	return &replicas{Peers: p, tokens: make(map[call.Place]string), changedAt: make(map[call.Place]age.Moment)}
}

// peerView is the result of one lookup.
type peerView struct {
	tokens []string // of the query's places
	valid  bool     // they are known, and after bumpChangedLocked: none has a pending write
}

// lookUpPeers looks up the places at the peers, if there are any. It blocks for the reply.
func (s *Store) lookUpPeers(ctx context.Context, places []call.Place) peerView {
	if s.peers == nil {
		return peerView{valid: true}
	}
	tokens, err := s.peers.Lookup(ctx, places)
	return peerView{tokens: tokens, valid: err == nil}
}

// bumpChangedLocked bumps the places that the lookup found changed.
func (s *Store) bumpChangedLocked(places []call.Place, seen *peerView) {
	for i, token := range seen.tokens {
		p := asAtPeers(places[i])
		if token == "" {
			seen.valid = false
		}
		if token == "" || s.peers.tokens[p] != token {
			s.epochs.bump(s.epochs.ensure(p))
		}
		s.peers.tokens[p] = token // with "" the place changes again when that write ends
	}
}

// asAtPeers returns the place as in the store of the peers: edges with one token are one place.
func asAtPeers(p call.Place) call.Place {
	p.Slot %= slots // 0 for a domain
	return p
}

// allPlaces is the key in changedAt that stands for every place. It is that of one slot of edges too, which
// invalidates too much.
var allPlaces call.Place

// noteChangedLocked records an invalidation, or the end of a write, at this replica: answers that other
// replicas fetched before it are not used, even if the others are not told, or a call looked up their
// tokens earlier.
func (s *Store) noteChangedLocked(p call.Place) {
	if s.peers != nil {
		s.peers.changedAt[asAtPeers(p)] = s.clock()
	}
}

// HasPeers reports whether the store queries other replicas before it serves an answer,
// which takes a round trip.
func (s *Store) HasPeers() bool { return s.peers != nil }

// throughPeers wraps fetch so that it first takes a shared answer, if the flight may.
func (f *Flight) throughPeers(seen peerView, onWait func(), fetch func(context.Context, *Flight)) func(context.Context, *Flight) {
	if f.store.peers == nil || f.query.SharedKey == "" {
		return fetch
	}
	return func(ctx context.Context, f *Flight) {
		found, keep := f.store.peers.Lead(ctx, f.query.SharedKey, seen.tokens, onWait)
		if found != nil && f.adopt(found) {
			f.Finish(found.Body, found.Stateless, true)
			return
		}
		f.share = keep
		fetch(ctx, f)
	}
}

// adopt makes the flight one of another replica's answer. It returns false if the answer is
// too old, or from before a change at this replica that the others may not have seen.
func (f *Flight) adopt(k *SharedAnswer) bool {
	s := f.store
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	isBeforeChange := func(p call.Place) bool {
		at, changed := s.peers.changedAt[asAtPeers(p)]
		return changed && k.Age > now.Monotonic(at) // never more than has passed: the wall clock may have been set forward
	}
	if !f.query.Reuse.admits(false, true, k.Age) ||
		s.epochs.hasPending(f.query.Places) || isBeforeChange(allPlaces) || slices.ContainsFunc(f.query.Places, isBeforeChange) {
		return false
	}
	f.began, f.leader = now.Ago(k.Age), nil // no call of this replica fetched it
	return true
}

// sharedAnswer returns the answer for other replicas; nil if it must not be shared.
func (f *Flight) sharedAnswer(r result) *SharedAnswer {
	if r.waste != "" && r.waste != evicted { // one too large for this store may fit elsewhere
		return nil
	}
	return &SharedAnswer{Body: r.entry.body, Stateless: r.entry.stateless, Age: f.store.clock().Since(f.began), MaxAge: f.query.Reuse.ageLimit()}
}

// Announced reports whether the write needs no announcement or has one.
func (p *PendingWrite) Announced() bool {
	return p.store.peers == nil || !p.effect.Changes() || p.announced != nil
}

// Announce announces the write to the other replicas, and returns when they will see it.
// Its request must not be sent before. lost is called, at most once, if they might not see
// it any longer: the caller must then give the request up.
func (p *PendingWrite) Announce(ctx context.Context, lost func(error)) error {
	s := p.store
	if p.Announced() {
		return nil
	}
	announced, err := s.peers.Announce(ctx, p.effect.Places, lost)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.announced = announced
	if p.ended {
		p.endAnnouncementLocked()
	}
	return nil
}

// endAnnouncementLocked announces the end of the write once it has settled: until then no
// replica may keep what it reads.
func (p *PendingWrite) endAnnouncementLocked() {
	if !p.showsLate() {
		p.announced.End()
		return
	}
	time.AfterFunc(p.store.options.Settle, p.announced.End)
}

// Fence returns an error if the request of the write must not be sent now. It is called
// after Announce, at the last moment before the server has the request.
func (p *PendingWrite) Fence() error { return p.announced.Fence() }

// AnnounceAsync announces the write without waiting: for a client's notification, or a
// change made outside the proxy.
func (p *PendingWrite) AnnounceAsync() {
	if !p.Announced() {
		go p.Announce(context.Background(), func(error) {}) // an error leaves the write unannounced, and no request depends on it
	}
}
