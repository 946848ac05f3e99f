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

// hinted returns tools that are annotated as read-only.
func hinted(names ...string) (tools []string) {
	for _, name := range names {
		tools = append(tools, `{"name":"`+name+`","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`)
	}
	return tools
}

// trusting returns options that trust the annotations, with a configured follow-up.
func trusting(t testing.TB) proxy.Options {
	t.Helper()
	rules := listing(t)[1:]
	rules[0].Layer.Class = ""
	o := defaults(t, rules...)
	o.Upstreams[0].Model.Trust = true
	return o
}

// newLiar returns a server with a tool get that is annotated as read-only, although each call of
// it changes the next answer. If honest is true, it does not.
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

// session is the maximum number of prefetches of one session.
const session = 3

// The annotation that a tool is read-only is tested: prefetched results are compared with those of
// the client's calls. If one differs, the tool is barred. No prefetched result is ever served.
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
			t.Errorf("%d prefetches were made, want at least one and at most as many as a session may have", n)
		}
		st := d.proxy.Stats().Prefetch
		if st.Wasted["compared"] == 0 || st.Used != 0 || st.Declined["not_speculatable"] == 0 {
			t.Errorf("got %+v, want prefetches that were compared, none used, and later ones declined", st)
		}
		const why = "tools barred from prefetching: 1, such as get (mcpschedd explain foe/get or mcpschedd logs says why)"
		if u := d.proxy.Report().Running[0].Upstreams[0]; u.Why != why || u.Change != "" {
			t.Errorf("status: got %q, %q, want %q", u.Why, u.Change, why)
		}
	})
}

// unproven checks that get was not prefetched after one of its prefetches had been compared.
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

// A tool with a true annotation is served from prefetches as soon as the required number of
// comparisons agreed, and not before.
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

// kept stores learned state for the next process.
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

// A tool with a false annotation stays barred in the next process, and after a reload, until the operator has
// declared it read-only.
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
	for name, test := range map[string]struct {
		learned  speculate.Storage
		declared bool
	}{"after a reload": {}, "after a reload, kept": {learned: new(kept).learned}, "declared read-only": {declared: true}} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				o := trusting(t)
				o.Upstreams[0].Learned = test.learned
				f := newLiar(false)
				d := beset(t, f, o)
				g := d.enter()
				g.browses(0, 4, 3*time.Second)
				before := len(early(f.ledger()))
				if o.Enrichment.MinProbability = 0.31; test.declared {
					o = defaults(t, listing(t)...)
				}
				d.proxy.Apply(o)
				g.browses(4, 6, 3*time.Second)
				if n := len(early(f.ledger())); before == 0 || (n > before) != test.declared {
					t.Errorf("%d prefetches before the reload, %d after it, want some, and later ones: %v", before, n-before, test.declared)
				}
			})
		})
	}
}
