package speculate_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"mcpschedd/internal/speculate"
)

// shadowed returns the calls of a client with a prefetch in each pause. A pause is shorter than a
// prefetch, so each call but the first arrives while one is in progress. The ends are computed for
// a serial or a parallel server.
func shadowed(r *rand.Rand, tools []float64, noise float64, serial bool) []*work {
	var all []*work
	var prefetch *work
	now, free := 0.0, 0.0
	put := func(tool string, prefetch bool, at, takes float64) *work {
		c := &work{tool: tool, prefetch: prefetch, arrives: at, takes: takes * math.Exp(noise*r.NormFloat64())}
		c.ends = at + c.takes
		if serial {
			c.ends = max(free, at) + c.takes
			free = c.ends
		}
		all = append(all, c)
		return c
	}
	for range 60 {
		i := r.IntN(len(tools))
		c := put(fmt.Sprint(i), false, now, tools[i])
		if prefetch == nil || prefetch.ends <= c.ends { // there is one prefetch at a time
			prefetch = put("prefetch", true, c.ends+0.001, 1)
		}
		now = c.ends + 0.3*math.Exp(noise*r.NormFloat64())
	}
	slices.SortStableFunc(all, func(a, b *work) int { return cmp.Compare(a.arrives, b.arrives) })
	return all
}

// waits returns how long c has waited for prefetches at a serial server, in ms.
func waits(c *work, calls []*work) (ms float64) {
	for _, g := range calls {
		if g.prefetch && !c.prefetch && g.ends < c.ends {
			ms += 1000 * max(0, g.ends-max(c.arrives, g.ends-g.takes))
		}
	}
	return ms
}

// TestConcurrencyShadowed: if each call arrives while a prefetch is in progress, the upstream is
// never idle and no usual latency is known. A serial server is recognised all the same, and the
// waits are counted. At a parallel server few waits are counted.
func TestConcurrencyShadowed(t *testing.T) {
	quick, slow := []float64{0.05, 0.2, 0.1, 0.4}, []float64{0.9, 0.5, 1.5, 0.7}
	for _, tt := range []struct {
		name    string
		tools   []float64
		noise   float64
		counted float64 // share of the waits at a serial server that is counted, at least
		false   float64 // waits counted at a parallel server in 60 calls, at most
	}{
		{"one quick tool, exactly", quick[:1], 0, 0.95, 0},
		{"one quick tool", quick[:1], 0.25, 0.95, 0.25},
		{"two quick tools", quick[:2], 0.25, 0.9, 0.4},
		{"four quick tools, exactly", quick, 0, 0.8, 0},
		{"four quick tools", quick, 0.25, 0.8, 0.5},
		{"four quick tools, any time", quick, 0.8, 0.6, 1.2},
		{"one slow tool", slow[:1], 0.1, 0.95, 0.1},
		{"four slow tools", slow, 0.25, 0.45, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const runs = 50
			var counted, really, accused float64
			var wrong, after int
			for seed := range uint64(runs) {
				for _, serial := range []bool{true, false} {
					calls := shadowed(rand.New(rand.NewPCG(seed, 1)), tt.tools, tt.noise, serial)
					d, before := speculate.NewScheduler(speculate.Slots{}), 0.0
					watchConcurrency(d, calls, func(c *work) {
						_, got := d.Harmed(speculate.ForegroundWait)
						switch {
						case !serial && got > before:
							accused++
						case serial:
							really += waits(c, calls)
							counted += got - before
						}
						before = got
						if after++; serial && known(d) == speculate.Parallel {
							wrong++
						}
					})
				}
			}
			t.Logf("%.3f of the waits counted; %.2f wrongly; estimated as parallel after %d of %d calls", counted/really, accused/runs, wrong, after)
			if got := counted / really; got < tt.counted || got > 1.01 {
				t.Errorf("got %.3f of the waits, want %.2f", got, tt.counted)
			}
			if got := accused / runs; got > tt.false {
				t.Errorf("parallel: got %.2f waits of 60 calls, want at most %.2f", got, tt.false)
			}
			if wrong > after*3/100 {
				t.Errorf("a serial server is estimated as parallel after %d of %d calls", wrong, after)
			}
		})
	}
}
