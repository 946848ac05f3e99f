package proxy_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/speculate"
)

// hinted are tools of which their server says that they only read.
func hinted(names ...string) (tools []string) {
	for _, name := range names {
		tools = append(tools, `{"name":"`+name+`","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`)
	}
	return tools
}

// trusting are options under which that is believed, and what follows is known.
func trusting(t testing.TB) proxy.Options {
	t.Helper()
	rules := listing(t)[1:]
	rules[0].Layer.Class = ""
	o := defaults(t, rules...)
	o.Upstreams[0].Model.Trust = true
	return o
}

// newLiar makes a server of which every call of get changes what the next one says,
// though it says that it only reads. honest is one that means it.
func newLiar(honest bool) *foe {
	var calls atomic.Int64
	return newFoe(func(v *visit) reply {
		v.sleeps(400 * time.Millisecond)
		if n := calls.Add(1); v.tool == "get" && !honest {
			return reply{result: said(fmt.Sprint(n))}
		}
		return reply{result: v.told()}
	}, hinted("list", "get")...)
}

// session is how many prefetches one session may have under way.
const session = 3

// A server's own word that a tool only reads is tested: what was prefetched is compared
// with what is asked for. What differs bars the tool: no prefetch comes after that, and
// none is ever served.
func TestHarmLiar(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		f := newLiar(false)
		d := beset(t, f, trusting(t))
		answers := d.enter().browses(0, 6, 3*time.Second)
		for i, a := range answers {
			if a.how() != "fetched" {
				t.Errorf("call %d: got %s", i, a.how())
			}
		}
		unproven(t, f.ledger())
		if n := len(early(f.ledger())); n == 0 || n > session {
			t.Errorf("%d prefetches were made, want at least one and no more than a session may begin at once", n)
		}
		st := d.proxy.Stats().Prefetch
		if st.Wasted["compared"] == 0 || st.Used != 0 || st.Declined["not_speculatable"] == 0 {
			t.Errorf("got %+v, want prefetches that were compared, none used, and later ones declined", st)
		}
	})
}

// unproven sees to it that nothing was prefetched at get after one of its prefetches had
// been compared with what was asked for.
func unproven(t *testing.T, ledger []visit) {
	t.Helper()
	var compared time.Time
	prefetched := make(map[string]bool)
	for _, v := range ledger {
		switch {
		case v.tool != "get":
		case v.early && !compared.IsZero() && v.came.After(compared.Add(50*time.Millisecond)):
			t.Errorf("a prefetch came %v after one had been compared", v.came.Sub(compared))
		case v.early:
			prefetched[v.arguments] = true
		case prefetched[v.arguments] && compared.IsZero():
			compared = v.went
		}
	}
	if compared.IsZero() {
		t.Error("nothing was compared")
	}
}

// A tool that does what its server says is served from the comparison on that makes
// as many as it needs, and no sooner.
func TestHarmHonest(t *testing.T) {
	t.Parallel()
	const comparisons = 5
	bubble.Test(t, func(t *testing.T) {
		f := newLiar(true)
		d := beset(t, f, trusting(t))
		g := d.enter()
		for p := range 6 {
			for i, a := range g.browses(p, 1, 3*time.Second) {
				if a.how() == "hit" && d.proxy.Stats().Prefetch.Wasted["compared"] != comparisons {
					t.Errorf("page %d, call %d was served after %d comparisons", p, i, d.proxy.Stats().Prefetch.Wasted["compared"])
				}
			}
		}
		if st := d.proxy.Stats().Prefetch; st.Used == 0 || st.Wasted["compared"] != comparisons {
			t.Errorf("%d prefetches used and %d compared, want some and %d", st.Used, st.Wasted["compared"], comparisons)
		}
	})
}

// kept is where what is learned outlives a proxy.
type kept struct {
	mu    sync.Mutex
	state speculate.State
}

func (k *kept) learned(merge func(speculate.State) (speculate.State, error)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	next, err := merge(k.state)
	k.state = next
	return err
}

// What was found to lie stays barred: in the next process, and after a reload.
func TestHarmLiarStaysBarred(t *testing.T) {
	t.Parallel()
	t.Run("in the next process", func(t *testing.T) {
		var k kept
		o := trusting(t)
		o.Upstreams[0].Learned = k.learned
		for nth := range 3 {
			bubble.Test(t, func(t *testing.T) {
				f := newLiar(false)
				beset(t, f, o).enter().browses(0, 6, 3*time.Second)
				switch n := len(early(f.ledger())); {
				case nth == 0 && n == 0:
					t.Error("nothing was prefetched at first")
				case nth > 0 && n > 0:
					t.Errorf("process %d: %d prefetches", nth, n)
				}
			})
		}
	})
	for name, learned := range map[string]speculate.Storage{"after a reload": nil, "after a reload, kept": new(kept).learned} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				o := trusting(t)
				o.Upstreams[0].Learned = learned
				f := newLiar(false)
				d := beset(t, f, o)
				g := d.enter()
				g.browses(0, 4, 3*time.Second)
				before := len(early(f.ledger()))
				o.Enrichment.MinProbability = 0.31
				d.proxy.Apply(o)
				g.browses(4, 6, 3*time.Second)
				if n := len(early(f.ledger())); before == 0 || n > before {
					t.Errorf("%d prefetches before the reload, %d after it, want some and none", before, n-before)
				}
			})
		})
	}
}
