package speculate_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"mcpschedd/internal/speculate"
)

// work is a call at a simulated server.
type work struct {
	tool     string
	prefetch bool
	arrives  float64 // in seconds
	takes    float64 // service time in seconds
	ends     float64
}

// server computes when each call ends.
type server func(calls []*work)

func inLine(calls []*work) {
	free := 0.0
	for _, c := range calls {
		free = max(free, c.arrives) + c.takes
		c.ends = free
	}
}

// lastFirst handles one call at a time, the newest first.
func lastFirst(calls []*work) {
	var waiting []*work
	now := 0.0
	for len(calls) > 0 || len(waiting) > 0 {
		if len(waiting) == 0 {
			now = max(now, calls[0].arrives)
		}
		for len(calls) > 0 && calls[0].arrives <= now {
			waiting, calls = append(waiting, calls[0]), calls[1:]
		}
		c := waiting[len(waiting)-1]
		waiting = waiting[:len(waiting)-1]
		now += c.takes
		c.ends = now
	}
}

func sideBySide(calls []*work) {
	for _, c := range calls {
		c.ends = c.arrives + c.takes
	}
}

// two handles two calls at a time.
func two(calls []*work) {
	var free [2]float64
	for _, c := range calls {
		slices.Sort(free[:])
		free[0] = max(free[0], c.arrives) + c.takes
		c.ends = free[0]
	}
}

// shared handles all calls at once, more slowly the more there are.
func shared(calls []*work) {
	left := make(map[*work]float64)
	for now := 0.0; len(calls) > 0 || len(left) > 0; {
		next := math.Inf(1)
		if len(calls) > 0 {
			next = calls[0].arrives
		}
		for _, l := range left {
			next = min(next, now+l*float64(len(left)))
		}
		for c, l := range left {
			if l -= (next - now) / float64(len(left)); l < 1e-9 {
				c.ends = next
			}
			left[c] = l
		}
		for c, l := range left {
			if l < 1e-9 {
				delete(left, c)
			}
		}
		if now = next; len(calls) > 0 && calls[0].arrives <= now {
			left[calls[0]] = calls[0].takes
			calls = calls[1:]
		}
	}
}

// traffic returns the calls of a client: one or a few at a time, with noisy service times (noise
// is the standard deviation of the logarithm), and then a pause with or without a prefetch.
func traffic(r *rand.Rand, turns int, noise float64) []*work {
	tools := []float64{0.01, 0.08, 0.3, 1.2}
	var all []*work
	now := 0.0
	add := func(at float64, prefetch bool) {
		i := r.IntN(len(tools))
		all = append(all, &work{tool: fmt.Sprint(i), prefetch: prefetch, arrives: at, takes: tools[i] * math.Exp(noise*r.NormFloat64())})
	}
	for range turns {
		for range []int{1, 1, 1, 1, 2, 3, 6}[r.IntN(7)] {
			add(now+0.002*r.Float64(), false)
		}
		if r.IntN(2) == 0 {
			add(now+1.5*r.Float64(), true)
		}
		now += 0.5 + 8*r.Float64()
	}
	slices.SortFunc(all, func(a, b *work) int { return cmp.Compare(a.arrives, b.arrives) })
	return all
}

// sharedBy returns the calls of several clients, each with pauses of 7 s.
func sharedBy(r *rand.Rand, agents, calls int, noise float64) []*work {
	var all []*work
	now := 0.0
	for range calls {
		now += r.ExpFloat64() * 7 / float64(agents)
		i := r.IntN(2)
		all = append(all, &work{tool: fmt.Sprint(i), prefetch: r.IntN(5) == 0, arrives: now, takes: []float64{0.3, 0.5}[i] * math.Exp(noise*r.NormFloat64())})
	}
	return all
}

// moment is the start or end of a call.
type moment struct {
	at   float64
	id   int
	ends bool
}

// watchConcurrency records the calls at a scheduler, and calls each after every end.
func watchConcurrency(d *speculate.Scheduler, calls []*work, each func(end *work)) {
	var all []moment
	for i, c := range calls {
		all = append(all, moment{c.arrives, i, false}, moment{c.ends, i, true})
	}
	slices.SortStableFunc(all, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	for _, m := range all {
		c, now := calls[m.id], start.Add(time.Duration(m.at*float64(time.Second)))
		if !m.ends {
			var of *speculate.Claim
			if c.prefetch {
				of = d.Anonymous()
			}
			began(d, uint64(m.id), c.tool, of, now)
			continue
		}
		ended(d, uint64(m.id), now)
		each(c)
	}
}
