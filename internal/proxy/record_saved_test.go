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

// takes is how long a call takes a server, always the same for the same call.
func takes(v *visit, mean time.Duration) time.Duration {
	h := fnv.New64a()
	h.Write([]byte(v.tool + v.arguments))
	r := rand.New(rand.NewPCG(h.Sum64(), 1))
	return time.Duration(r.ExpFloat64() * float64(mean))
}

// meanders is a session that the seed alone decides: lists and things of them, some
// twice, some of a list that it has not read, writes, several calls at once. lists is
// how it reads a page; nil: it asks, and waits.
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

// withdrawing reads a page, and meanwhile begins a long call and withdraws it: its server
// goes on with it all the same.
func withdrawing(g *guest, r *rand.Rand, p int) {
	list := g.begin("list", page(p))
	time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
	long := g.begin("long", thing(p, 0))
	time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
	long.cancel()
	list.wait()
}

// besides reads a page, and meanwhile makes a long call whose limits are another host's.
func besides(g *guest, r *rand.Rand, p int) {
	list := g.begin("list", page(p))
	time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
	long := g.begin("long", thing(p, 0))
	list.wait()
	long.wait()
}

// stubborn is a server that works on one call at a time, whether anybody still waits for
// it or not. A long one takes it much longer.
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

// What a call is said not to have waited is never more than what the same call waits
// in the same session without prefetching, and together not much less than what calls wait
// less: each claims the time since its server was done with another call, which may have
// been shorter than that one's. Behind calls that were withdrawn nothing can be known. Of a server that grows slower by what is made
// early beside it it cannot be known how long one call would have taken: there it holds of
// all calls of a session together.
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
		limit limit.Rule       // of the server's host; zero: none
		loose bool             // it holds of the sum only
		least float64          // share of what calls wait less that must be said
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
						time.Sleep(time.Minute) // until the server is done with what was withdrawn
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
					if on[i].UseOf == 0 || off[i].Disposition == record.Failed { // a client that withdraws it does not say how long it would have taken
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
