package dedup

import (
	"context"
	"time"

	"mcpschedd/internal/call"
)

// Peers are the other replicas of this proxy, as a store that all of them reach knows them.
// Every replica asks it before it answers a call from its own store, tells it of a write
// before that is sent, and may keep answers in it.
//
// Why no replica serves from before another's write: a place has a token that is random and
// never comes again, and a write replaces the tokens of its places, and leaves a mark there,
// before it is sent. A replica that looks at a place and finds a mark, or another token than
// it found last, takes the place for changed. So between two looks that found the same token
// and no mark no write began, and those that had begun before had ended.
type Peers interface {
	// Look returns the token of each place, in their order; "" stands for a place with a
	// write that is pending. An error says that the tokens cannot be known now.
	Lookup(ctx context.Context, places []call.Place) (tokens []string, err error)

	// Announce tells the other replicas of a write to the places, and returns when they will
	// see it. lost is called, at most once, when they might not see it any longer though it
	// has not ended.
	Announce(ctx context.Context, places []call.Place, lost func(error)) (Announcement, error)

	// Lead returns an answer that a replica has kept under key and these tokens. While
	// another one fetches it, Lead waits for that, after it has called waits. If there is
	// neither, this replica is the one that fetches: keep is to be called, once, with what it
	// fetched, or with nil where there is nothing that others may have.
	Lead(ctx context.Context, key string, tokens []string, waits func()) (found *SharedAnswer, keep func(*SharedAnswer))
}

// Announced is a write that the other replicas were told of.
type Announcement interface {
	// Fence says why the request of the write must not be sent now; nil: it may. A process
	// that was stopped, or slept, is told so before lost is called.
	Fence() error
	// End says that it has ended, and does not wait.
	End()
}

// Kept is an answer that replicas share.
type SharedAnswer struct {
	Body      []byte
	Stateless bool
	Age       time.Duration // since its fetch began
	MaxAge    time.Duration // how old it may become; from replicas: 0
}

// peerView is what one look has found.
type peerView struct {
	asked  bool     // there are peers
	tokens []string // of the query's places
	clear  bool     // they are known, and no write to one of them is pending
}

// askPeers asks the peers, if there are any. It waits for them.
func (s *Store) askPeers(ctx context.Context, places []call.Place) peerView {
	if s.peers == nil {
		return peerView{clear: true}
	}
	tokens, err := s.peers.Lookup(ctx, places)
	if err != nil {
		return peerView{asked: true}
	}
	return peerView{asked: true, tokens: tokens, clear: true}
}

// applyLocked takes those places for changed that the look found so.
func (s *Store) applyLocked(places []call.Place, seen *peerView) {
	for i, token := range seen.tokens {
		p := places[i]
		if p.Domain == "" {
			p.Slot %= slots
		}
		if token == "" {
			seen.clear = false
		}
		if token == "" || s.tokens[p] != token {
			s.epochs.bump(s.epochs.at(p))
		}
		if token == "" {
			delete(s.tokens, p) // it will have changed when that write has ended
		} else {
			s.tokens[p] = token
		}
	}
}

// world is what stands for all places among those that were told of.
var allPlaces call.Place

// noteChangedLocked notes that something else than a call said that a place may have changed: what
// other replicas fetched before is not taken from them.
func (s *Store) noteChangedLocked(p call.Place) {
	if s.peers != nil {
		s.changedAt[p] = s.clock()
	}
}

// Shares reports whether the store asks other replicas before it answers, which takes a
// round trip.
func (s *Store) HasPeers() bool { return s.peers != nil }

// throughPeers returns what fetches the answer of a flight where other replicas may have it.
func (f *Flight) throughPeers(seen peerView, waits func(), fetch func(context.Context, *Flight)) func(context.Context, *Flight) {
	if !seen.asked || !seen.clear || f.query.SharedKey == "" {
		return fetch
	}
	return func(ctx context.Context, f *Flight) {
		found, keep := f.store.peers.Lead(ctx, f.query.SharedKey, seen.tokens, waits)
		if found != nil && f.adopt(found) {
			f.Settle(found.Body, found.Stateless, true)
			return
		}
		f.share = keep
		fetch(ctx, f)
	}
}

// borrow makes the flight that of another replica, unless its answer is too old, or from
// before something that this replica alone was told.
func (f *Flight) adopt(k *SharedAnswer) bool {
	s := f.store
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	if !f.query.Reuse.admits(false, true, k.Age) || k.Age > now.Since(s.changedAt[allPlaces]) {
		return false
	}
	for _, p := range f.query.Places {
		if k.Age > now.Since(s.changedAt[p]) {
			return false
		}
	}
	f.began, f.leader = now.Ago(k.Age), nil // no call of this replica has fetched it
	return true
}

// kept is what other replicas may have of the answer; nil: nothing.
func (f *Flight) sharedAnswer(l settlement) *SharedAnswer {
	if l.waste != "" || f.prefetch != nil {
		return nil
	}
	return &SharedAnswer{Body: l.entry.body, Stateless: l.entry.stateless, Age: f.store.clock().Since(f.began), MaxAge: f.query.Reuse.ageLimit()}
}

// Announced reports whether the other replicas know of the write, as far as they must.
func (p *PendingWrite) Announced() bool {
	return p.store.peers == nil || !p.effect.Changes() || p.announced != nil
}

// Announce tells the other replicas of the write, and returns when they will see it. Before
// that its request must not be sent. lost is called, at most once, when they might not see it
// any longer: the request is to be given up then.
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
		announced.End()
	}
	return nil
}

// Fence says why the request of the write must not be sent now; nil: it may. It is asked
// after Announce, at the last moment before the server has the request.
func (p *PendingWrite) Fence() error { return p.announced.Fence() }

// AnnounceSoon is Announce for what does not wait for the other replicas: a notification of a
// client, or a change that is made beside the proxy. It returns at once.
func (p *PendingWrite) AnnounceAsync() {
	if !p.Announced() {
		go p.Announce(context.Background(), func(error) {}) // in vain: they are told of nothing, and no request hangs on it
	}
}
