package proxy_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/valuemodel"
)

// items returns a list of numbered items.
const items = `{"content":[{"type":"text","text":"{\"items\":[{\"n\":11},{\"n\":12},{\"n\":13}]}"}]}`

// prefetching returns options that prefetch the first items of a list.
func prefetching(t testing.TB, o mcptest.Options, rules ...valuemodel.Rule) proxy.Options {
	t.Helper()
	if o.Results == nil {
		o.Results = map[string]string{"list": items}
	}
	for _, name := range []string{"list", "echo", "start", "write"} {
		o.Tools = append(o.Tools, `{"name":"`+name+`","inputSchema":{"type":"object"}}`)
	}
	up := child(t, o)
	up.Exclusive = true
	opt := stored(t, append([]valuemodel.Rule{reading("one/echo", 0), {
		Pattern: "one/list", Source: "test", Layer: valuemodel.Layer{
			Class: valuemodel.ReadOnly,
			FollowUps: []valuemodel.FollowUp{{
				Tool: "echo", Probability: 0.9, Max: 2,
				Args: map[string]valuemodel.Binding{"n": bound(t, "$result.items[*].n")},
			}},
		},
	}}, rules...), up)
	opt.Enrichment = speculate.Rules{Mode: "on", MaxAge: time.Hour, PerSession: 3, Total: 16, Budget: 8000, MinProbability: 0.3, ShadowLabels: 2, Learn: true}
	return opt
}

func bound(t testing.TB, binding string) valuemodel.Binding {
	t.Helper()
	b, err := valuemodel.ParseBinding(binding)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// until waits until the stats satisfy a condition.
func until(t testing.TB, s *proxy.Server, what string, is func(proxy.Stats) bool) proxy.Stats {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		st := s.Stats()
		if is(st) {
			return st
		}
		if time.Now().After(end) {
			text, _ := json.MarshalIndent(st, "", " ")
			t.Fatalf("never %s:\n%s", what, text)
		}
	}
}

func settled(n int64) func(proxy.Stats) bool {
	return func(st proxy.Stats) bool { return st.Prefetch.Issued == n && st.Store.Flights == 0 }
}

func TestPrefetched(t *testing.T) {
	s := start(t, prefetching(t, mcptest.Options{Name: "one"}))
	c := connect(t, s, handshake)
	c.call("list", `{}`)
	until(t, s, "two prefetches", settled(2))
	for _, test := range []struct{ arguments, want string }{
		{`{"n":11}`, "hit"},
		{`{"n":13}`, "fetched"}, // the third item: more than the follow-up allows
		{`{"n":12}`, "hit"},
		{`{"n":11}`, "fetched"}, // called a second time
	} {
		got := c.call("echo", test.arguments)
		if how := disposition(t, got); how != test.want {
			t.Errorf("%s: got %s, want %s", test.arguments, how, test.want)
		}
		if want := strings.Trim(test.arguments, "{}"); !strings.Contains(got, strings.ReplaceAll(want, `"`, `\"`)) && !strings.Contains(got, want) {
			t.Errorf("%s: got %s", test.arguments, got)
		}
	}
	st := until(t, s, "all used", func(st proxy.Stats) bool { return st.Prefetch.Used == 2 })
	if st.Prefetch.Used != st.Prefetch.Issued || st.Prefetch.Late != 0 {
		t.Errorf("got %+v, want two prefetches, both ready and used", st.Prefetch)
	}
	totals := s.Report().Totals
	if totals.Amplification != 1 {
		t.Errorf("got amplification %v, want 1: every prefetch was asked for", totals.Amplification)
	}
}

// A server that becomes ready later invalidates no answers of other servers.
func TestPrefetchWhileAnotherServerStarts(t *testing.T) {
	gate := mcptest.NewGate(t)
	o := prefetching(t, mcptest.Options{Name: "one"})
	s := start(t, o)
	c := connect(t, s, handshake)
	o.Upstreams = append(o.Upstreams, child(t, mcptest.Options{Name: "late", Gate: gate.Addr()}))
	s.Apply(o)
	at := gate.Next()
	c.call("one__list", `{}`)
	until(t, s, "two prefetches", settled(2))
	at.Open()
	c.request("tools/list", "") // waits for the server
	for _, n := range []string{"11", "12"} {
		if how := disposition(t, c.call("one__echo", `{"n":`+n+`}`)); how != "hit" {
			t.Errorf("%s: got %s, want hit", n, how)
		}
	}
}

// A server behind stdio that reads a remote service is prefetched from without a declaration that
// nothing else changes the data.
func TestPrefetchOfAServiceElsewhere(t *testing.T) {
	host := valuemodel.Inferred{Host: "tickets.example", From: "TICKETS_URL"}
	for name, change := range map[string]func(*valuemodel.Upstream){
		"the operator's word": func(u *valuemodel.Upstream) { u.Remote = new(true) },
		"an inferred host":    func(u *valuemodel.Upstream) { u.Trust, u.Inferred = true, host },
	} {
		t.Run(name, func(t *testing.T) {
			o := prefetching(t, mcptest.Options{Name: "one"})
			o.Upstreams[0].Exclusive = false
			change(&o.Upstreams[0].Model)
			s := start(t, o)
			c := connect(t, s, handshake)
			c.call("list", `{}`)
			until(t, s, "a prefetch", func(st proxy.Stats) bool { return st.Prefetch.Issued > 0 })
			if st := s.Stats(); st.Prefetch.Declined["unsteady"] != 0 {
				t.Errorf("got %v, want none unsteady", st.Prefetch.Declined)
			}
		})
	}
}

func TestPrefetchedNotBefore(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*proxy.Options)
		rules  []valuemodel.Rule
		want   string // reason
	}{
		{"off", func(o *proxy.Options) { o.Enrichment.Mode = "off" }, nil, ""},
		{"shadow", func(o *proxy.Options) { o.Enrichment.Mode = "shadow" }, nil, "shadow"},
		{"others may change it", func(o *proxy.Options) { o.Upstreams[0].Exclusive = false }, nil, "unsteady"},
		{"improbable", func(o *proxy.Options) { o.Enrichment.MinProbability = 0.95 }, nil, "low_probability"},
		{"a write", nil, []valuemodel.Rule{{Pattern: "one/echo", Source: "test", Layer: valuemodel.Layer{Class: valuemodel.MutatesLocal}}}, "not_speculatable"},
		{"of unknown effect", nil, []valuemodel.Rule{{Pattern: "one/echo", Source: "test", Layer: valuemodel.Layer{Class: valuemodel.Indeterminate}}}, "not_speculatable"},
		{"forbidden", nil, []valuemodel.Rule{{Pattern: "one/echo", Source: "test", Layer: valuemodel.Layer{Speculate: new(false)}}}, "not_speculatable"},
		{"volatile", nil, []valuemodel.Rule{{Pattern: "one/echo", Source: "test", Layer: valuemodel.Layer{Volatile: new(true)}}}, "not_speculatable"},
		{"tells others", nil, []valuemodel.Rule{{Pattern: "one/echo", Source: "test", Layer: valuemodel.Layer{Disclosure: valuemodel.ThirdParty}}}, "disclosure"},
		{"priced", nil, []valuemodel.Rule{{Pattern: "one/echo", Source: "test", Layer: valuemodel.Layer{Cost: valuemodel.Cost{Dollars: 0.01}}}}, "dollars"},
		{"not worth it", func(o *proxy.Options) { o.Enrichment.Waste = time.Hour }, nil, "gate"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := prefetching(t, mcptest.Options{Name: "one"}, test.rules...)
			if test.change != nil {
				test.change(&o)
			}
			s := start(t, o)
			c := connect(t, s, handshake)
			c.call("list", `{}`)
			if test.want != "" {
				until(t, s, "declined", func(st proxy.Stats) bool {
					return st.Prefetch.Declined["not_speculatable"]+st.Prefetch.Declined["unsteady"]+st.Prefetch.Declined["shadow"]+st.Prefetch.Declined["low_probability"]+st.Prefetch.Declined["disclosure"]+st.Prefetch.Declined["dollars"]+st.Prefetch.Declined["gate"] > 0
				})
			}
			if how := disposition(t, c.call("echo", `{"n":11}`)); how != "fetched" {
				t.Errorf("got %s, want fetched", how)
			}
			st := s.Stats()
			if st.Prefetch.Issued != 0 {
				t.Errorf("got %d prefetches, want none", st.Prefetch.Issued)
			}
			if test.want != "" && st.Prefetch.Declined[enrich.Reason(test.want)] == 0 {
				t.Errorf("got %v, want %s", st.Prefetch.Declined, test.want)
			}
		})
	}
}

func TestPrefetchedDelivery(t *testing.T) {
	for _, delivery := range []string{"hint", "inline"} {
		t.Run(delivery, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				o := defaults(t, listing(t)...)
				o.Enrichment.Delivery, o.Enrichment.Wait = delivery, 200*time.Millisecond
				g := beset(t, newFoe(func(v *visit) reply {
					v.sleeps(100 * time.Millisecond)
					return reply{result: v.told()}
				}), o).enter()
				got := string(g.call("list", page(1)).Result)
				thingOne := `get {\"n\":11}` // the server's answer for the first item
				// Other prefetches wait, as the server's concurrency is not known yet.
				want, never := "pre-fetched get(11) in background", thingOne
				if delivery == "inline" {
					want, never = thingOne, "pre-fetched"
				}
				if strings.Count(got, want) != 1 || strings.Contains(got, never) {
					t.Errorf("got %s, want %s in it, once", got, want)
				}
				again := g.call("get", thing(1, 0))
				if how := again.how(); how != "hit" && how != "joined" {
					t.Errorf("got %s, want a hit: what was inlined may still be asked for", how)
				}
				if text := string(again.Result); strings.Contains(text, "pre-fetched") {
					t.Errorf("got %s, a hint where nothing was begun", text)
				}
			})
		})
	}
}

// The answer to a prefetch causes the next one.
func TestPrefetchedChain(t *testing.T) {
	o := prefetching(t, mcptest.Options{Name: "one", Results: map[string]string{
		"start": `{"content":[{"type":"text","text":"{\"id\":1}"}]}`,
		"list":  items,
	}}, valuemodel.Rule{Pattern: "one/start", Source: "test", Layer: valuemodel.Layer{
		Class:     valuemodel.ReadOnly,
		FollowUps: []valuemodel.FollowUp{{Tool: "list", Probability: 0.9}},
	}})
	s := start(t, o)
	c := connect(t, s, handshake)
	c.call("start", `{}`)
	until(t, s, "the list and two of its items", settled(3))
	if how := disposition(t, c.call("echo", `{"n":11}`)); how != "hit" {
		t.Errorf("got %s, want hit", how)
	}
}

// What one process has learned is used by the next.
func TestPrefetchedLearned(t *testing.T) {
	var kept speculate.State
	session := func(nth int) string {
		o := prefetching(t, mcptest.Options{Name: "one"}, valuemodel.Rule{Pattern: "one/list", Source: "test", Layer: valuemodel.Layer{FollowUps: []valuemodel.FollowUp{}}})
		o.Models, _ = valuemodel.Compile([]valuemodel.Rule{reading("one/echo", 0), reading("one/list", 0)})
		o.Upstreams[0].Learned = func(merge func(speculate.State) (speculate.State, error)) error {
			next, err := merge(kept)
			kept = next
			return err
		}
		s := proxy.New(o, nil)
		defer s.Close()
		c := connect(t, s, handshake)
		how := ""
		for range 3 {
			c.call("list", `{}`)
			time.Sleep(20 * time.Millisecond) // time to read the list
			how = disposition(t, c.call("echo", `{"n":11}`))
			time.Sleep(20 * time.Millisecond)
			c.call("write", `{}`)
			time.Sleep(20 * time.Millisecond)
		}
		c.in.Close()
		<-c.end
		return how
	}
	var all []string
	for nth := range 6 {
		if all = append(all, session(nth)); all[nth] == "hit" {
			return
		}
	}
	t.Errorf("got %v, want a hit by the sixth session", all)
}

// A prefetch from one upstream survives the first call to another upstream, which is unrelated.
func TestPrefetchedBesideAnother(t *testing.T) {
	o := prefetching(t, mcptest.Options{Name: "one"})
	two := child(t, mcptest.Options{Name: "two"})
	two.Model.Name, two.Model.Domain = "two", "elsewhere.example"
	o.Upstreams[0].Model.Domain = "here.example"
	o.Upstreams = append(o.Upstreams, two)
	s := start(t, o)
	c := connect(t, s, handshake)
	c.call("one__list", `{}`)
	until(t, s, "two prefetches", settled(2))
	c.call("two__echo", `{"n":1}`)
	if how := disposition(t, c.call("one__echo", `{"n":11}`)); how != "hit" {
		t.Errorf("got %s, want hit", how)
	}
}

// A server without notifications may end the listen request at once, as servers of mcp-go do. No
// notification was missed in between.
func TestPrefetchedOfAServerWithoutNews(t *testing.T) {
	var listens atomic.Int64
	mo := mcptest.Options{
		Name: "one", Era: "stateless", Capabilities: `{"tools":{}}`, Results: map[string]string{"list": items},
		Tools: []string{`{"name":"list","inputSchema":{"type":"object"}}`, `{"name":"echo","inputSchema":{"type":"object"}}`},
		Answer: func(_ context.Context, m jsonrpc.Message) []byte {
			if m.Method == "subscriptions/listen" {
				listens.Add(1)
				return []byte(`{"resultType":"complete"}`)
			}
			return nil
		},
	}
	_, up := remote(t, mo)
	o := prefetching(t, mcptest.Options{Name: "one"})
	up.Exclusive, up.Model.Name, up.Model.URL = true, up.Spec.Name, up.Spec.URL
	o.Upstreams[0] = up
	s := start(t, o)
	c := connect(t, s, handshake)
	c.call("list", `{}`)
	until(t, s, "two prefetches", settled(2))
	if how := disposition(t, c.call("echo", `{"n":11}`)); how != "hit" || listens.Load() > 0 {
		t.Errorf("got %s after %d listen requests, want a hit and none", how, listens.Load())
	}
}

// The number of calls that a process is running is no longer tracked after its session ends.
func TestOccupancyEnds(t *testing.T) {
	s := start(t, prefetching(t, mcptest.Options{Name: "one"}))
	c := connect(t, s, handshake)
	c.call("list", `{}`)
	c.call("echo", `{"n":12}`)
	if n := proxy.Occupancies(s); n != 1 {
		t.Errorf("%d while the session lives, want 1", n)
	}
	c.in.Close()
	until(t, s, "ended", func(st proxy.Stats) bool { return st.Sessions == 0 })
	if n := proxy.Occupancies(s); n != 0 {
		t.Errorf("%d after its end, want none", n)
	}
}
