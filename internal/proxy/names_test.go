package proxy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/upstream"
)

// shelf is an upstream that cannot be started. Its list is known from an earlier run.
func shelf(name string, tools ...string) proxy.Upstream {
	offer := upstream.Offer{Version: handshake, Capabilities: json.RawMessage(`{"tools":{}}`)}
	for _, tool := range tools {
		raw := `{"name":` + string(jsonrpc.AppendString(nil, tool)) + `,"inputSchema":{"type":"object"}}`
		offer.Lists[upstream.Tools] = append(offer.Lists[upstream.Tools], upstream.Item{Name: tool, Raw: []byte(raw)})
	}
	kept := keptOffer(&offer)
	return proxy.Upstream{
		Fingerprint: name + strings.Join(tools, " "),
		Spec:        upstream.Spec{Name: name, Unusable: errors.New("on the shelf")},
		Store:       upstream.Store{Load: func() ([]byte, error) { return kept, nil }},
	}
}

// keptOffer returns the store of a server that made an offer.
func keptOffer(offer *upstream.Offer) []byte {
	kept, _ := json.Marshal(struct { // it can be marshalled
		Format int `json:"format"`
		*upstream.Offer
	}{4, offer})
	return kept
}

func TestNames(t *testing.T) {
	one := []proxy.Upstream{shelf("a", "read", "x__y")}
	two := []proxy.Upstream{shelf("a", "read", "b__write"), shelf("b", "read", "write")}
	tests := []struct {
		name  string
		style string
		ups   []proxy.Upstream
		want  string
	}{
		{"one, auto", "auto", one, "read x__y"},
		{"one, by default", "", one, "read x__y"},
		{"one, always", "always", one, "a__read a__x__y"},
		{"two, auto", "auto", two, "a__read a__b__write b__read b__write"},
		{"two, never: the first has the name", "never", two, "read b__write write"},
		{"two, always", "always", two, "a__read a__b__write b__read b__write"},
		{"none", "auto", nil, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := options(test.ups...)
			o.NameStyle = test.style
			c := connect(t, start(t, o), handshake)
			if got := c.tools(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestAllowAndDeny(t *testing.T) {
	up := child(t, mcptest.Options{Name: "a"})
	up.Allows = func(tool string) bool {
		ok, err := path.Match("e*", tool)
		return ok && err == nil
	}
	for _, others := range [][]proxy.Upstream{nil, {shelf("b", "hold")}} {
		c := connect(t, start(t, options(append(others, up)...)), handshake)
		prefix := ""
		if others != nil {
			prefix = "a__"
		}
		if got := c.tools(); !strings.HasSuffix(got, prefix+"echo "+prefix+"early") {
			t.Errorf("got tools %q", got)
		}
		for _, name := range []string{"pid", "a__pid"} {
			if code, message := c.refused("tools/call", toolCall(name, "")); code != jsonrpc.CodeInvalidParams || !strings.Contains(message, "unknown tool") {
				t.Errorf("%s: got %d %s", name, code, message)
			}
		}
	}
}

// Every shown name leads to exactly one tool, is resolved to that tool, and is never given to
// another, whatever the configuration becomes.
func FuzzNames(f *testing.F) {
	f.Add(uint64(1), "read b__read", "read", uint8(0))
	f.Add(uint64(7), "a__b a_ __ _", "a b__a", uint8(1))
	f.Add(uint64(9), "read \x00 é", "b__read a__read", uint8(2))
	f.Fuzz(func(t *testing.T, seed uint64, first, second string, style uint8) {
		tools := map[string][]string{"a": unique(first), "b": unique(second)}
		v := proxy.NewView("")
		bound := make(map[string][2]string) // name → target it was shown for
		random := rand.New(rand.NewPCG(seed, 1))
		for range 6 {
			ups := [][]string{{"a"}, {"b"}, {"a", "b"}, {"b", "a"}, {}}[random.IntN(5)]
			prefix := []bool{len(ups) != 1, true, false}[style%3]
			never := style%3 == 2
			for _, up := range ups {
				for _, tool := range tools[up] {
					name := v.Show(ups, prefix, never, up, tool)
					target := [2]string{up, tool}
					if name == "" {
						// Only if all its possible names have belonged to other tools.
						_, plain := bound[tool]
						_, prefixed := bound[up+"__"+tool]
						if !plain && (never || !prefix) || !prefixed && !never {
							t.Errorf("%s/%q bears no name", up, tool)
						}
						continue
					}
					if old, taken := bound[name]; taken && old != target {
						t.Errorf("%q was %q and is now %q", name, old, target)
					}
					bound[name] = target
				}
			}
			for name, target := range bound {
				if gotUp, gotTool, ok := v.Resolve(ups, prefix, never, name); !ok || gotUp != target[0] || gotTool != target[1] {
					t.Errorf("%q leads to %s/%q (%v), want %q", name, gotUp, gotTool, ok, target)
				}
			}
		}
	})
}

func unique(words string) []string {
	var out []string
	seen := make(map[string]bool)
	for w := range strings.SplitSeq(words, " ") {
		if w != "" && !seen[w] {
			seen[w] = true
			out = append(out, w)
		}
	}
	return out
}

// With one upstream, then two, then one again, a listed name always means the same tool.
func TestReloadNeverRebindsAName(t *testing.T) {
	_, a := remote(t, mcptest.Options{Name: "a"})
	_, b := remote(t, mcptest.Options{Name: "b"})
	s := start(t, options(a))
	c := connect(t, s, handshake)
	who := func(tool string) string {
		m := c.begin(tool, "").wait()
		switch {
		case strings.Contains(string(m.Result), `"text":"a"`):
			return "a"
		case strings.Contains(string(m.Result), `"text":"b"`):
			return "b"
		}
		return "nobody"
	}
	steps := []struct {
		ups  []proxy.Upstream
		want map[string]string
	}{
		{[]proxy.Upstream{a}, map[string]string{"echo": "a"}},
		{[]proxy.Upstream{a, b}, map[string]string{"echo": "a", "a__echo": "a", "b__echo": "b"}},
		{[]proxy.Upstream{b}, map[string]string{"echo": "nobody", "a__echo": "nobody", "b__echo": "b"}},
		{[]proxy.Upstream{b, a}, map[string]string{"echo": "a", "a__echo": "a", "b__echo": "b"}},
		{nil, map[string]string{"echo": "nobody", "a__echo": "nobody", "b__echo": "nobody"}},
	}
	for i, step := range steps {
		s.Apply(options(step.ups...))
		list := c.tools()
		if len(step.ups) == 1 && step.ups[0].Spec.Name == "b" && strings.HasPrefix(list, "echo") {
			t.Errorf("step %d: b is listed under a name that was a's: %s", i, list)
		}
		for tool, want := range step.want {
			if got := who(tool); got != want {
				t.Errorf("step %d: %s reached %s, want %s", i, tool, got, want)
			}
		}
	}
}

func TestReloadWhileCallsAreOpen(t *testing.T) {
	gate := mcptest.NewGate(t)
	beacon := mcptest.NewGate(t)
	kept, gone := child(t, mcptest.Options{Name: "kept"}), child(t, mcptest.Options{Name: "gone", Beacon: beacon.Addr()})
	s := start(t, options(kept, gone))
	c := connect(t, s, handshake)
	c.tools()
	pid := c.said("kept__pid", "")
	open := c.begin("kept__hold", `{"gate":"`+gate.Addr()+`"}`)
	other := mcptest.NewGate(t)
	cut := c.begin("gone__hold", `{"gate":"`+other.Addr()+`"}`)
	at, process := gate.Next(), beacon.Next()
	other.Next()
	added := child(t, mcptest.Options{Name: "added"})
	s.Apply(options(kept, added))
	process.Gone()
	if got := brokenText(t, cut.wait()); !strings.Contains(got, `"gone"`) {
		t.Errorf("the call to what is gone: got %q", got)
	}
	c.next("notifications/tools/list_changed")
	for !strings.Contains(c.tools(), "added__echo") {
		c.next("notifications/tools/list_changed")
	}
	c.call("added__echo", "")
	at.Open()
	if m := open.wait(); m.Error != nil || strings.Contains(string(m.Result), "isError") {
		t.Errorf("the call to what stayed: got %s", m.Raw)
	}
	if got := c.said("kept__pid", ""); got != pid {
		t.Errorf("process %s became %s for nothing", pid, got)
	}
	changed := child(t, mcptest.Options{Name: "kept", Instructions: "new"})
	s.Apply(options(changed, added))
	if got := c.said("kept__pid", ""); got == pid || got == "" {
		t.Errorf("still process %q after its configuration changed", got)
	}
}

// A burst of changes causes one notification at once and one after the interval, and none if the
// bytes are the same.
func TestListChangedIsCoalesced(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		o := proxy.Options{Upstreams: []proxy.Upstream{shelf("a", "t")}}
		f, server, stop := servePipes(t, o)
		defer stop()
		id := f.open("/mcp", handshake)
		list := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
		f.post("/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Mcp-Session-Id", id)
		f.post("/mcp", list, "Mcp-Session-Id", id)
		stream := f.do(f.request("GET", "/mcp", "", "Mcp-Session-Id", id))
		var told []time.Duration
		began := time.Now()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for next := eventReader(stream.Body); ; {
				line, err := next()
				if err != nil {
					return
				}
				if strings.Contains(line, "notifications/tools/list_changed") {
					told = append(told, time.Since(began))
				}
			}
		}()
		apply := func(tools ...string) {
			server.Apply(proxy.Options{Upstreams: []proxy.Upstream{shelf("a", tools...)}})
			synctest.Wait()
		}
		for i := range 10 { // every 10 ms
			apply("t", fmt.Sprint("u", i))
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		apply("t", "u9") // unchanged
		time.Sleep(time.Minute)
		apply("t", "v") // changed back after the notification
		apply("t", "u9")
		time.Sleep(time.Minute)
		stream.Body.Close()
		<-ended
		// The interval starts with the first change in it and is not extended by later ones.
		want := []time.Duration{0, 510 * time.Millisecond, 2*time.Minute + 100*time.Millisecond, 2*time.Minute + 600*time.Millisecond}
		if fmt.Sprint(told) != fmt.Sprint(want) {
			t.Errorf("told at %v, want %v", told, want)
		}
	})
}

// When a server keeps changing its names, new names are listed only until the bound on their size.
// From then on tools that have a name keep it, no new name is listed, and other servers are not
// affected.
func TestNamesThatKeepChanging(t *testing.T) {
	generation := func(n int) []string {
		var names []string
		for i := range 400 {
			names = append(names, fmt.Sprintf("g%d_%d_%s", n, i, strings.Repeat("x", 1000)))
		}
		return names
	}
	_, fickle := remote(t, mcptest.Options{Name: "a", Tools: tools(append(generation(0), "change")...)})
	c := connect(t, start(t, options(fickle, child(t, mcptest.Options{Name: "b", Tools: tools("echo", "change")}))), handshake)
	ever := make(map[string]bool)
	list := func() (listed int) {
		for name := range strings.FieldsSeq(c.tools()) {
			if ever[name] = true; strings.HasPrefix(name, "a__g") {
				listed++
			}
		}
		return listed
	}
	become := func(up string, names []string) {
		text, _ := json.Marshal(append(names, "change"))
		c.call(up+"__change", fmt.Sprintf(`{"names":%s,"n":1}`, text))
		c.next("notifications/tools/list_changed")
	}
	if n := list(); n != 400 {
		t.Fatalf("%d names are listed at first", n)
	}
	for n := 1; n <= 3; n++ {
		become("a", generation(n))
		list()
	}
	if len(ever) < 800 || len(ever) > 1100 {
		t.Errorf("%d names were listed, want no more than there is room for", len(ever))
	}
	become("a", generation(0))
	if n := list(); n != 400 {
		t.Errorf("%d of the first names are listed again", n)
	}
	become("b", []string{"echo", "another"})
	if got := c.tools(); !strings.HasSuffix(got, "b__echo b__another b__change") {
		t.Errorf("of the other server: got ….%s", got[max(0, len(got)-60):])
	}
}
