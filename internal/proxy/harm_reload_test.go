package proxy_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// hung opens eight sessions: four with a prefetch that hangs at the server, and four with one that
// waits for a slot.
func hung(d *ordeal) (all []*guest) {
	for i := range 8 {
		g := d.enter()
		g.call("list", page(i+1))
		all = append(all, g)
	}
	time.Sleep(time.Second)
	return all
}

// since returns the prefetches that arrived after at.
func since(ledger []visit, at time.Time) (all []visit) {
	for _, v := range early(ledger) {
		if v.came.After(at) {
			all = append(all, v)
		}
	}
	return all
}

// A tool that the operator forbids to prefetch or to call is not prefetched any more, not even by a
// prefetch that was waiting, and nothing is once prefetching is switched off.
func TestHarmRejudged(t *testing.T) {
	t.Parallel()
	judged := func(layer valuemodel.Layer) func(*proxy.Options) {
		return func(o *proxy.Options) {
			rules := listing(t)
			rules[0].Layer = layer
			o.Models = defaults(t, rules...).Models
		}
	}
	for name, change := range map[string]func(*proxy.Options){
		"it writes":                  judged(valuemodel.Layer{Class: valuemodel.MutatesExternal}),
		"it is not to be prefetched": judged(valuemodel.Layer{Class: valuemodel.ReadOnly, Speculate: new(false)}),
		"it tells third parties":     judged(valuemodel.Layer{Class: valuemodel.ReadOnly, Disclosure: valuemodel.ThirdParty}),
		"it does not hold still":     judged(valuemodel.Layer{Class: valuemodel.ReadOnly, Volatile: new(true)}),
		"it has a price":             judged(valuemodel.Layer{Class: valuemodel.ReadOnly, Cost: valuemodel.Cost{Dollars: 1}}),
		"prefetching is off":         func(o *proxy.Options) { o.Enrichment.Mode = "off" },
		"prefetching is shadowed":    func(o *proxy.Options) { o.Enrichment.Mode = "shadow" },
		"it is denied":               func(o *proxy.Options) { o.Upstreams[0].Allows = func(tool string) bool { return tool != "get" } },
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				f := newFoe(delaying(isGet, 5*time.Second))
				d := beset(t, f, defaults(t, listing(t)...))
				all := hung(d)
				before := len(early(f.ledger()))
				o := defaults(t, listing(t)...)
				change(&o)
				d.proxy.Apply(o)
				at := time.Now()
				time.Sleep(time.Minute)
				waiting := len(since(f.ledger(), at))
				for i, g := range all {
					g.call("list", page(50+i))
				}
				time.Sleep(time.Minute)
				if later := len(since(f.ledger(), at)) - waiting; before == 0 || waiting > 0 || later > 0 {
					t.Errorf("%d prefetches came before the reload, %d that had waited came after it, and %d new ones; want some, none and none", before, waiting, later)
				}
			})
		})
	}
}

// A client's call is not marked as a prefetch, even if it joins a prefetch that has not been sent
// yet.
func TestHarmPromoted(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		f := newFoe(delaying(isPrefetch, 1000*time.Hour))
		d := beset(t, f, defaults(t, listing(t)...))
		all := hung(d)
		sent := early(f.ledger())
		if len(sent) != 4 {
			t.Fatalf("%d prefetches are open at the server, want 4", len(sent))
		}
		asked := time.Now()
		for i, g := range all {
			waits := true
			for _, v := range sent {
				waits = waits && v.arguments != thing(i+1, 0)
			}
			if waits {
				if a := g.call("get", thing(i+1, 0)); a.took > 0 {
					t.Errorf("page %d: took %v, %s", i+1, a.took, a.how())
				}
			}
		}
		for _, v := range f.ledger() {
			if v.tool == "get" && v.came.After(asked.Add(-time.Millisecond)) && v.early {
				t.Errorf("a client's call of %s was marked as a prefetch", strings.TrimSpace(v.arguments))
			}
		}
	})
}

// A call may join a fetch that waits for its host. If the rules change before that is sent, and nothing but the call
// lets it be sent any more, the call's own confirmation applies: once the tool writes, nothing is sent.
func TestHarmRejudgedWhileJoined(t *testing.T) {
	t.Parallel()
	const read, steps = `{"name":"get","arguments":{"n":11}}`, `{"steps":[{"id":"a","tool":"get","arguments":{"n":11}}]}`
	called := func(g *guest) (cancel func()) { return g.begin("get", thing(1, 0)).cancel }
	prefetched := func(g *guest) (cancel func()) {
		g.call("list", page(1))
		time.Sleep(time.Second)
		return func() {}
	}
	for name, test := range map[string]struct {
		begin        func(g *guest) (cancel func()) // begins the fetch
		tools        string                         // [server].tools
		tool, params string                         // joins it
	}{
		"a prefetch, through a wrapper": {prefetched, "search", "call_read_tool", read},
		"a prefetch, by a plan":         {prefetched, "", "execute_tool_plan", steps},
		"a call, by a plan":             {called, "", "execute_tool_plan", steps},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				options := func(class valuemodel.Class) proxy.Options {
					rules := listing(t)
					rules[0].Layer.Class, rules[0].Layer.Host = class, "single"
					o := defaults(t, rules...)
					o.Limits, o.Plans, o.Selection.Tools = orderLimits, planSettings(proxy.Plans{Enabled: true}), test.tools
					return o
				}
				f := newFoe(delaying(isGet, 5*time.Second))
				d := beset(t, f, options(valuemodel.ReadOnly))
				other := d.enter().begin("get", thing(2, 0)) // holds the only slot of the host
				synctest.Wait()
				g := d.enter()
				cancel := test.begin(g)
				synctest.Wait()
				joined := g.begin(test.tool, test.params)
				synctest.Wait()
				if n := d.proxy.Stats().Store.Flights; n != 2 {
					t.Fatalf("%d flights, want 2", n)
				}
				cancel()
				d.proxy.Apply(options(valuemodel.MutatesExternal))
				other.wait()
				if a := joined.wait(); strings.Contains(string(a.Raw), `"status":"done"`) {
					t.Errorf("got %s", a.Raw)
				}
				time.Sleep(time.Minute)
				for _, v := range f.ledger() {
					if v.tool == "get" && v.arguments == thing(1, 0) {
						t.Errorf("sent, as a prefetch: %v", v.early)
					}
				}
			})
		})
	}
}
