package valkey

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

// mostFigures is how long (bytes) a text may be that a replica publishes.
const maxFigures = 4 << 20

// Publish has the other replicas know what figures returns, anew four times within Lease. What
// is longer than 4 MiB stays unknown.
func (s *Store) Publish(figures func() []byte) {
	s.running.Go(func() {
		tick := time.NewTicker(s.options.Lease / 4)
		defer tick.Stop()
		for {
			if text := figures(); len(text) > 0 && len(text) <= maxFigures {
				_, _ = s.roundTrip(s.ctx, func(c rueidis.Client, _ string) rueidis.Completed {
					return c.B().Set().Key(prefix + "figures:" + s.id).Value(rueidis.BinaryString(text)).PxMilliseconds(s.options.Lease.Milliseconds()).Build()
				})
			}
			select {
			case <-s.ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
}

// publishedScript returns what the replicas but one have published.
const publishedScript = `
local all = {}
for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
	local text = id ~= ARGV[1] and redis.call('GET', ARGV[2] .. id)
	if text then table.insert(all, text) end
end
return all`

// Published is what the other replicas have published, of those that [Store.Count] has counted.
// While the server cannot be reached there is none.
func (s *Store) Published(ctx context.Context) []string {
	got, _ := s.roundTrip(ctx, func(c rueidis.Client, _ string) rueidis.Completed {
		return c.B().Eval().Script(publishedScript).Numkeys(1).Key(replicasKey).Arg(s.id, prefix+"figures:").Build()
	})
	if got.results == nil { // a new history may be relied on for this
		return nil
	}
	all, _ := got.results[0].AsStrSlice()
	return all
}
