package proxy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/dedup"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// reading is an operator's rule that a tool only reads, and for how long its answers stay fresh.
func reading(pattern string, fresh time.Duration) valuemodel.Rule {
	return valuemodel.Rule{Pattern: pattern, Source: "test", Layer: valuemodel.Layer{Class: valuemodel.ReadOnly, Cost: valuemodel.Cost{Freshness: fresh}}}
}

// stored returns options with a store, for upstreams whose tools the rules classify.
func stored(t testing.TB, rules []valuemodel.Rule, ups ...proxy.Upstream) proxy.Options {
	t.Helper()
	o := options(ups...)
	for i := range o.Upstreams {
		o.Upstreams[i].Model.Name = o.Upstreams[i].Spec.Name
		o.Upstreams[i].Model.URL = o.Upstreams[i].Spec.URL
	}
	models, problems := valuemodel.Compile(rules)
	if len(problems) > 0 {
		t.Fatalf("rules: %v", problems)
	}
	o.Models = models
	o.Dedup = dedup.Options{MaxBytes: 16 << 20, WriteSettle: time.Hour, Settle: 0}
	o.Enrichment.MaxAge = time.Hour
	return o
}

// disposition returns the disposition in an answer's _meta, or "fetched" if there is none.
func disposition(t *testing.T, result string) string {
	t.Helper()
	how, ok := jsonrpc.String(jsonrpc.Get(jsonrpc.Get([]byte(result), "_meta"), "mcpschedd/disposition"))
	if !ok {
		return "fetched"
	}
	return how
}

// without returns a result as its server wrote it.
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
					for range 2 {
						if how := disposition(t, c.call("echo", arguments)); how == "hit" && strings.Contains(arguments, `,"A"`) {
							t.Errorf("%s: got a hit, want every server's own reading of it", arguments)
						}
					}
				}
				if how := disposition(t, c.call("pid", `{}`)); how != "fetched" {
					t.Errorf("got %s from a tool nobody knows, want fetched", how)
				}
				if how := disposition(t, c.call("echo", `{"a":1,"b":[2]}`)); how != "fetched" {
					t.Errorf("got %s after a call that may have written, want fetched", how)
				}
			})
		}
	}
}

// Members of a call other than its name and arguments may matter to the server.
func TestStoredOnlyPlain(t *testing.T) {
	s := start(t, stored(t, []valuemodel.Rule{reading("one/echo", time.Hour)}, child(t, mcptest.Options{Name: "one"})))
	c := connect(t, s, handshake)
	c.request("tools/call", `{"name":"echo","arguments":{}}`)
	for _, test := range []struct{ params, want string }{
		{`{"name":"echo","arguments":{}}`, "hit"},
		{`{"name":"echo"}`, "hit"},
		{`{"name":"echo","arguments":{},"_meta":{"progressToken":7}}`, "hit"},
		{`{"name":"echo","arguments":{},"_meta":{"claudecode/toolUseId":"x","traceparent":"00-0"}}`, "hit"},
		{`{"name":"echo","arguments":{},"_meta":{"example/tenant":"x"}}`, "fetched"},
		{`{"name":"echo","arguments":{},"later":true}`, "fetched"},
	} {
		if how := disposition(t, c.request("tools/call", test.params)); how != test.want {
			t.Errorf("%s: got %s, want %s", test.params, how, test.want)
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

// An answer that depended on the client's reply is for that client only.
func TestAskedNotStored(t *testing.T) {
	for _, theirs := range []string{"handshake", "stateless"} {
		s := start(t, stored(t, []valuemodel.Rule{reading("one/ask", time.Hour)}, child(t, mcptest.Options{Name: "one", Era: theirs})))
		c := connect(t, s, handshake)
		c.reply(func(string, []byte) []byte { return []byte(`{"roots":[]}`) })
		for range 2 {
			if how := disposition(t, c.call("ask", `{"asks":[{"method":"roots/list","params":{}}]}`)); how != "fetched" {
				t.Errorf("%s server: got %s", theirs, how)
			}
		}
	}
}

// Identical concurrent calls share one fetch, whatever happens to the first of them.
func TestJoined(t *testing.T) {
	gate := mcptest.NewGate(t)
	server, up := remote(t, mcptest.Options{Name: "one"})
	up.Spec.Shared, up.SharedIdentity = true, true
	s := start(t, stored(t, []valuemodel.Rule{reading("one/hold", time.Hour)}, up))
	arguments := fmt.Sprintf(`{"gate":%q}`, gate.Addr())
	first, c := connect(t, s, handshake), connect(t, s, handshake)
	led := first.begin("hold", arguments)
	held := gate.Next()
	var joined []pending
	for range 100 {
		joined = append(joined, c.begin("hold", arguments))
	}
	third := connect(t, s, handshake)
	last := third.begin("hold", arguments)
	for _, client := range []*caller{c, third} {
		client.request("ping", "") // sent after the calls, so they have joined
	}
	first.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + led.id + `}}`)
	for _, p := range joined[1:] {
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + p.id + `}}`)
	}
	first.request("ping", "")
	c.request("ping", "")
	held.Open()
	for _, p := range []pending{joined[0], last} {
		if how := disposition(t, string(p.wait().Result)); how != "joined" {
			t.Errorf("got %s, want joined", how)
		}
	}
	if n := strings.Count(strings.Join(server.Seen(), "\n"), `"tools/call"`); n != 1 {
		t.Errorf("got %d calls upstream, want 1", n)
	}
	if cancelled := strings.Contains(strings.Join(server.Seen(), "\n"), "notifications/cancelled"); cancelled {
		t.Error("the call was cancelled while a call waited for it")
	}
}

func TestCancelledByAll(t *testing.T) {
	gate := mcptest.NewGate(t)
	s := start(t, stored(t, []valuemodel.Rule{reading("one/hold", time.Hour)}, child(t, mcptest.Options{Name: "one"})))
	c := connect(t, s, handshake)
	a, b := c.begin("hold", fmt.Sprintf(`{"gate":%q}`, gate.Addr())), c.begin("hold", fmt.Sprintf(`{"gate":%q}`, gate.Addr()))
	held := gate.Next()
	for _, p := range []pending{a, b} {
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + p.id + `}}`)
	}
	held.Gone()
}

func TestBackOff(t *testing.T) {
	rule := reading("one/echo", 0)
	rule.Layer.FailFastAfter = 2
	s := start(t, stored(t, []valuemodel.Rule{rule, reading("one/big", 0)}, child(t, mcptest.Options{Name: "one"})))
	c := connect(t, s, handshake)
	hint := func(result string) string {
		return string(jsonrpc.Get(jsonrpc.Get([]byte(result), "_meta"), "mcpschedd/backoff_ms"))
	}
	first, second, third := c.call("echo", `{}`), c.call("echo", `{}`), c.call("echo", `{}`)
	if hint(first) != "" || hint(second) == "" || hint(third) == "" {
		t.Errorf("got hints %q %q %q, want none, then some", hint(first), hint(second), hint(third))
	}
	if a, b := disposition(t, second), disposition(t, third); a != "fetched" || b != "hit" {
		t.Errorf("got %s and %s, want fetched and hit", a, b)
	}
	c.call("echo", `{"other":true}`)
	if how := disposition(t, c.call("echo", `{}`)); how != "hit" {
		t.Errorf("after other arguments: got %s, want hit", how)
	}
	c.call("big", `{"n":3}`)
	c.call("big", `{"n":3}`)
	c.call("big", `{"n":3}`)
	if got := c.call("big", `{"n":3}`); disposition(t, got) != "fetched" || hint(got) == "" {
		t.Errorf("where the operator set nothing: got %s, want a fetched answer with a hint", got)
	}
}

// A reload that makes a tool a write invalidates the stored answers of the tool and of its domain.
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
	c.call("big", `{"n":1}`) // a write now
	if how := disposition(t, c.call("echo", `{}`)); how != "fetched" {
		t.Errorf("after a call of what writes now: got %s, want fetched", how)
	}
}

func firstOf(array []byte) []byte {
	for e := range jsonrpc.Elements(array) {
		return e
	}
	return nil
}

// After a 429, by status or in the text of a failed tool, a host gets no prefetches for a while.
// Calls continue.
func TestTooManyRequests(t *testing.T) {
	for name, refuse := range map[string]string{
		"by status": `{"name":"status","arguments":{"status":429,"retryAfter":"7","body":"slow down"}}`,
		"by text":   `{"name":"limited","arguments":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, up := remote(t, mcptest.Options{Name: "one", Results: map[string]string{
				"limited": `{"content":[{"type":"text","text":"GET https://api.github.com/repos/a/b/issues: 403 API rate limit exceeded for user ID 1. [rate reset in 7s]"}],"isError":true}`,
				"other":   `{"content":[{"type":"text","text":"open docs/429.md: no such file or directory (was: rate limit exceeded)"}],"isError":true}`,
			}})
			up.Exclusive = true
			o := stored(t, []valuemodel.Rule{reading("one/*", time.Hour)}, up)
			o.Enrichment.Mode = "on"
			s := start(t, o)
			c := connect(t, s, handshake)
			c.call("other", `{}`)
			if begun, why := proxy.Prefetch(s, 0, "one", "echo", `{"n":1}`); !begun {
				t.Fatalf("before the refusal: %s", why)
			}
			c.start("tools/call", refuse).wait()
			if begun, why := proxy.Prefetch(s, 0, "one", "echo", `{"n":2}`); begun || why != "rate_limited" {
				t.Errorf("after it: begun %v, %q; want rate_limited", begun, why)
			}
			if got := c.call("echo", `{"n":3}`); !strings.Contains(got, `"n":3`) {
				t.Errorf("a real call: got %s", got)
			}
			var cooling time.Duration
			for _, h := range s.Stats().Hosts {
				cooling = max(cooling, time.Until(h.CoolingUntil))
			}
			if cooling <= 0 || cooling > 7*time.Second {
				t.Errorf("prefetches wait for %v, want at most 7 s", cooling)
			}
		})
	}
}

// A tool that must not be prefetched never is, whatever makes it a candidate.
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
