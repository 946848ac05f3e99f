package valkey

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"mcpschedd/internal/age"
	"mcpschedd/internal/call"
)

// token is the field of a place that each write replaces.
const token = "t"

// placeKey is the key of a place.
func placeKey(history string, p call.Place) string {
	if p.Domain != "" {
		return history + "p:" + p.Domain
	}
	return history + "p:/" + strconv.FormatUint(p.Slot%slots, 16) // no domain begins with a slash
}

// slots is the number of keys shared by the places of edges. Edges that share a slot invalidate
// too much, and the server learns little of their contents.
const slots = 1 << 14

// reply is the result of one round trip.
type reply struct {
	results []rueidis.RedisResult // one per command
	history string                // in which the commands ran
	now     int64                 // ms on the server's clock
}

// command builds a command for keys of a history.
type command func(c rueidis.Client, history string) rueidis.Completed

// errUnconfirmed means that another primary may have taken over.
var errUnconfirmed = fmt.Errorf("%w: the primary is not confirmed by a majority of its servers", errDown)

// errHistory means that the keys belong to a history that has ended, or is not trusted yet.
var errHistory = errors.New("the replicas' store has just begun a new history")

// roundTrip sends the commands and returns their results, after it has checked that they ran in
// the history that their keys name: the server runs commands in order, and reports its history
// after them. With errYoung the reply is valid too. No command is sent before the first history is
// known.
func (s *Store) roundTrip(ctx context.Context, commands ...command) (out reply, err error) {
	conn := s.conn.Load()
	if conn == nil {
		return out, errDown
	}
	c, history, asked := *conn, *s.history.Load(), age.Now()
	if history == "" {
		commands = nil // their keys would have no prefix
	}
	all := make([]rueidis.Completed, 0, len(commands)+4)
	for _, command := range commands {
		all = append(all, command(c, history))
	}
	all = append(all, c.B().Get().Key(history+"open").Build(), c.B().Info().Section("replication").Build())
	if s.confirmation.servers > 0 {
		all = append(all, c.B().Info().Section("stats").Build())
	}
	all = append(all, c.B().Time().Build())
	bounded, cancel := context.WithTimeout(ctx, s.timeout())
	defer cancel()
	results := s.send(bounded, c, all)
	for _, r := range results {
		if err := r.NonRedisError(); err != nil {
			if !hasEnded(ctx) {
				s.markDown(err)
			}
			return out, fmt.Errorf("%w: %w", errDown, err)
		}
	}
	out.results, out.history = results[:len(commands)], history
	out.now, err = s.checkHistory(bounded, c, history, results[len(commands):])
	if err != nil && !errors.Is(err, errHistory) && !hasEnded(ctx) {
		s.down.Store(true) // stayConnected retries and logs the reason
	}
	switch {
	case err != nil && !errors.Is(err, errYoung): // the commands may have run in a history that has ended
		return reply{}, err
	case !s.confirmed(history, asked):
		return reply{}, errUnconfirmed
	}
	return out, err
}

// send sends commands on one connection. Concurrent callers share one, on which rueidis'
// goroutines write and read for all of them. A single caller gets a dedicated connection, as
// waking those goroutines would take as long as the server does.
func (s *Store) send(ctx context.Context, c rueidis.Client, all []rueidis.Completed) []rueidis.RedisResult {
	defer s.inFlight.Add(-1)
	if s.inFlight.Add(1) > 1 {
		return c.DoMulti(ctx, all...)
	}
	own, release := c.Dedicate()
	defer release()
	return own.DoMulti(ctx, all...)
}

// hasEnded reports whether a caller's context has ended, so that a failure says nothing about the server. A
// connection's deadline may pass a moment before the context notices its own.
func hasEnded(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// timeout is how long the server may take to reply.
func (s *Store) timeout() time.Duration { return min(time.Second, s.options.Lease/5) }

// markDown records that the server does not reply.
func (s *Store) markDown(err error) {
	if s.down.CompareAndSwap(false, true) {
		s.options.Log.Warn("the replicas' store does not reply: no answer is served, and no write is sent", "at", s.address(), "err", err)
	}
}

// checkHistory reads the server's history, and adopts it if it has changed. A history that has
// just begun may lack marks: a write that is still pending may have been announced only in the
// one before.
func (s *Store) checkHistory(ctx context.Context, c rueidis.Client, history string, tail []rueidis.RedisResult) (now int64, err error) {
	current, err := s.historyOf(tail[1:])
	if err != nil {
		return 0, err
	}
	at, err := tail[len(tail)-1].AsIntSlice()
	if err != nil || len(at) != 2 {
		return 0, fmt.Errorf("TIME: %v", err)
	}
	now = at[0]*1000 + at[1]/1000
	if current != history {
		if err := s.checkServer(ctx, c); err != nil {
			return 0, err
		}
		s.history.Store(&current)
		return 0, s.openHistory(ctx, c, current, now)
	}
	since, err := tail[0].AsInt64()
	if rueidis.IsRedisNil(err) { // the server was emptied
		return 0, s.openHistory(ctx, c, history, now)
	}
	if err != nil {
		return 0, fmt.Errorf("key %sopen: %w", history, err)
	}
	if time.Duration(now-since)*time.Millisecond < s.grace() {
		return now, errYoung
	}
	return now, nil
}

// openHistory records the start of a history. The replica that does so first cleans up.
func (s *Store) openHistory(ctx context.Context, c rueidis.Client, history string, now int64) error {
	err := c.Do(ctx, c.B().Set().Key(history+"open").Value(strconv.FormatInt(now, 10)).Nx().Build()).Error()
	switch {
	case err == nil:
		go s.deleteOldHistories()
	case !rueidis.IsRedisNil(err): // nil means that another replica has recorded it
		return err
	}
	return errHistory
}

// deleteOldHistories deletes the keys of earlier histories that have no TTL. The keys of a page
// were there before the round trip read the history, and a history that has ended never comes
// back, so keys of any other history are of no use to any replica.
func (s *Store) deleteOldHistories() {
	for cursor := uint64(0); ; {
		var old []string
		got, err := s.roundTrip(s.ctx, func(c rueidis.Client, _ string) rueidis.Completed {
			return c.B().Scan().Cursor(cursor).Match(prefix + "*").Count(1000).Build()
		})
		if errors.Is(err, errUnconfirmed) && sleep(s.ctx, retryDelay) { // as each new history is at first
			continue
		}
		if err != nil && !errors.Is(err, errYoung) {
			return
		}
		page, err := got.results[0].AsScanEntry()
		for _, key := range page.Elements {
			id, of, _ := strings.Cut(strings.TrimPrefix(key, prefix), ":")
			isHistory := strings.Trim(id, "0123456789abcdef-") == ""
			kind, _, _ := strings.Cut(of, ":")
			if isHistory && slices.Contains([]string{"open", "p", "l", "h"}, kind) && prefix+id+":" != got.history {
				old = append(old, key)
			}
		}
		if len(old) > 0 {
			_, _ = s.roundTrip(s.ctx, func(c rueidis.Client, _ string) rueidis.Completed { return c.B().Unlink().Key(old...).Build() })
		}
		if cursor = page.Cursor; err != nil || cursor == 0 {
			return
		}
	}
}

// errYoung means that a history is too young to be trusted. Writes may be announced in it.
var errYoung = fmt.Errorf("%w, which is not trusted yet", errHistory)

// grace is how long a new history is not trusted. Any write that was announced in the one before
// has then ended, has been announced in this one, or cannot land any more.
func (s *Store) grace() time.Duration { return s.options.Lease + s.options.WriteSettle + time.Second }

// Lookup returns the token of each place; "" if a write to it is pending, or it has no token.
func (s *Store) Lookup(ctx context.Context, places []call.Place) ([]string, error) {
	if s.down.Load() {
		return nil, errDown
	}
	commands := make([]command, len(places))
	for i, p := range places {
		commands[i] = func(c rueidis.Client, history string) rueidis.Completed {
			return c.B().Hgetall().Key(placeKey(history, p)).Build()
		}
	}
	got, err := s.roundTrip(ctx, commands...)
	if err != nil {
		return nil, err
	}
	tokens := make([]string, len(places))
	for i, r := range got.results {
		members, err := r.AsStrMap()
		switch {
		case err != nil:
			return nil, fmt.Errorf("place %s: %w", placeKey("", places[i]), err) // the key is another program's
		case len(members) == 1:
			tokens[i] = members[token]
		case len(members) == 0 || anyExpired(members, got.now):
			s.repair(ctx, places[i])
		}
	}
	return tokens, nil
}

// anyExpired reports whether a place has an expired mark.
func anyExpired(members map[string]string, now int64) bool {
	for name, value := range members {
		if expiry, err := strconv.ParseInt(value, 10, 64); name != token && (err != nil || expiry <= now) {
			return true
		}
	}
	return false
}

// repairScript sets a missing token, and removes expired marks.
const repairScript = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('HSETNX', KEYS[1], 't', ARGV[1])
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
	local till = tonumber(all[i + 1])
	if all[i] ~= 't' and (not till or till <= now) then redis.call('HDEL', KEYS[1], all[i]) end
end
return 1`

// repair repairs a place. The next lookup sees its effect.
func (s *Store) repair(ctx context.Context, p call.Place) {
	_, _ = s.roundTrip(ctx, onPlaces([]call.Place{p}, repairScript, rand.Text()))
}
