package proxy_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/proxy"
)

// pause draws the time until a client's next call.
type pause func(r *rand.Rand) time.Duration

func thoughtful(r *rand.Rand) time.Duration {
	return time.Duration(4 * math.Exp(0.8*r.NormFloat64()) * float64(time.Second))
}

func hasty(r *rand.Rand) time.Duration {
	return 300*time.Millisecond + time.Duration(r.Float64()*0.7*float64(time.Second))
}

// reader is the result of a session that reads lists, and sometimes their items.
type reader struct {
	calls, early int           // calls of get; those that a prefetch answered
	other        time.Duration // total latency of the other calls
	least        time.Duration // what that would be without prefetches
}

// reads plays a session that makes one call at a time.
func (d *ordeal) reads(g *guest, r *rand.Rand, think pause, pages int, right float64) (out reader) {
	for p := range pages {
		g.call("list", page(p+1))
		for i := range perPage {
			time.Sleep(think(r))
			arguments := thing(1000+p, i)
			if r.Float64() < right {
				arguments = thing(p+1, i)
			}
			out.calls++
			g.call("get", arguments)
		}
		time.Sleep(think(r))
	}
	synctest.Wait()
	out.early = int(d.proxy.Stats().Prefetch.Used)
	return out
}

// A process that may be serial is prefetched from all the same. If a client makes one call at a
// time, its calls overlap only with prefetches, so nothing but prefetches shows whether the server
// is serial. The cost for calls that no prefetch answers is bounded, and it is zero if the server
// turns out to be parallel.
func TestHarmUnknown(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		think  pause
		serial bool
		most   float64 // maximum latency of the other calls, as a multiple of that without prefetches
		least  float64 // minimum share of the calls that a prefetch answers
	}{
		{"serial, thoughtful", thoughtful, true, 1.02, 0.1},
		{"serial, hasty", hasty, true, 1.05, 0},
		{"parallel, thoughtful", thoughtful, false, 1.001, 0.15},
		{"parallel, hasty", hasty, false, 1.001, 0.35},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var sum reader
			for _, takes := range []time.Duration{600 * time.Millisecond, time.Second, 3 * time.Second} {
				for seed := range uint64(slice(2, 60)) {
					bubble.Test(t, func(t *testing.T) {
						var q *queue
						var f *foe
						if q = newQueue(takes, false); tt.serial {
							f = q.foe
						} else {
							f = newFoe(taking(takes))
						}
						d := beset(t, f, defaults(t, listing(t)...))
						g := d.enter()
						proxy.TakeForProcess(d.proxy, "foe")
						one := d.reads(g, rand.New(rand.NewPCG(seed, uint64(takes))), tt.think, 30, 0.5)
						sum.calls += one.calls
						sum.early += one.early
						for _, v := range f.ledger() {
							if !v.early {
								sum.other += v.went.Sub(v.came)
								sum.least += takes
							}
						}
					})
				}
			}
			grew, share := float64(sum.other)/float64(sum.least), float64(sum.early)/float64(sum.calls)
			t.Logf("other calls took %.4f times what they take alone; %.3f were answered by a prefetch", grew, share)
			if grew > tt.most || share < tt.least {
				t.Errorf("other calls took %.4f times what they take alone, %.3f of the calls were answered by a prefetch; want at most %.3f, and at least %.2f", grew, share, tt.most, tt.least)
			}
		})
	}
}
