package proxy_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/record"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/valuemodel"
)

// resource reads one resource as text.
func (c *caller) resource(uri string) string {
	c.t.Helper()
	result := c.request("resources/read", fmt.Sprintf(`{"uri":%q}`, uri))
	text, ok := jsonrpc.String(jsonrpc.At([]byte(result), "/contents/0/text"))
	if !ok {
		c.t.Fatalf("%s: got %s", uri, result)
	}
	return text
}

// The stats resource matches its schema and the calls made.
func TestStatsResource(t *testing.T) {
	published, err := os.Open("../record/stats.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	defer published.Close()
	document, err := jsonschema.UnmarshalJSON(published)
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("stats.schema.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("stats.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, era := range []string{handshake, stateless} {
		t.Run(era, func(t *testing.T) {
			o := stored(t, []valuemodel.Rule{reading("one/echo", time.Hour)}, child(t, mcptest.Options{Name: "one"}), child(t, mcptest.Options{Name: "two"}))
			o.ConfigPath = "/home/me/pipeline_config.toml"
			s := start(t, o)
			c := connect(t, s, era)
			c.tools() // both servers have started, as a later start would invalidate results
			for range 3 {
				c.call("one__echo", `{"text":"a secret of mine"}`)
			}
			c.refused("tools/call", `{"name":"three__echo","arguments":{}}`)
			s.Reject(fmt.Errorf("line 3: no good"))
			text := c.resource("mcpschedd://stats")
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(value); err != nil {
				t.Errorf("the schema is not kept: %v", err)
			}
			var got record.Stats
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatal(err)
			}
			n := got.Totals
			if n.Calls != 4 || n.Hit == 0 || n.Hit+n.Fetched != 3 || n.Failed != 1 || n.UpstreamCalls != n.Fetched || got.Open != 1 {
				t.Errorf("got %+v, want three calls, fetched or from the store, and one of no tool", n)
			}
			if part := got.Tools["one/echo"]; part.Calls != 3 || got.Upstreams["one"].Calls != 3 {
				t.Errorf("got %+v of the tool, %+v of its upstream", part, got.Upstreams["one"])
			}
			if got.Config.Path != o.ConfigPath || got.Config.Error != "line 3: no good" || got.Config.LoadedAt.IsZero() {
				t.Errorf("got configuration %+v", got.Config)
			}
			one, two := got.Running[0].Upstreams[0], got.Running[0].Upstreams[1]
			if one.State != "ready" || one.Tools == 0 || one.Cacheable != 1 || one.Prefetchable != 0 || !strings.HasPrefix(one.Why, record.PrefetchOff) || one.Change == "" {
				t.Errorf("got %+v: want the one tool that only reads counted", one)
			}
			if two.Cacheable != 0 || !strings.HasPrefix(two.Why, record.PrefetchOff) {
				t.Errorf("got %+v: want no tool counted, as none has a freshness", two)
			}
			if clients := got.Running[0].Clients; len(clients) != 1 || clients[0].Sessions != 1 {
				t.Errorf("got clients %+v, want one", clients)
			}
			if strings.Contains(text, "a secret of mine") {
				t.Error("the stats contain arguments")
			}
			if summary := c.resource("mcpschedd://stats/summary"); !strings.Contains(summary, "one/echo") {
				t.Errorf("got summary %s", summary)
			}
		})
	}
}

func TestModelResource(t *testing.T) {
	o := stored(t, []valuemodel.Rule{reading("one/echo", time.Hour)}, child(t, mcptest.Options{Name: "one"}), child(t, mcptest.Options{Name: "two"}))
	c := connect(t, start(t, o), handshake)
	for _, uri := range []string{"mcpschedd://models/one/echo", "mcpschedd://models/one%2Fecho", "mcpschedd://models/one__echo"} {
		if text := c.resource(uri); !strings.Contains(text, `"read_only"`) {
			t.Errorf("%s: got %s", uri, text)
		}
	}
	for _, uri := range []string{"mcpschedd://models/", "mcpschedd://models/three/echo", "mcpschedd://models/%zz"} {
		if _, message := c.refused("resources/read", fmt.Sprintf(`{"uri":%q}`, uri)); !strings.Contains(message, "want mcpschedd://models/NAME/TOOL") {
			t.Errorf("%s: got %q", uri, message)
		}
	}
}

// A reload that only moves the keys of an upstream in the file changes the positions in its
// models, and invalidates no answer.
func TestModelResourceAfterMove(t *testing.T) {
	o := stored(t, []valuemodel.Rule{reading("one/echo", time.Hour)}, child(t, mcptest.Options{Name: "one"}))
	s := start(t, o)
	c := connect(t, s, handshake)
	for i, position := range []string{"c:7", "c:9"} {
		o.Upstreams = slices.Clone(o.Upstreams)
		o.Upstreams[0].Model.Remote, o.Upstreams[0].Model.Sources = new(true), map[string]string{"remote": position}
		s.Apply(o)
		if text := c.resource("mcpschedd://models/one/echo"); !strings.Contains(text, position) {
			t.Errorf("got %s, want the position %s", text, position)
		}
		if how, want := disposition(t, c.call("echo", `{"n":1}`)), [...]string{"fetched", "hit"}[i]; how != want {
			t.Errorf("at %s: got %s, want %s", position, how, want)
		}
	}
}

// A client is notified of changed stats while it is subscribed to them, and only of those. Of two
// requests at once the last counts.
func TestStatsSubscription(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := beset(t, newFoe(nil), withoutPrefetch(defaults(t)))
		g := d.enter()
		const stats = `{"uri":"mcpschedd://stats"}`
		for i := range 20 {
			subscribed := i%2 == 0
			all := []sent{g.start(subscription(!subscribed), stats), g.start(subscription(subscribed), stats)}
			for _, s := range all {
				s.wait()
			}
			time.Sleep(2 * time.Second)
			before := len(g.notices("notifications/resources/updated"))
			g.call("get", "{}")
			time.Sleep(2 * time.Second)
			got := g.notices("notifications/resources/updated")[before:]
			if (len(got) > 0) != subscribed || len(got) > 2 {
				t.Errorf("subscribed %v: got %d notifications of one call", subscribed, len(got))
			}
		}
	})
}

// The reason and the line that changes it are about the same tools.
func TestStatusWhyOfChange(t *testing.T) {
	read := func(name string, speculate *bool) valuemodel.Rule {
		r := reading(name, time.Hour)
		r.Layer.Speculate = speculate
		return r
	}
	free := read("one/a", nil)
	free.Layer.Class, free.Layer.ValueClass = valuemodel.Pure, valuemodel.AuditOnly
	five := tools("a", "b", "c", "x", "y")
	hinted := append(tools("a"), `{"name":"b","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`)
	files := append(tools("list_directory"), `{"name":"read_text_file","inputSchema":{"type":"object","properties":{"path":{"type":"string"}}}}`)
	on := speculate.Rules{Mode: "on", MaxAge: time.Minute, Budget: 8000}
	shadow, noBudget := on, on
	shadow.Mode, noBudget.Budget = "shadow", 0
	for _, tt := range []struct {
		tools    []string
		provider string
		rules    []valuemodel.Rule
		use      speculate.Rules
		why      string
		fix      string
	}{
		{five, "", nil, shadow, `nothing is prefetched: [enrichment] mode is "shadow"`, `mode = "on" in [enrichment]`},
		{five, "", nil, noBudget, "nothing is prefetched: [enrichment] prefetch_budget_tokens is 0", "prefetch_budget_tokens = 8000 in [enrichment]"},
		{five, "", []valuemodel.Rule{free}, noBudget, "unclassified tool counts as a write (4 of its 5 tools)", "check --connect"},
		{five, "", []valuemodel.Rule{read("one/a", nil), read("one/b", new(false)), read("one/c", nil)}, on, "may change what it reads (2 of its 5 tools)", "remote = true"},
		{five, "", []valuemodel.Rule{read("one/a", new(false))}, on, "unclassified tool counts as a write (4 of its 5 tools)", "check --connect"},
		{hinted, "", nil, on, "nothing declares it read-only (1 of its 2 tools)", "trust = true"},
		{tools("git_show", "git_commit"), "git", nil, on, "may change what it reads (1 of its 2 tools)", ""},
		{files, "filesystem", nil, on, "", ""},
	} {
		o := stored(t, tt.rules, child(t, mcptest.Options{Name: "one", Tools: tt.tools}))
		o.Enrichment, o.Upstreams[0].Model.Provider = tt.use, tt.provider
		p := start(t, o)
		c := connect(t, p, handshake)
		c.tools()
		got := p.Report().Running[0].Upstreams[0]
		if !strings.Contains(got.Why, tt.why) || !strings.Contains(got.Change, tt.fix) || (got.Why != "") != (tt.why != "") || (got.Change != "") != (tt.fix != "") {
			t.Errorf("got %s; to change that: %s; want %s, %s", got.Why, got.Change, tt.why, tt.fix)
		}
	}
}

// A call that counts as a write because its server says so, or because of its arguments, is not one of an
// unclassified tool.
func TestUnclassifiedCalls(t *testing.T) {
	_, up := remote(t, mcptest.Options{Name: "one", Tools: append(tools("unknown", "run"),
		`{"name":"put","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false}}`)})
	p := start(t, stored(t, []valuemodel.Rule{classified("one/run", valuemodel.Shell)}, up))
	c := connect(t, p, handshake)
	c.tools()
	for _, tool := range []string{"unknown", "run", "put"} {
		c.call(tool, `{"command":"no-such-program"}`)
	}
	if got := p.Report().Totals; got.Calls != 3 || got.Reads != 0 || got.Unclassified != 1 {
		t.Errorf("got %d unclassified of %d calls, %d reads; want 1 of 3", got.Unclassified, got.Calls, got.Reads)
	}
}

// Calls of tools that the server does not list and refuses are not counted by name: names that clients make up
// would be labels in Prometheus.
func TestCallsOfNoTool(t *testing.T) {
	results := map[string]string{"made-up": `error {"code":-32602,"message":"no such tool"}`, "failed": `{"content":[],"isError":true}`}
	_, up := remote(t, mcptest.Options{Name: "one", Tools: tools("echo", "failed"), Results: results})
	p := start(t, stored(t, nil, up))
	c := connect(t, p, handshake)
	c.tools()
	for _, tool := range []string{"echo", "failed", "not-listed"} {
		c.call(tool, `{}`)
	}
	c.refused("tools/call", toolCall("made-up", `{}`))
	got := slices.Sorted(maps.Keys(p.Report().Tools))
	if want := []string{"(unknown)", "one/echo", "one/failed", "one/not-listed"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := p.Report().Totals.Unclassified; got != 3 {
		t.Errorf("got %d calls of tools without a class, want those of the other tools", got)
	}
}
