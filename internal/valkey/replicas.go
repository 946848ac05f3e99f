package valkey

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"mcpschedd/internal/limit"
)

// lostLeases is how many Leases an absent replica still counts: meanwhile its share of the pace
// and slots of hosts is left to it, as it may be partitioned and still using them.
const lostLeases = 6

// countScript counts this replica, forgets replicas that have been absent for long, and returns
// how many there are. It also records when this one comes back, which has used its share
// meanwhile.
const countScript = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local all = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #all, 2 do
	if all[i] == ARGV[1] and now - all[i + 1] > tonumber(ARGV[2]) then redis.call('SET', KEYS[2], now) end
end
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[3])
return redis.call('ZCARD', KEYS[1])`

// WatchCount calls changed with the number of replicas, including this one, first and whenever
// it changes. While the server is not reachable the last number stays. partitioned is set once
// the other replicas count this one as absent.
func (s *Store) WatchCount(changed func(n int, partitioned bool)) {
	last, wasPartitioned, seen := 0, false, time.Now()
	s.every(s.options.Lease/4, func() {
		n, ok := s.countReplicas()
		if ok {
			seen = time.Now()
		} else {
			n = last
		}
		if partitioned := time.Since(seen) > s.options.Lease+s.options.Lease/margin; n != last || partitioned != wasPartitioned {
			last, wasPartitioned = n, partitioned
			changed(max(1, n), partitioned)
		}
	})
}

// countReplicas counts this replica, and returns how many there are.
func (s *Store) countReplicas() (n int, ok bool) {
	forgotten := strconv.FormatInt(lostLeases*s.options.Lease.Milliseconds(), 10)
	got, _ := s.roundTrip(s.ctx, func(c rueidis.Client, _ string) rueidis.Completed {
		return c.B().Eval().Script(countScript).Numkeys(2).Key(replicasKey, returnedKey).
			Arg(s.id, s.presenceTTL(), forgotten).Build()
	})
	if got.results == nil { // a young history will do
		return 0, false
	}
	count, err := got.results[0].AsInt64()
	return int(count), err == nil
}

// presenceTTL is how long, in ms, a replica counts as present after it was counted.
func (s *Store) presenceTTL() string { return strconv.FormatInt(s.options.Lease.Milliseconds(), 10) }

// leave removes this replica from the count. ZREM would need a further right of the documented user.
func (s *Store) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	_, _ = s.roundTrip(ctx, func(c rueidis.Client, _ string) rueidis.Completed {
		return c.B().Zadd().Key(replicasKey).ScoreMember().ScoreMember(0, s.id).Build()
	}, func(c rueidis.Client, _ string) rueidis.Completed {
		return c.B().Zremrangebyscore().Key(replicasKey).Min("-inf").Max("0").Build()
	})
}

const (
	replicasKey  = prefix + "replicas"
	returnedKey  = prefix + "back"
	leaveTimeout = 100 * time.Millisecond // limit of leaving, at shutdown
)

// takeScript takes tokens from a host's bucket, or lets a prefetch begin. A bucket without a key
// has been filling since the history began. A share of the rate and the burst is left to absent
// replicas. When one of those has come back the bucket is empty, but tokens granted ahead are
// still owed. Prefetches are counted by the minute in which they began, for 60 more minutes. Neither
// key has a TTL, as the server may evict keys that have one.
const takeScript = `
local rate, burst, calls, spare, hour, ahead = unpack(ARGV)
local t = redis.call('TIME')
local now = t[1] * 1000 + t[2] / 1000
local all, there = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'), 0
for i = 2, #all, 2 do if now - all[i] <= tonumber(ARGV[7]) then there = there + 1 end end
if there == 0 then return redis.error_reply('no replica has been counted') end
there = there / (#all / 2)

local minute, begun, counts = math.floor(now / 60000), 0, ''
if tonumber(hour) > 0 then
	local first, this = nil, 1
	for m, n in string.gmatch(redis.call('GET', KEYS[5]) or '', '(%d+):(%d+)') do
		if minute - m <= 60 then begun, first = begun + n, first or m end
		if tonumber(m) == minute then this = n + 1 elseif minute - m <= 60 then counts = counts .. m .. ':' .. n .. ' ' end
	end
	if begun >= tonumber(hour) then return {0, '0', math.ceil((first + 61) * 60000 - now)} end
	counts = counts .. string.format('%.0f:%.0f', minute, this)
end

local given, left = 1, 0
if tonumber(rate) > 0 then
	local at, tokens = string.match(redis.call('GET', KEYS[4]) or '', '(%S+) (%S+)')
	at, tokens = tonumber(at or redis.call('GET', KEYS[3])), tonumber(tokens or 0)
	local came = tonumber(redis.call('GET', KEYS[2]) or 0)
	if came >= at then at, tokens = came, math.min(0, tokens + (came - at) * rate / 1000 * there) end
	tokens = math.min(math.max(1, burst * there), tokens + math.max(0, now - at) * rate / 1000 * there)
	if tonumber(calls) > 0 then given = math.max(0, math.min(calls, math.floor(tokens + rate * ahead)))
	elseif tokens < tonumber(spare) then given = 0 end
	left = tokens - given
	redis.call('SET', KEYS[4], string.format('%.3f %.9f', now, left))
end
if given > 0 and tonumber(hour) > 0 then redis.call('SET', KEYS[5], counts) end
return {given, string.format('%.9f', left), 0}`

// Take is a [limit.SharedLimits].
func (s *Store) Take(a limit.TokenRequest) (g limit.Grant, err error) {
	host := digest(a.Host)
	number := func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
	got, err := s.roundTrip(s.ctx, func(c rueidis.Client, history string) rueidis.Completed {
		return c.B().Eval().Script(takeScript).Numkeys(5).Key(replicasKey, returnedKey, history+"open", history+"l:"+host, history+"h:"+host).
			Arg(number(a.Rate), strconv.Itoa(a.Burst), strconv.Itoa(a.Calls), number(a.MinTokens), strconv.Itoa(a.MaxPerHour),
				number(limit.MaxAhead.Seconds()), s.presenceTTL()).Build()
	})
	if got.results == nil { // a young history will do
		return g, err
	}
	parts, err := got.results[0].AsFloatSlice()
	if err != nil {
		return g, err
	}
	return limit.Grant{Tokens: int(parts[0]), Left: parts[1], QuotaWait: time.Duration(parts[2]) * time.Millisecond}, nil
}
