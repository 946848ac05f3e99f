package proxy_test

import (
	"hash/fnv"
	"math/rand/v2"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/record"
	"mcpschedd/internal/valuemodel"
)

// takes returns how long a server takes for a call; equal calls take equal times.
func takes(v *visit, mean time.Duration) time.Duration {
	h := fnv.New64a()
	h.Write([]byte(v.tool + v.arguments))
	r := rand.New(rand.NewPCG(h.Sum64(), 1))
	return time.Duration(r.ExpFloat64() * float64(mean))
}

// meanders plays a session determined by the seed: lists and items of them, some twice, some of a list that it
// has not read, writes, several concurrent calls. lists reads a page; nil makes the call and waits.
func (g *guest) meanders(seed uint64, lists func(g *guest, r *rand.Rand, p int)) {
	r := rand.New(rand.NewPCG(seed, 2))
	pause := func() { time.Sleep(time.Duration(r.ExpFloat64() * float64(time.Second))) }
	for range 12 {
		p := r.IntN(4) + 1
		if lists == nil {
			g.call("list", page(p))
		} else {
			lists(g, r, p)
		}
		for range r.IntN(4) {
			pause()
			switch r.IntN(10) {
			case 0:
				g.call("write", thing(p, 0))
			case 1:
				a, b := g.begin("get", thing(p, 0)), g.begin("get", thing(p, 1))
				a.wait()
				b.wait()
			case 2:
				g.call("get", thing(p+4, r.IntN(perPage)))
			default:
				g.call("get", thing(p, r.IntN(perPage)))
			}
		}
		pause()
	}
}

// withdrawing reads a page and meanwhile begins and cancels a long call, which the server runs to its end.
func withdrawing(g *guest, r *rand.Rand, p int) {
	list := g.begin("list", page(p))
	time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
	long := g.begin("long", thing(p, 0))
	time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
	long.cancel()
	list.wait()
}

// besides reads a page and meanwhile makes a long call to another host.
func besides(g *guest, r *rand.Rand, p int) {
	list := g.begin("list", page(p))
	time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
	long := g.begin("long", thing(p, 0))
	list.wait()
	long.wait()
}

// stubborn is a server that runs one call at a time, cancelled or not. A long call takes it much longer.
func stubborn() func(*visit) reply {
	one := make(chan struct{}, 1)
	return func(v *visit) reply {
		one <- struct{}{}
		defer func() { <-one }()
		took := takes(v, 300*time.Millisecond)
		if v.tool == "long" {
			took += 3 * time.Second
		}
		time.Sleep(took)
		return reply{result: v.told()}
	}
}

// The hidden time of a call never exceeds what the same call waits in the same session without prefetching, and
// the sum is not much less than the time that calls really wait less: each call claims the time since its server
// finished another call, which may be shorter than its own latency. Nothing can be known behind cancelled calls.
// If prefetches slow the server down, the latency of a single call is unknown, and the bound holds only for the
// sum over a session.
func TestHiddenIsWhatWouldHaveBeenWaited(t *testing.T) {
	t.Parallel()
	oneAtATime := func() func(*visit) reply {
		one := make(chan struct{}, 1)
		return func(v *visit) reply {
			one <- struct{}{}
			defer func() { <-one }()
			v.sleeps(takes(v, 500*time.Millisecond))
			return reply{result: v.told()}
		}
	}
	for _, test := range []struct {
		name  string
		long  valuemodel.Layer // of the tool long
		limit limit.Rule       // of the server's host; zero for none
		loose bool             // the bound holds only for the sum
		least float64          // minimum hidden time, as a fraction of the time saved
		serve func() func(*visit) reply
		lists func(g *guest, r *rand.Rand, p int)
	}{
		{name: "many at once", least: 0.85, serve: func() func(*visit) reply {
			return func(v *visit) reply { v.sleeps(takes(v, 800*time.Millisecond)); return reply{result: v.told()} }
		}},
		{name: "one at a time", least: 0.85, serve: oneAtATime},
		{name: "slower with every call beside", least: 0.85, loose: true, serve: func() func(*visit) reply {
			return func(v *visit) reply {
				v.sleeps(takes(v, 300*time.Millisecond) * time.Duration(v.beside))
				return reply{result: v.told()}
			}
		}},
		{name: "paced", least: 0.85, limit: limit.Rule{Rate: 1, Burst: 2, Concurrency: 2, SpeculativePerHour: 1000}, serve: func() func(*visit) reply {
			return func(v *visit) reply { v.sleeps(takes(v, 400*time.Millisecond)); return reply{result: v.told()} }
		}},
		{name: "one at a time, and what is withdrawn too", least: 0.1, long: valuemodel.Layer{Class: valuemodel.ReadOnly}, serve: stubborn, lists: withdrawing},
		{name: "one at a time, of two hosts", least: 0.85, long: valuemodel.Layer{Class: valuemodel.ReadOnly, Host: "other.test"}, serve: stubborn, lists: besides},
	} {
		t.Run(test.name, func(t *testing.T) {
			var hidden, used, saved float64
			seeds := uint64(slice(8, 600))
			for seed := range seeds {
				run := func(mode string) (calls []record.Event) {
					bubble.Test(t, func(t *testing.T) {
						o := defaults(t, append(listing(t), valuemodel.Rule{Pattern: "foe/long", Source: "test", Layer: test.long})...)
						if test.limit != (limit.Rule{}) {
							o.Limits = map[string]limit.Rule{host: test.limit}
						}
						o.Enrichment.Mode = mode
						d := beset(t, newFoe(test.serve(), tools("list", "get", "write", "long")...), o)
						d.enter().meanders(seed, test.lists)
						time.Sleep(time.Minute) // until the server has finished the cancelled calls
						calls = d.told(record.Call)
					})
					return calls
				}
				off, on := run("off"), run("on")
				if len(off) != len(on) {
					t.Fatalf("seed %d: %d calls with prefetching, %d without", seed, len(on), len(off))
				}
				sort := func(all []record.Event) []record.Event {
					byArrival(all)
					return all
				}
				off, on = sort(off), sort(on)
				var said, waited float64
				for i := range on {
					waited += off[i].LatencyMS
					if on[i].Tool != off[i].Tool {
						t.Fatalf("seed %d, call %d: %s with prefetching, %s without", seed, i, on[i].Tool, off[i].Tool)
					}
					if on[i].UseOf == 0 || off[i].Disposition == record.Failed { // the event of a cancelled call does not say how long it would have taken
						continue
					}
					used++
					said += on[i].HiddenMS
					saved += max(0, off[i].LatencyMS-on[i].LatencyMS)
					if over := on[i].HiddenMS - off[i].LatencyMS; over > 0.01 && !test.loose {
						t.Errorf("seed %d, call %d: %.3f ms are said to be hidden, %.3f are waited without prefetching", seed, i, on[i].HiddenMS, off[i].LatencyMS)
					}
				}
				hidden += said
				if said > waited {
					t.Errorf("seed %d: %.3f ms are said to be hidden, %.3f are waited without prefetching", seed, said, waited)
				}
			}
			least := test.least
			if seeds < 100 { // a few sessions scatter
				least /= 2
			}
			if share := hidden / saved; share < least {
				t.Errorf("of what calls waited less than without prefetching %.2f is said to be hidden, want at least %.2f", share, least)
			}
			if used == 0 || hidden == 0 {
				t.Errorf("%v prefetches were used and %v ms hidden, which shows nothing", used, hidden)
			}
		})
	}
}
