package valkey

import (
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// countScript notes that a replica is there, forgets those that were not for a while, and
// returns how many there are.
const countScript = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
return redis.call('ZCARD', KEYS[1])`

// Count calls changed with the number of replicas, this one included, when it is first known
// and whenever it is another one. While the server cannot be reached the last number stays.
func (s *Store) Count(changed func(n int)) {
	s.running.Go(func() {
		tick := time.NewTicker(s.options.Lease / 4)
		defer tick.Stop()
		for last := 0; ; {
			if n, ok := s.replicas(); ok && n != last {
				last = n
				changed(n)
			}
			select {
			case <-s.ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
}

// replicas says that this replica is there, and how many there are.
func (s *Store) replicas() (n int, ok bool) {
	got, _ := s.exchange(s.ctx, func(c rueidis.Client, _ string) rueidis.Completed {
		return c.B().Eval().Script(countScript).Numkeys(1).Key(prefix+"replicas").Arg(s.id, strconv.FormatInt(s.options.Lease.Milliseconds(), 10)).Build()
	})
	if got.results == nil { // a new history may be relied on for this
		return 0, false
	}
	count, err := got.results[0].AsInt64()
	return int(count), err == nil
}
