package proxy_test

import (
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
	return true
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
