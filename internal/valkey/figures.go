package valkey

import (
	"context"

	"github.com/redis/rueidis"
)

// maxFigures is the largest text, in bytes, that a replica publishes.
const maxFigures = 4 << 20

// PublishFigures publishes the result of figures to the other replicas, four times per Lease. Texts
// over 4 MiB are not published.
func (s *Store) PublishFigures(figures func() []byte) {
	s.every(s.options.Lease/4, func() {
		if text := figures(); len(text) > 0 && len(text) <= maxFigures {
			_, _ = s.roundTrip(s.ctx, func(c rueidis.Client, _ string) rueidis.Completed {
				return c.B().Set().Key(prefix + "figures:" + s.id).Value(rueidis.BinaryString(text)).PxMilliseconds(s.options.Lease.Milliseconds()).Build()
			})
		}
	})
}

// figuresScript returns what the other replicas have published.
const figuresScript = `
local all = {}
for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
	local text = id ~= ARGV[1] and redis.call('GET', ARGV[2] .. id)
	if text then table.insert(all, text) end
end
return all`

// Figures returns what the other replicas counted by [Store.WatchCount] have published. While
// the server is not reachable it returns nil.
func (s *Store) Figures(ctx context.Context) []string {
	got, _ := s.roundTrip(ctx, func(c rueidis.Client, _ string) rueidis.Completed {
		return c.B().Eval().Script(figuresScript).Numkeys(1).Key(replicasKey).Arg(s.id, prefix+"figures:").Build()
	})
	if got.results == nil { // a young history will do
		return nil
	}
	all, _ := got.results[0].AsStrSlice()
	return all
}
