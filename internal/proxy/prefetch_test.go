package proxy_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/catalog"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/valuemodel"
)

// items is a list of numbered items.
const items = `{"content":[{"type":"text","text":"{\"items\":[{\"n\":11},{\"n\":12},{\"n\":13}]}"}]}`

// prefetching returns options that prefetch the first items of a list.
func prefetching(t testing.TB, o mcptest.Options, rules ...valuemodel.Rule) proxy.Options {
	t.Helper()
	if o.Results == nil {
		o.Results = map[string]string{"list": items}
	}
	o.Tools = append(o.Tools, tools("list", "echo", "start", "write")...)
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
		{`{"n":13}`, "fetched"}, // the third item, which exceeds the maximum of the follow-up
		{`{"n":12}`, "hit"},
		{`{"n":11}`, "fetched"}, // called again
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
		t.Errorf("got amplification %v, want 1, as every prefetch was used", totals.Amplification)
	}
	c.call("list", `{"again":true}`) // the same items
	proxy.Decided(s)
	c.hangUp()
	until(t, s, "declined, as the client has both", func(st proxy.Stats) bool { return st.Prefetch.Declined["delivered"] > 0 })
}

// A value that a program may take for an option is not prefetched: of git, one names a file to write.
func TestOptionIsNotPrefetched(t *testing.T) {
	follow := valuemodel.FollowUp{Tool: "echo", Probability: 0.9, Args: map[string]valuemodel.Binding{"revision": bound(t, "$result.items[*].name")}}
	s := start(t, prefetching(t, mcptest.Options{Name: "one", Results: map[string]string{
		"list": `{"content":[{"type":"text","text":"{\"items\":[{\"name\":\"--output=x\"},{\"name\":\"main\"}]}"}]}`,
	}}, valuemodel.Rule{Pattern: "one/list", Source: "test", Layer: valuemodel.Layer{Class: valuemodel.ReadOnly, FollowUps: []valuemodel.FollowUp{follow}}}))
	c := connect(t, s, handshake)
	c.call("list", `{}`)
	until(t, s, "a prefetch", settled(1))
	for arguments, want := range map[string]string{`{"revision":"main"}`: "hit", `{"revision":"--output=x"}`: "fetched"} {
		if how := disposition(t, c.call("echo", arguments)); how != want {
			t.Errorf("%s: got %s, want %s", arguments, how, want)
		}
	}
}

// A report counts each prefetch once, also one that ends meanwhile: a counter that falls would be a reset
// for Prometheus.
func TestCountersNeverFall(t *testing.T) {
	s := start(t, defaults(t))
	var begun atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 5000 {
			proxy.BeginPrefetch(s)
			begun.Add(1)
			for range rand.IntN(1000) { // so that it ends at any time of a report
				runtime.Gosched()
			}
			proxy.EndPrefetches(s)
		}
	}()
	for open := true; open; {
		select {
		case <-ended:
			open = false
		default:
		}
		want := begun.Load()
		if got := s.Report().Totals.Prefetch.Issued; got < want {
			t.Fatalf("got %d prefetches, want %d or more", got, want)
		}
	}
}

func TestPrefetchedDelivery(t *testing.T) {
	eachEra(t, func(t *testing.T, client, server string) {
		for _, delivery := range []string{"hint", "inline"} {
			bubble.Test(t, func(t *testing.T) {
				o := defaults(t, listing(t)...)
				o.Enrichment.Delivery, o.Enrichment.Wait = delivery, 200*time.Millisecond
				g := beset(t, newFoe(func(v *visit) reply {
					v.sleeps(100 * time.Millisecond)
					if strings.Contains(v.arguments, "2") {
						return reply{result: strings.Replace(v.told(), "{", `{"isError":true,`, 1)}
					}
					return reply{result: v.told()}
				}).of(server), o).plans(client)
				if got := string(g.call("list", page(2)).Result); strings.Contains(got, "pre-fetched") || strings.Contains(got, "get {") {
					t.Errorf("got %s, want an error as it is", got)
				}
				got := string(g.call("list", page(1)).Result)
				thingOne := `get {\"n\":11}` // the server's answer for the first item
				// The other prefetches wait, as the server's concurrency is not known yet.
				want, never := "pre-fetched get(11) in background", thingOne
				if delivery == "inline" {
					want, never = thingOne, "pre-fetched"
				}
				if strings.Count(got, want) != 1 || strings.Contains(got, never) {
					t.Errorf("got %s, want %s in it, once", got, want)
				}
				again := g.call("get", thing(1, 0))
				if how := again.how(); how != "hit" && how != "joined" {
					t.Errorf("got %s, want a hit, as an inlined answer stays cached", how)
				}
				if text := string(again.Result); strings.Contains(text, "pre-fetched") {
					t.Errorf("got %s, want no hint without prefetches", text)
				}
			})
		}
	})
}

// Likely answers are inlined for as long as a client does not call what it has been given: that is no miss.
func TestInlinedGoesOn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		o := defaults(t, reading("foe/list", 0), valuemodel.Rule{
			Pattern: "foe/get", Source: "test", Layer: valuemodel.Layer{
				Class:     valuemodel.ReadOnly,
				FollowUps: []valuemodel.FollowUp{{Tool: "list", Probability: 0.95, Args: map[string]valuemodel.Binding{"page": bound(t, "$args.n")}}},
			},
		})
		o.Enrichment.Delivery, o.Enrichment.Wait = "inline", 200*time.Millisecond
		d := beset(t, newFoe(taking(100*time.Millisecond)), o)
		for range 4 {
			g := d.enter()
			for i := range 30 {
				if got := string(g.call("get", thing(i+1, 0)).Result); !strings.Contains(got, "answer to list") {
					t.Fatalf("call %d: got %s, want the answer to the next call in it", i, got)
				}
				time.Sleep(time.Second)
			}
			g.leave()
			d.guests = nil
		}
	})
}

// What is likely after a write to a remote service is prefetched once the write shows there, if the
// client has not called it by then.
func TestPrefetchedAfterWrite(t *testing.T) {
	for _, test := range []struct {
		think time.Duration
		want  string
	}{{time.Second, "fetched"}, {2500 * time.Millisecond, "hit"}} {
		bubble.Test(t, func(t *testing.T) {
			f := newFoe(taking(300 * time.Millisecond))
			g := beset(t, f, defaults(t, append(listing(t), valuemodel.Rule{
				Pattern: "foe/write", Source: "test", Layer: valuemodel.Layer{
					Class:     valuemodel.MutatesExternal,
					FollowUps: []valuemodel.FollowUp{{Tool: "get", Probability: 0.9, Args: map[string]valuemodel.Binding{"n": bound(t, "$args.n")}}},
				},
			})...)).enter()
			g.call("get", thing(1, 0)) // its latency is known from now on
			g.call("write", thing(2, 0))
			wrote := time.Now()
			time.Sleep(test.think)
			if how := disposition(t, string(g.call("get", thing(2, 0)).Result)); how != test.want {
				t.Errorf("after %v: got %s, want %s", test.think, how, test.want)
			}
			time.Sleep(5 * time.Second)
			for _, v := range early(f.ledger()) {
				if after := v.came.Sub(wrote); after < 2*time.Second || test.want == "fetched" {
					t.Errorf("a prefetch of %s %v after the write, with a call after %v", v.arguments, after, test.think)
				}
			}
		})
	}
}

// The next process uses what one process has learned.
func TestPrefetchedLearned(t *testing.T) {
	var k kept
	o := defaults(t, reading("foe/get", 0), reading("foe/list", 0))
	o.Upstreams[0].Learned = k.learned
	var all []string
	for range 6 {
		bubble.Test(t, func(t *testing.T) {
			g := beset(t, newFoe(taking(400*time.Millisecond)), o).enter()
			all = append(all, g.browses(0, 1, 3*time.Second)[1].how()) // of the first item
		})
	}
	if all[0] == "hit" || all[5] != "hit" {
		t.Errorf("got %v, want a hit by the sixth process", all)
	}
}

// An answer is replaced by a note only if the operator allows it, the session has one
// conversation, the tool has no output schema, and the answer is longer; and never twice in a row.
func TestReference(t *testing.T) {
	rules := []valuemodel.Rule{reading("one/*", time.Hour)}
	tools := []string{
		`{"name":"echo","inputSchema":{"type":"object"}}`,
		`{"name":"big","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}`,
	}
	_, up := remote(t, mcptest.Options{Name: "one", Tools: tools})
	up.Spec.Shared = true
	long := longArguments()
	for _, test := range []struct {
		name, repeat, tool, arguments string
		want                          []string
	}{
		{"as it is", "", "echo", long, []string{"fetched", "hit", "hit", "hit"}},
		{"with references", "reference", "echo", long, []string{"fetched", "reference", "hit", "reference"}},
		{"a short answer", "reference", "echo", `{"n":5}`, []string{"fetched", "hit", "hit", "hit"}},
		{"with an output schema", "reference", "big", long, []string{"fetched", "hit", "hit", "hit"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := stored(t, rules, up)
			o.Repeat = test.repeat
			f := serveTCP(t, o)
			id := f.open("/mcp", handshake)
			header := []string{"Mcp-Session-Id", id, "Mcp-Protocol-Version", handshake}
			f.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, header...)
			var body string
			for i, want := range test.want {
				_, answer := f.Post("/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, i+2, toolCall(test.tool, test.arguments)), header...)
				result := string(jsonrpc.Get([]byte(answer), "result"))
				how := disposition(t, result)
				if how != want {
					t.Errorf("call %d: got %s, want %s: %s", i, how, want, answer)
				}
				switch {
				case i == 0:
					body = result
				case how == "hit" && without(result) != body:
					t.Errorf("call %d: got %s, want %s", i, result, body)
				case how == "reference" && !strings.Contains(result, "Unchanged"):
					t.Errorf("call %d: got %s, want a note", i, result)
				}
			}
		})
	}
	t.Run("on stdio", func(t *testing.T) { // a process may serve several conversations
		o := stored(t, rules, up)
		o.Repeat = "reference"
		c := connect(t, start(t, o), handshake)
		c.tools()
		c.call("echo", long)
		for range 3 {
			if how := disposition(t, c.call("echo", long)); how != "hit" {
				t.Errorf("got %s, want hit", how)
			}
		}
	})
}

// longArguments returns arguments whose echo is longer than the note of a reference.
func longArguments() string { return `{"text":"` + strings.Repeat("a", 200) + `"}` }

// reading returns a rule for a read-only tool with a freshness.
func reading(pattern string, fresh time.Duration) valuemodel.Rule {
	return valuemodel.Rule{Pattern: pattern, Source: "test", Layer: valuemodel.Layer{Class: valuemodel.ReadOnly, Cost: valuemodel.Cost{Freshness: fresh}}}
}

// stored returns options with a store and rules for the tools of upstreams.
func stored(t testing.TB, rules []valuemodel.Rule, ups ...catalog.Upstream) proxy.Options {
	t.Helper()
	o := options(ups...)
	for i := range o.Upstreams {
		o.Upstreams[i].Model.Name = o.Upstreams[i].Spec.Name
		o.Upstreams[i].Model.URL = o.Upstreams[i].Spec.URL
	}
	o.Models = modelled(t, rules...)
	o.Dedup = dedup.Options{MaxBytes: 16 << 20, WriteSettle: time.Hour, Settle: 0}
	o.Enrichment.MaxAge = time.Hour
	return o
}

// disposition returns the disposition in an answer's _meta, or "fetched" if there is none.
func disposition(t *testing.T, result string) string {
	t.Helper()
	return cmp.Or(jsonrpc.Text(jsonrpc.Get([]byte(result), "_meta"), "mcpschedd/disposition"), "fetched")
}

// without removes what the proxy has added to a result.
func without(result string) string {
	meta := jsonrpc.Delete(jsonrpc.Get([]byte(result), "_meta"), func(name []byte) bool { return strings.HasPrefix(string(name), "mcpschedd/") })
	if string(meta) == "{}" || meta == nil {
		return string(jsonrpc.Delete([]byte(result), func(name []byte) bool { return string(name) == "_meta" }))
	}
	return string(jsonrpc.Set([]byte(result), "_meta", meta))
}

func TestStored(t *testing.T) {
	for _, era := range []string{handshake, stateless} {
		for _, theirs := range []string{"handshake", "stateless"} {
			t.Run(era+" client, "+theirs+" server", func(t *testing.T) {
				s := start(t, stored(t, []valuemodel.Rule{reading("one/echo", time.Hour)}, child(t, mcptest.Options{Name: "one", Era: theirs})))
				c := connect(t, s, era)
				c.call("pid", `{}`) // the handshake is over
				first := c.call("echo", `{"a":1,"b":[2]}`)
				for _, arguments := range []string{`{"a":1,"b":[2]}`, ` { "b" : [2], "a" : 1 } `} {
					again := c.call("echo", arguments)
					if how := disposition(t, again); how != "hit" {
						t.Errorf("%s: got %s, want hit: %s", arguments, how, again)
					}
					if without(again) != without(first) {
						t.Errorf("got %s\nwant %s", again, first)
					}
				}
				for _, arguments := range []string{`{"a":1.0,"b":[2]}`, `{"a":"1","b":[2]}`, `{"a":1,"b":[2],"c":null}`, `{"a":1,"A":1,"b":[2]}`, `{"a":1,"a":1,"b":[2]}`} {
					if how := disposition(t, c.call("echo", arguments)); how != "fetched" {
						t.Errorf("%s: got %s, want it fetched, as servers may decode it differently", arguments, how)
					}
				}
				if how := disposition(t, c.call("pid", `{}`)); how != "fetched" {
					t.Errorf("got %s from an unclassified tool, want fetched", how)
				}
				if how := disposition(t, c.call("echo", `{"a":1,"b":[2]}`)); how != "fetched" {
					t.Errorf("got %s after a call that may have written, want fetched", how)
				}
			})
		}
	}
}

func TestNotStored(t *testing.T) {
	rules := []valuemodel.Rule{reading("one/*", time.Hour)}
	results := map[string]string{
		"failing": `{"content":[{"type":"text","text":"no"}],"isError":true}`,
		"refused": `error {"code":-32000,"message":"no"}`,
		"good":    `{"content":[{"type":"text","text":"yes"}],"isError":false}`,
	}
	s := start(t, stored(t, rules, child(t, mcptest.Options{Name: "one", Results: results})))
	c := connect(t, s, handshake)
	for range 3 {
		if how := disposition(t, c.call("failing", `{}`)); how != "fetched" {
			t.Errorf("a result with isError: got %s", how)
		}
		if code, _ := c.refused("tools/call", toolCall("refused", `{}`)); code != -32000 {
			t.Errorf("an error: got %d", code)
		}
	}
	c.call("good", `{}`)
	if how := disposition(t, c.call("good", `{}`)); how != "hit" {
		t.Errorf("isError false: got %s, want hit", how)
	}
}

func TestBackOff(t *testing.T) {
	rule := reading("one/echo", 0)
	rule.Layer.FailFastAfter = 2
	s := start(t, stored(t, []valuemodel.Rule{rule, reading("one/big", 0)}, child(t, mcptest.Options{Name: "one"})))
	c := connect(t, s, handshake)
	hint := func(result string) string {
		return string(jsonrpc.Get(jsonrpc.Get([]byte(result), "_meta"), "mcpschedd/backoff_ms"))
	}
	c.call("echo", `{}`)
	second, third := c.call("echo", `{}`), c.call("echo", `{}`)
	if hint(second) == "" || disposition(t, third) != "hit" {
		t.Errorf("got the hint %q, and then %s, want a hint, and a hit", hint(second), disposition(t, third))
	}
	for range 3 {
		c.call("big", `{"n":3}`)
	}
	if got := c.call("big", `{"n":3}`); disposition(t, got) != "fetched" || hint(got) == "" {
		t.Errorf("without a setting of the operator: got %s, want a fetched answer with a hint", got)
	}
}

// If a reload makes a tool a write, the cached answers of the tool and of its domain are
// invalidated.
func TestReloadOfModels(t *testing.T) {
	up := child(t, mcptest.Options{Name: "one"})
	o := stored(t, []valuemodel.Rule{reading("one/echo", time.Hour), reading("one/big", time.Hour)}, up)
	s := start(t, o)
	c := connect(t, s, handshake)
	warm := func() { c.call("echo", `{}`); c.call("big", `{"n":1}`) }
	warm()
	s.Apply(o)
	if how := disposition(t, c.call("echo", `{}`)); how != "hit" {
		t.Errorf("after a reload that changed nothing: got %s, want hit", how)
	}
	s.Apply(stored(t, []valuemodel.Rule{reading("one/echo", time.Hour)}, up))
	if how := disposition(t, c.call("echo", `{}`)); how != "fetched" {
		t.Errorf("after a reload that changed a class: got %s, want fetched", how)
	}
	c.call("echo", `{}`)
	c.call("big", `{"n":1}`) // the tool writes now
	if how := disposition(t, c.call("echo", `{}`)); how != "fetched" {
		t.Errorf("after a write: got %s, want fetched", how)
	}
}

// Candidates are not prefetched if a rule forbids it, whether they are configured or learned.
func TestNotPrefetched(t *testing.T) {
	rule := func(tool string, l valuemodel.Layer) valuemodel.Rule {
		return valuemodel.Rule{Pattern: "one/" + tool, Source: "test", Layer: l}
	}
	up := child(t, mcptest.Options{Name: "one"})
	up.Allows, up.Exclusive = func(tool string) bool { return tool != "pid" }, true
	o := stored(t, []valuemodel.Rule{
		reading("one/echo", time.Hour), reading("one/pid", time.Hour), reading("one/log", time.Hour), reading("one/big", time.Hour),
		rule("log", valuemodel.Layer{Speculate: new(false)}),
		rule("big", valuemodel.Layer{Cost: valuemodel.Cost{Dollars: 0.01}}),
	}, up)
	o.Enrichment.Mode = "on"
	s := start(t, o)
	connect(t, s, handshake).call("progress", `{}`)
	for _, tool := range []string{"pid", "log", "big", "change"} {
		if begun, why := proxy.Prefetch(s, 0, "one", tool, `{}`); begun || why != "not_speculatable" {
			t.Errorf("%s: begun %v, %q; want not_speculatable", tool, begun, why)
		}
	}
	if begun, why := proxy.Prefetch(s, 0, "one", "echo", `{}`); !begun {
		t.Errorf("echo: %s", why)
	}
}

// within reports whether a function with that name is on the call stack.
func within(function string) bool {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, function) {
			return true
		}
		if !more {
			return false
		}
	}
}

// After a panic in prediction the session is served as before, other sessions are still predicted,
// and nothing is left that could delay a call.
func TestPanicInPrediction(t *testing.T) {
	for _, tt := range []struct {
		in   string // function on the call stack when the panic occurs, once
		gone bool   // the session has no more predictions
	}{
		{"speculate.(*Worker).called", true},
		{"speculate.(*Worker).answered", true},
		{"speculate.(*pairState).decide", true},
		{"proxy.(*prefetchSource).Fetch", true},
	} {
		t.Run(tt.in, func(t *testing.T) {
			var armed atomic.Bool
			var log logged
			o := prefetching(t, mcptest.Options{Name: "one"})
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			o.Upstreams[0].Allows = func(string) bool {
				if armed.Load() && within(tt.in) && armed.Swap(false) {
					panic("a fault of prediction")
				}
				return true
			}
			s := start(t, o)
			a, b := connect(t, s, handshake), connect(t, s, handshake)
			armed.Store(true)
			a.call("list", `{}`)
			for range 3 {
				if got := a.call("echo", `{"n":11}`); !strings.Contains(got, "11") {
					t.Errorf("the session with the panic: got %s", got)
				}
			}
			until(t, s, "panicked", func(proxy.Stats) bool { return !armed.Load() })
			st := until(t, s, "quiet", func(st proxy.Stats) bool {
				return log.count("prediction panicked") == 1 && st.Store.Flights == 0 && st.Store.UnderWay == 0
			})
			for _, h := range st.Hosts {
				if h.InFlight+h.Prefetches+h.Waiting+h.WaitingPrefetches > 0 {
					t.Errorf("left at its host: %+v", h)
				}
			}
			before := st.Prefetch.Issued
			b.call("list", `{}`)
			until(t, s, "two prefetches more", func(st proxy.Stats) bool { // or three, as the session may have had one left
				return st.Prefetch.Issued >= before+2 && st.Store.Flights == 0
			})
			if how := disposition(t, b.call("echo", `{"n":11}`)); how != "hit" {
				t.Errorf("another session: got %s, want a hit", how)
			}
			a.call("list", `{}`)
			until(t, s, "without the session it was about, if that is gone", func(st proxy.Stats) bool {
				return (st.Prefetch.Scheduler.Sessions == 1) == tt.gone
			})
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
			proxy.Decided(s)
			if how := disposition(t, c.call("echo", `{"n":11}`)); how != "fetched" {
				t.Errorf("got %s, want fetched", how)
			}
			c.hangUp()
			st := until(t, s, "declined", func(st proxy.Stats) bool {
				return st.Sessions == 0 && (test.want == "" || st.Prefetch.Declined[test.want] > 0)
			})
			if st.Prefetch.Issued != 0 {
				t.Errorf("got %d prefetches, want none", st.Prefetch.Issued)
			}
		})
	}
}
