package proxy_test

import (
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/record"
)

// impatient is how long the client of these tests waits for an answer.
const impatient = time.Minute

// browses plays a client that lists pages and reads items of them, with pauses of think. It
// returns how each call was answered. A call that takes longer than impatient is cancelled.
func (g *guest) browses(from, pages int, think time.Duration) (all []answered) {
	ask := func(tool, arguments string) {
		s := g.begin(tool, arguments)
		late := time.AfterFunc(impatient, s.cancel)
		all = append(all, s.wait())
		late.Stop()
		time.Sleep(think)
	}
	for p := from; p < from+pages; p++ {
		ask("list", page(p+1))
		for i := range perPage {
			ask("get", thing(p+1, i))
		}
	}
	return all
}

// apart plays the same session twice, each time in a bubble of its own: with these options, and
// with prefetching off.
func apart(t *testing.T, o proxy.Options, think time.Duration, serve func(*visit) reply) (on, off []answered, st proxy.Stats) {
	t.Helper()
	each := func(o proxy.Options) (all []answered) {
		bubble.Test(t, func(t *testing.T) {
			d := beset(t, newFoe(serve), o)
			all = d.enter().browses(0, soak(8), think)
			st = d.proxy.Stats()
		})
		return all
	}
	off = each(withoutPrefetch(o))
	on = each(o)
	return on, off, st
}

// Prefetches do not make a slow server slower.
func TestHarmSlow(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		takes func(v *visit) time.Duration
		how   string // a disposition that must occur
	}{
		{"less than a model thinks", func(*visit) time.Duration { return 2 * time.Second }, "hit"},
		{"more than a model thinks", func(*visit) time.Duration { return 5 * time.Second }, "joined"},
		{"nearly as long as a prefetch lives", func(*visit) time.Duration { return 29 * time.Second }, "joined"},
		{"longer than a prefetch lives", func(*visit) time.Duration { return 40 * time.Second }, "joined"},
		{"for ever, now and then", func(v *visit) time.Duration {
			if v.arguments == thing(2, 1) || v.arguments == thing(4, 0) {
				return 1000 * time.Hour
			}
			return 2 * time.Second
		}, "not answered"},
	} {
		t.Run(test.name, func(t *testing.T) {
			on, off, _ := apart(t, defaults(t, listing(t)...), 3*time.Second, after(test.takes))
			if seen := noSlower(t, on, off, 0); seen[test.how] == 0 {
				t.Errorf("got %v, want some %s", seen, test.how)
			}
		})
	}
}

// A prefetch that hangs keeps its slot for at most 30 s. Then others can start.
func TestHarmHang(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		f := newFoe(delaying(isGet, 1000*time.Hour))
		d := beset(t, f, defaults(t, listing(t)...))
		g := d.enter()
		g.call("list", page(1))
		for range perPage { // sequential, so that the server's concurrency stays unknown
			time.Sleep(15 * time.Second)
			if n := d.proxy.Stats().Prefetch.Scheduler.UnderWay; n != 1 {
				t.Errorf("%d slots are taken, want 1", n)
			}
			time.Sleep(15*time.Second + 100*time.Millisecond)
		}
		st := d.proxy.Stats()
		if st.Prefetch.Scheduler.UnderWay != 0 || st.Store.Flights != 0 || st.Prefetch.Wasted["dropped"] != perPage {
			t.Errorf("%d slots are taken, %d flights, %d prefetches dropped, want 0, 0 and %d", st.Prefetch.Scheduler.UnderWay, st.Store.Flights, st.Prefetch.Wasted["dropped"], perPage)
		}
		for _, v := range early(f.ledger()) {
			if stayed := v.went.Sub(v.came); stayed > 30*time.Second {
				t.Errorf("a prefetch of %s was open at the server for %v", v.arguments, stayed)
			}
		}
		g.call("list", page(2))
		time.Sleep(time.Second)
		if n := len(early(f.ledger())); n != perPage+1 {
			t.Errorf("%d prefetches came, want %d and the next one", n, perPage)
		}
	})
}

// noSlower compares the calls with the same calls without prefetching: fetched ones took exactly
// as long, and all others at most as long, plus more.
func noSlower(t *testing.T, on, off []answered, more time.Duration) (seen map[string]int) {
	t.Helper()
	seen = make(map[string]int)
	if len(on) != len(off) {
		t.Fatalf("%d calls were made, and %d without prefetching", len(on), len(off))
	}
	for i := range on {
		how := on[i].how()
		seen[how]++
		if took := on[i].took; took > off[i].took+more || how == "fetched" && took < off[i].took {
			t.Errorf("call %d, %s: took %v, and %v without prefetching", i, how, took, off[i].took)
		}
	}
	return seen
}

// A server delays prefetches or never answers them, and answers calls at once. A call that joins a
// prefetch waits little longer than calls usually take or, while that is unknown, than the tool's
// model says. Then the call itself is sent, and its wait counts as harm.
func TestHarmSlowForPrefetchesOnly(t *testing.T) {
	t.Parallel()
	const quick, patient = 400 * time.Millisecond, 1800 * time.Millisecond
	for _, test := range []struct {
		name         string
		takes, think time.Duration
	}{
		{"half a minute", 25 * time.Second, 3 * time.Second},
		{"half a minute, in haste", 25 * time.Second, 100 * time.Millisecond},
		{"for ever", 1000 * time.Hour, 3 * time.Second},
		{"for ever, in haste", 1000 * time.Hour, 100 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			on, off, st := apart(t, defaults(t, listing(t)...), test.think, func(v *visit) reply {
				if v.early {
					v.sleeps(test.takes)
				} else {
					v.sleeps(quick)
				}
				return reply{result: v.told()}
			})
			noSlower(t, on, off, patient)
			var lost time.Duration
			for i := range on {
				lost += max(0, on[i].took-off[i].took)
			}
			counted := time.Duration(st.Prefetch.Harm.ForegroundWaitMS * float64(time.Millisecond))
			if (counted - lost).Abs() > lost/20 {
				t.Errorf("calls waited %v for prefetches, and %v was counted", lost, counted)
			}
			if most := 2*patient + time.Duration(len(on))*quick/20; lost > most {
				t.Errorf("real calls waited %v for prefetches, want at most %v", lost, most)
			}
		})
	}
}

// Hints and inlined answers delay an answer no longer than configured, however long the prefetches take.
func TestHarmSlowDelivery(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		delivery   string
		wait, more time.Duration
	}{
		{"hint", 0, 0}, // it names the prefetches that have started, and waits for none
		{"inline", 150 * time.Millisecond, 150 * time.Millisecond},
	} {
		t.Run(test.delivery, func(t *testing.T) {
			o := defaults(t, listing(t)...)
			o.Enrichment.Delivery, o.Enrichment.Wait = test.delivery, test.wait
			on, off, _ := apart(t, o, 3*time.Second, taking(2*time.Second))
			noSlower(t, on, off, test.more)
		})
	}
}

// A call that has waited for a prefetch in vain is made by itself. No later call gets the answer of
// that prefetch, which is older than the one that the client has.
func TestHarmSlowIsNotServedLater(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		d := beset(t, newFoe(delaying(isPrefetch, 5*time.Second)), defaults(t, listing(t)...))
		g := d.enter()
		g.call("list", page(1))
		time.Sleep(time.Second)
		if a := g.call("get", thing(1, 0)); a.how() != "fetched" || a.took == 0 {
			t.Errorf("got %s after %v, want fetched after a wait", a.how(), a.took)
		}
		time.Sleep(5 * time.Second)
		if a := g.call("get", thing(1, 0)); a.how() != "fetched" {
			t.Errorf("later: got %s, want fetched", a.how())
		}
	})
}

// A call that joins a prefetch which waits for its host waits no longer than its server's timeout, and
// then as long as any call.
func TestHarmSlowHost(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		const timeout = 5 * time.Second
		o := defaults(t, listing(t)...)
		o.Limits = map[string]limit.Rule{host: {Rate: 0.01, Burst: 1}}
		o.Upstreams[0].Timeout = timeout
		d := beset(t, newFoe(nil), o)
		g := d.enter()
		g.call("list", page(1))
		time.Sleep(time.Second)
		if a := g.call("get", thing(1, 0)); a.took > 2*timeout {
			t.Errorf("the call took %v", a.took)
		}
	})
}

// The servers of a process share the limits of a host. A wait there for a prefetch is counted by one of them.
func TestHarmSlowIsCountedOnce(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		o := defaults(t, listing(t)...)
		o.Limits = map[string]limit.Rule{host: {Concurrency: 2, SpeculativeShare: 0.01}}
		o.Common = proxy.NewCommon(o)
		defer o.Common.Close()
		o.Record.OnEvent = func(record.Event) {} // an account compares the events of one server with the store of both
		all := []*ordeal{beset(t, newFoe(taking(2*time.Second)), o), beset(t, newFoe(taking(2*time.Second)), o)}
		a, b := all[0].enter(), all[1].enter()
		b.call("list", page(9)) // both servers have looked at the waits once
		a.call("list", page(1))
		held := b.begin("get", thing(7, 0)) // with a's prefetch it holds both slots
		time.Sleep(500 * time.Millisecond)
		a.call("get", thing(8, 0))
		held.wait()
		for _, g := range []*guest{a, b, a, b} {
			g.call("list", page(2))
			time.Sleep(30 * time.Second)
		}
		var counted, waited float64
		for _, d := range all {
			st := d.proxy.Stats()
			counted, waited = counted+st.Prefetch.Harm.ForegroundWaitMS, float64(st.Hosts[0].HarmMS)
		}
		if waited == 0 || counted != waited {
			t.Errorf("%v ms were counted of a wait of %v ms", counted, waited)
		}
	})
}
