package valkey

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"mcpschedd/internal/age"
	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
)

// announcement is a write announced to the other replicas.
//
// Its mark stays in the server for Lease + WriteSettle after its last renewal. The replica
// that announced it gives its request up before Lease is over, and a request that was given up
// lands within WriteSettle. So the write cannot land after its mark has expired, as long as the
// server's clock is not set forward. A process that was stopped finds at the fence that it is
// too late to send the request; docs/replicas.md says which cases that leaves.
type announcement struct {
	s      *Store
	places []call.Place
	write  string      // its field in the hash of a place
	lost   func(error) // cancels its request
	expiry *time.Timer // calls giveUp in time

	mu        sync.Mutex
	renewedAt age.Moment // last renewal, no later than the server processed it
	ended     bool       // it has ended, or its request was given up; only End removes its mark
}

// margin is the part of Lease, 1/margin, that is left when a request is given up.
const margin = 5

// holdTime is how long a request may continue after its write was last renewed.
func (s *Store) holdTime() time.Duration { return s.options.Lease - s.options.Lease/margin }

// Announce announces a write to the other replicas. It retries while the server is not
// reachable, for Lease at most.
func (s *Store) Announce(ctx context.Context, places []call.Place, lost func(error)) (announced dedup.Announcement, err error) {
	a := &announcement{
		s: s, places: places, lost: lost, write: s.id + "/" + strconv.FormatUint(s.writes.Add(1), 36),
	}
	for began := time.Now(); ; {
		asked := time.Now()
		a.renewedAt = age.Now()
		var history string
		if history, err = s.announce(ctx, a); err == nil && !s.mayBegin(history, asked) {
			err = errEarly
		}
		if err == nil {
			a.expiry = time.AfterFunc(time.Until(asked.Add(s.holdTime())), func() { s.giveUp(a) })
			s.mu.Lock()
			s.openWrites[a] = struct{}{}
			s.mu.Unlock()
			return a, nil
		}
		if time.Since(began) > s.options.Lease {
			a.unmark()
			return nil, fmt.Errorf("not sent: the write could not be announced to the other replicas: %w", err)
		}
		if !sleep(ctx, retryDelay) {
			a.unmark()
			return nil, context.Cause(ctx)
		}
	}
}

// errEarly means that a primary that was replaced may still answer lookups.
var errEarly = errors.New("another primary has just taken over")

// announceScript gives each place a new token, and sets the write's mark.
const announceScript = `
local t = redis.call('TIME')
local till = string.format('%d', t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[3])
for i, place in ipairs(KEYS) do redis.call('HSET', place, 't', ARGV[1] .. i, ARGV[2], till) end
return 1`

// announce sets the marks of a write in the current history, which it returns.
func (s *Store) announce(ctx context.Context, a *announcement) (history string, err error) {
	got, err := s.roundTrip(ctx, onPlaces(a.places, announceScript, rand.Text(), a.write, s.markTTL()))
	if err != nil && !errors.Is(err, errYoung) {
		return "", err
	}
	return got.history, got.results[0].Error()
}

// markTTL is the lifetime of a mark, in ms.
func (s *Store) markTTL() string {
	return strconv.FormatInt((s.options.Lease + s.options.WriteSettle).Milliseconds(), 10)
}

// onPlaces runs a script on places.
func onPlaces(places []call.Place, script string, args ...string) command {
	return func(c rueidis.Client, history string) rueidis.Completed {
		keys := make([]string, len(places))
		for i, p := range places {
			keys[i] = placeKey(history, p)
		}
		return c.B().Eval().Script(script).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
	}
}

// renewScript extends the marks of a write. It returns 0 if one has expired.
const renewScript = `
local t = redis.call('TIME')
local till = string.format('%d', t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[2])
for _, place in ipairs(KEYS) do
	if redis.call('HEXISTS', place, ARGV[1]) == 0 then return 0 end
	redis.call('HSET', place, ARGV[1], till)
end
return 1`

// renewAll renews all open writes.
func (s *Store) renewAll() {
	s.mu.Lock()
	open := slices.Collect(maps.Keys(s.openWrites))
	s.mu.Unlock()
	if len(open) > 0 {
		s.renew(s.ctx, open)
	}
}

// renew renews writes in one round trip. A write is announced again if its mark is gone: the
// server lost its memory, or has begun a new history, which is not trusted yet.
func (s *Store) renew(ctx context.Context, open []*announcement) {
	commands := make([]command, len(open))
	for i, a := range open {
		commands[i] = onPlaces(a.places, renewScript, a.write, s.markTTL())
	}
	asked := age.Now()
	got, err := s.roundTrip(ctx, commands...)
	if err != nil && !errors.Is(err, errHistory) {
		return
	}
	for i, a := range open {
		renewed := false
		if got.results != nil {
			n, err := got.results[i].AsInt64()
			renewed = err == nil && n == 1
		}
		at := asked
		if !renewed && !a.hasEnded() { // the end of a write removes its marks too
			at = age.Now()
			_, err := s.announce(ctx, a)
			renewed = err == nil
		}
		if renewed {
			a.renewed(at)
		}
	}
}

// hasEnded reports whether the write has ended, or its request was given up.
func (a *announcement) hasEnded() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ended
}

// renewed extends the request's deadline to holdTime after asked. A renewal that comes too late
// does not count: lookups may have been answered without the mark, by another primary too.
func (a *announcement) renewed(asked age.Moment) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ended && asked.Since(a.renewedAt) < a.s.holdTime() {
		a.renewedAt = asked
		a.expiry.Reset(a.s.holdTime() - age.Now().Since(asked))
	}
}

// Fence returns an error if the request must not be sent now. It compares both clocks and
// does not rely on the timer, which is late if the process was stopped or the machine slept.
func (a *announcement) Fence() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended || age.Now().Since(a.renewedAt) >= a.s.holdTime() {
		return errLate
	}
	return nil
}

// errLate is the error of a request that must not be sent any more.
var errLate = errors.New("not sent: its announcement to the other replicas was not renewed in time")

// markEnded marks the write as ended, and reports whether it had not ended before.
func (a *announcement) markEnded() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.ended
	a.ended = true
	return !before
}

// errLost is the cause with which a request is given up.
var errLost = errors.New("given up, and may have run: the replicas' store was unreachable for too long, and its announcement may have expired")

// giveUp gives up the request of a write that could not be renewed in time, unless it has ended.
func (s *Store) giveUp(a *announcement) {
	if !a.markEnded() {
		return
	}
	s.mu.Lock()
	delete(s.openWrites, a)
	s.mu.Unlock()
	a.lost(errLost)
}

// endScript removes the marks of a write. If a mark had expired, an answer may have been fetched
// in between that the write has changed, so the place gets a new token.
const endScript = `
for _, place in ipairs(KEYS) do
	if redis.call('HDEL', place, ARGV[1]) == 0 then redis.call('HSET', place, 't', ARGV[2]) end
end
return 1`

// End announces the end of the write.
func (a *announcement) End() {
	a.markEnded()
	a.expiry.Stop()
	a.unmark()
}

// unmark removes the marks of a write, in the background. If the server cannot be reached, or the
// store is closed, they expire by themselves.
func (a *announcement) unmark() {
	s := a.s
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.openWrites, a)
	if s.ctx.Err() != nil {
		return
	}
	s.running.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), s.options.Lease)
		defer cancel()
		for ctx.Err() == nil {
			_, err := s.roundTrip(ctx, onPlaces(a.places, endScript, a.write, rand.Text()))
			if err == nil || errors.Is(err, errYoung) || !sleep(s.ctx, retryDelay) {
				return
			}
		}
	})
}
