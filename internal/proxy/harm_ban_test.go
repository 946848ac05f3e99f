package proxy_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/proxy"
)

// bouncer is a server that allows ten concurrent calls. If there are more, the last one and all
// calls within the next minute fail.
type bouncer struct {
	*foe
	until time.Time
	bans  int
	ours  int // bans while a prefetch was running
}

func newBouncer(takes time.Duration) *bouncer {
	b := &bouncer{}
	b.foe = newFoe(func(v *visit) reply {
		if b.bounces(v) {
			return reply{result: complained("go away")}
		}
		v.sleeps(takes)
		return reply{result: v.told()}
	})
	return b
}

func (b *bouncer) bounces(v *visit) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if v.came.Before(b.until) {
		return true
	}
	if v.beside <= 10 {
		return false
	}
	b.until = v.came.Add(time.Minute)
	b.bans++
	if v.prefetches > 0 {
		b.ours++
	}
	return true
}

// The proxy does not know how many concurrent calls a host allows. It makes at most four
// prefetches at a time to one host, for all sessions together. So prefetches exceed the limit only
// if the clients' calls alone come within four of it. The forty sessions do that, so that case
// asserts nothing about bans. If the limit is configured, prefetches leave half of it free, and
// calls wait.
func TestHarmBan(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		sessions   int
		pages      int // per session
		rules      map[string]limit.Rule
		prefetches int  // maximum at a time
		near       bool // the clients' calls alone come within four of the limit of ten
	}{
		{"1 session", 1, 4, nil, 4, false},
		{"4 sessions", 4, 4, nil, 4, false},
		{"40 sessions", 40, 1, nil, 4, true},
		{"40 sessions under a rule", 40, 1, map[string]limit.Rule{host: {Concurrency: 10}}, 5, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			run := func(o proxy.Options) (b *bouncer) {
				bubble.Test(t, func(t *testing.T) {
					b = newBouncer(400 * time.Millisecond)
					d := beset(t, b.foe, o)
					var guests []*guest
					for range test.sessions {
						guests = append(guests, d.enter())
					}
					sideBySide(guests, func(i int, g *guest) {
						g.wanders(rand.New(rand.NewPCG(uint64(i), 10)), i*1000, soak(test.pages))
					})
				})
				return b
			}
			o := defaults(t, listing(t)...)
			o.Limits = test.rules
			off, on := run(withoutPrefetch(o)), run(o)
			switch n := atOnce(on.ledger()); {
			case n == 0:
				t.Error("nothing was prefetched")
			case n > test.prefetches:
				t.Errorf("%d prefetches at once, want at most %d", n, test.prefetches)
			}
			if off.bans+on.bans > 0 && !test.near {
				t.Errorf("banned %d times, %d of them during prefetches, and %d times without prefetching", on.bans, on.ours, off.bans)
			}
		})
	}
}

// wanders plays a session with random pauses.
func (g *guest) wanders(r *rand.Rand, from, pages int) {
	pause := func() { time.Sleep(10*time.Millisecond + time.Duration(r.ExpFloat64()*float64(3*time.Second))) }
	for p := range pages {
		pause()
		g.call("list", page(from+p+1))
		for i := range perPage {
			if r.IntN(2) == 0 {
				pause()
				g.call("get", thing(from+p+1, i))
			}
		}
	}
}

// A client makes eight concurrent calls to a host that allows ten. With three prefetches that is
// one too many, and the error texts do not say why. The bans end all the same: a prefetch that is
// followed by errors is not repeated, and wasted prefetches lower the level. Only a configured
// limit prevents the first bans.
func TestHarmBanOfMany(t *testing.T) {
	t.Parallel()
	const pages = 20
	for _, test := range []struct {
		name  string
		rules map[string]limit.Rule
		most  int // maximum number of bans
	}{
		{"without a rule", nil, 6},
		{"under a rule", map[string]limit.Rule{host: {Concurrency: 10}}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			run := func(o proxy.Options) (b *bouncer) {
				bubble.Test(t, func(t *testing.T) {
					b = newBouncer(2 * time.Second)
					beset(t, b.foe, o).enter().bursts(soak(pages))
				})
				return b
			}
			o := defaults(t, listing(t)...)
			o.Limits = test.rules
			off, on := run(withoutPrefetch(o)), run(o)
			if len(early(on.ledger())) == 0 {
				t.Error("nothing was prefetched")
			}
			if off.bans > 0 || on.bans > test.most {
				t.Errorf("banned %d times, and %d times without prefetching; want at most %d", on.bans, off.bans, test.most)
			}
		})
	}
}

// bursts lists a page, makes eight concurrent calls that are not predictable, and then reads two
// items of the page.
func (g *guest) bursts(pages int) (all []answered) {
	for p := range pages {
		g.call("list", page(p+1))
		time.Sleep(time.Second)
		var open []sent
		for i := range 8 {
			open = append(open, g.begin("get", thing(100_000+p, i)))
		}
		for _, s := range open {
			all = append(all, s.wait())
		}
		for i := range 2 {
			time.Sleep(3 * time.Second)
			all = append(all, g.call("get", thing(p+1, i)))
		}
		time.Sleep(3 * time.Second)
	}
	return all
}

// If a server runs calls concurrently, no call waits for another, and no harm is counted.
func TestHarmNone(t *testing.T) {
	t.Parallel()
	const takes = 2 * time.Second
	bubble.Test(t, func(t *testing.T) {
		f := newFoe(taking(takes))
		d := beset(t, f, defaults(t, listing(t)...))
		for i, a := range d.enter().bursts(soak(40)) {
			if a.took > takes {
				t.Errorf("call %d: took %v", i, a.took)
			}
		}
		if st := d.proxy.Stats().Prefetch; st.Harm.ForegroundWaitMS > 0 || st.Issued == 0 {
			t.Errorf("%v ms of waiting were counted, but no call waited; %d prefetches", st.Harm.ForegroundWaitMS, st.Issued)
		}
	})
}
