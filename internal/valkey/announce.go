package valkey

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"mcpschedd/internal/age"
	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
)

// announcement is a write that the other replicas have been told of.
//
// It stands in the server for Lease and WriteSettle after it was last renewed. The replica that
// announced it gives its request up before Lease is over, and one that was given up lands within
// WriteSettle. So it cannot land when it does not stand there any more. That holds while the
// server's clock is not set forward. A process that was stopped finds at the fence that it is
// too late to send the request; docs/replicas.md says what is left of such a stop.
type announcement struct {
	s      *Store
	places []call.Place
	write  string      // its name among the members of a place
	giveUp func(error) // gives its request up
	expiry *time.Timer // calls it in time

	mu        sync.Mutex
	renewedAt age.Moment // when it was last renewed, no later than the server did
	ended     bool       // it has ended, or was lost
}

// margin is the part of Lease that is left when a request is given up: 1/margin.
const margin = 5

// holds is for how long a request goes on after its write was last renewed.
func (s *Store) holdTime() time.Duration { return s.options.Lease - s.options.Lease/margin }

// Announce tells the other replicas of a write. While the server cannot be reached it tries
// again, for Lease at most.
func (s *Store) Announce(ctx context.Context, places []call.Place, lost func(error)) (told dedup.Announcement, err error) {
	a := &announcement{
		s: s, places: places, giveUp: lost, write: s.id + "/" + strconv.FormatUint(s.writes.Add(1), 36),
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
			return nil, fmt.Errorf("not sent, for the other replicas cannot be told of the change: %w", err)
		}
		pause := retryDelay
		if errors.Is(err, errHistory) && s.confirmation.servers == 0 {
			pause = 0
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// errEarly says that a primary that was replaced may still answer lookups.
var errEarly = errors.New("another primary has just taken over")

// announceScript gives each place a token of its own, and has a write stand there.
const announceScript = `
local t = redis.call('TIME')
local till = string.format('%d', t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[3])
for i, place in ipairs(KEYS) do redis.call('HSET', place, 't', ARGV[1] .. i, ARGV[2], till) end
return 1`

// announce has the write stand in the server, in the history that is current and that it
// returns.
func (s *Store) announce(ctx context.Context, a *announcement) (history string, err error) {
	got, err := s.roundTrip(ctx, s.script(announceScript, a, rand.Text(), a.write, s.markTTL()))
	if err != nil && !errors.Is(err, errYoung) {
		return "", err
	}
	return got.history, got.results[0].Error()
}

// stands is for how long, in ms, a write stands in the server.
func (s *Store) markTTL() string {
	return strconv.FormatInt((s.options.Lease + s.options.WriteSettle).Milliseconds(), 10)
}

// script runs a script on the places of a write.
func (s *Store) script(script string, a *announcement, args ...string) command {
	return func(c rueidis.Client, history string) rueidis.Completed {
		keys := make([]string, len(a.places))
		for i, p := range a.places {
			keys[i] = placeKey(history, p)
		}
		return c.B().Eval().Script(script).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
	}
}

// renewScript has a write stand for longer. It returns 0 where it does not stand any more.
const renewScript = `
local t = redis.call('TIME')
local till = string.format('%d', t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[2])
for _, place in ipairs(KEYS) do
	if redis.call('HEXISTS', place, ARGV[1]) == 0 then return 0 end
	redis.call('HSET', place, ARGV[1], till)
end
return 1`

// renewAll renews all writes that take long, until ctx ends.
func (s *Store) renewAll(ctx context.Context) {
	tick := time.NewTicker(s.options.Lease / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		open := make([]*announcement, 0, len(s.openWrites))
		for a := range s.openWrites {
			open = append(open, a)
		}
		s.mu.Unlock()
		if len(open) > 0 {
			s.renew(ctx, open)
		}
	}
}

// renew renews writes in one exchange. One that does not stand any more is announced again:
// the server was emptied, or has begun a new history, in which nothing is relied on yet.
func (s *Store) renew(ctx context.Context, open []*announcement) {
	commands := make([]command, len(open))
	for i, a := range open {
		commands[i] = s.script(renewScript, a, a.write, s.markTTL())
	}
	asked := age.Now()
	got, err := s.roundTrip(ctx, commands...)
	if err != nil && !errors.Is(err, errHistory) {
		return
	}
	for i, a := range open {
		stands := false
		if got.results != nil {
			n, err := got.results[i].AsInt64()
			stands = err == nil && n == 1
		}
		if !stands {
			asked = age.Now()
			_, err := s.announce(ctx, a)
			stands = err == nil
		}
		if stands {
			a.renewed(asked)
		}
	}
}

// renewed has the request given up no sooner than holds after a moment. A renewal that comes
// too late is none: lookups may have been answered in between, by another primary too.
func (a *announcement) renewed(asked age.Moment) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ended && asked.Since(a.renewedAt) < a.s.holdTime() {
		a.renewedAt = asked
		a.expiry.Reset(a.s.holdTime() - age.Now().Since(asked))
	}
}

// Fence says why the request must not be sent now. It goes by both clocks, and not by the timer,
// which is late where the process was stopped, or its machine slept.
func (a *announcement) Fence() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended || age.Now().Since(a.renewedAt) >= a.s.holdTime() {
		return errLate
	}
	return nil
}

// errLate is why a request is not sent.
var errLate = errors.New("not sent, for the other replicas have not been told of the change again for too long")

// finish reports whether the write had not ended before.
func (a *announcement) markEnded() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return false
	}
	a.ended = true
	a.expiry.Stop()
	return true
}

// errLost is why a request was given up.
var errLost = errors.New("given up, whether it was run or not: the store of the replicas could not be reached for too long, and the other replicas might not know of the change any more")

// lose gives up the request of a write that could not be renewed.
func (s *Store) giveUp(a *announcement) {
	s.mu.Lock()
	delete(s.openWrites, a)
	s.mu.Unlock()
	a.giveUp(errLost)
}

// endScript takes a write away. Where it did not stand any more, something may have been
// fetched meanwhile that it has changed, so the place gets a new token.
const endScript = `
for _, place in ipairs(KEYS) do
	if redis.call('HDEL', place, ARGV[1]) == 0 then redis.call('HSET', place, 't', ARGV[2]) end
end
return 1`

// End says that the write has ended. If the server cannot be told, it stands there until its
// time is over.
func (a *announcement) End() {
	s := a.s
	if !a.markEnded() {
		return
	}
	s.mu.Lock()
	delete(s.openWrites, a)
	s.mu.Unlock()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), s.options.Lease)
		defer cancel()
		for {
			_, err := s.roundTrip(ctx, s.script(endScript, a, a.write, rand.Text()))
			if err == nil || errors.Is(err, errYoung) {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(retryDelay):
			}
		}
	}()
}
