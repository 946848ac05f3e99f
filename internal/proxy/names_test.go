package proxy_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"path"
	"strings"
	"testing"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// shelf returns an upstream that cannot be started. Its list was stored by an earlier process.
func shelf(name string, tools ...string) catalog.Upstream {
	var offer upstream.Offer
	for _, tool := range tools {
		raw := `{"name":` + string(jsonrpc.AppendString(nil, tool)) + `,"inputSchema":{"type":"object"}}`
		offer.Lists[upstream.Tools] = append(offer.Lists[upstream.Tools], upstream.Item{Name: tool, Raw: []byte(raw)})
	}
	return shelved(name, offer)
}

// shelved returns an upstream that cannot be started, with what an earlier process has stored of it.
func shelved(name string, offer upstream.Offer) catalog.Upstream {
	offer.Version, offer.Capabilities = handshake, json.RawMessage(`{"tools":{}}`)
	kept, _ := json.Marshal(struct { // it can be marshalled
		Format int `json:"format"`
		*upstream.Offer
	}{4, &offer})
	return catalog.Upstream{
		Fingerprint: name + string(kept),
		Spec:        upstream.Spec{Name: name, Unusable: errors.New("on the shelf")},
		Store:       upstream.Store{Load: func() ([]byte, error) { return kept, nil }},
	}
}

func TestAllowAndDeny(t *testing.T) {
	up := child(t, mcptest.Options{Name: "a"})
	up.Allows = func(tool string) bool {
		ok, err := path.Match("e*", tool)
		return ok && err == nil
	}
	for _, others := range [][]catalog.Upstream{nil, {shelf("b", "hold")}} {
		c := connect(t, start(t, options(append(others, up)...)), handshake)
		prefix := ""
		if others != nil {
			prefix = "a__"
		}
		if got := c.tools(); !strings.HasSuffix(got, prefix+"echo") {
			t.Errorf("got tools %q", got)
		}
		for _, name := range []string{"pid", "a__pid"} {
			if code, message := c.refused("tools/call", toolCall(name, "")); code != jsonrpc.CodeInvalidParams || !strings.Contains(message, "unknown tool") {
				t.Errorf("%s: got %d %s", name, code, message)
			}
		}
	}
}

// A bare name stands for the tool of the only server that may serve it, whatever others list.
func TestBareNameOfTheOnlyAllowed(t *testing.T) {
	denied := child(t, mcptest.Options{Name: "a"})
	denied.Allows = func(tool string) bool { return tool != "pid" }
	c := connect(t, start(t, options(denied, child(t, mcptest.Options{Name: "b"}))), handshake)
	c.tools()
	c.call("pid", "")
}

// With one upstream, then two, then one again, a listed name always stands for the same tool.
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
		ups  []catalog.Upstream
		want map[string]string
	}{
		{[]catalog.Upstream{a}, map[string]string{"echo": "a"}},
		{[]catalog.Upstream{a, b}, map[string]string{"echo": "a", "a__echo": "a", "b__echo": "b"}},
		{[]catalog.Upstream{b}, map[string]string{"echo": "nobody", "a__echo": "nobody", "b__echo": "b"}},
		{[]catalog.Upstream{b, a}, map[string]string{"echo": "a", "a__echo": "a", "b__echo": "b"}},
		{nil, map[string]string{"echo": "nobody", "a__echo": "nobody", "b__echo": "nobody"}},
	}
	for i, step := range steps {
		s.Apply(options(step.ups...))
		list := c.tools()
		if len(step.ups) == 1 && step.ups[0].Spec.Name == "b" && strings.HasPrefix(list, "echo") {
			t.Errorf("step %d: a tool of b has a name that belonged to a: %s", i, list)
		}
		for tool, want := range step.want {
			if got := who(tool); got != want {
				t.Errorf("step %d: %s reached %s, want %s", i, tool, got, want)
			}
		}
	}
}

// A name without its upstream's prefix reaches the only upstream that lists it, and none if
// several do.
func TestAmbiguousName(t *testing.T) {
	_, a := remote(t, mcptest.Options{Name: "a"})
	c := connect(t, start(t, options(a, shelf("b", "echo", "own"))), handshake)
	if got := c.tools(); !strings.Contains(got, "a__echo") || !strings.Contains(got, "b__echo") {
		t.Fatalf("got tools %q", got)
	}
	if code, message := c.refused("tools/call", toolCall("echo", "")); code != jsonrpc.CodeInvalidParams || !strings.Contains(message, "unknown tool") {
		t.Errorf("a tool of both: got %d %s", code, message)
	}
	if got := c.call("own", ""); !strings.Contains(got, `"isError":true`) || !strings.Contains(got, "on the shelf") {
		t.Errorf("a tool of one: got %s", got)
	}
}

// With style "never", the log, the status and check say that a server's tools are not listed.
func TestUnlisted(t *testing.T) {
	srv, two := remote(t, mcptest.Options{Name: "two", Tools: tools("a", "b")})
	o := stored(t, nil, child(t, mcptest.Options{Name: "one", Tools: tools("a", "b")}), two)
	var log logged
	o.NameStyle, o.Log = "never", slog.New(slog.NewTextHandler(&log, nil))
	s := start(t, o)
	c := connect(t, s, handshake)
	c.tools()
	srv.SetTools(tools("a", "b", "c")...)
	srv.Announce("notifications/tools/list_changed", "{}")
	c.next("notifications/tools/list_changed")
	c.tools()
	const text = "tools are not listed, as"
	if n := log.count(text); n != 1 {
		t.Errorf("the log has it %d times, want once", n)
	}
	ups := s.Report().Running[0].Upstreams
	if strings.Contains(ups[0].Why, text) || !strings.Contains(ups[1].Why, "2 of its 3 "+text) || !strings.Contains(ups[1].Change, "name_style") {
		t.Errorf("got %+v", ups)
	}
	found := s.Survey(t.Context(), func(string) {})
	if two := found[1]; two.Status.Why != ups[1].Why || two.Tools[0].Warning != "" || two.Tools[0].Listed != "" || two.Tools[2].Listed != "c" {
		t.Errorf("got %+v", two)
	}
}

// Check warns of a tool that has no argument with the statement by which its calls are classified.
func TestSurveyLacks(t *testing.T) {
	rule := valuemodel.Rule{Pattern: "one/a", Source: "test", Layer: valuemodel.Layer{Classify: valuemodel.SQL}}
	s := start(t, stored(t, []valuemodel.Rule{rule}, child(t, mcptest.Options{Name: "one", Tools: tools("a", "b")})))
	found := s.Survey(t.Context(), func(string) {})[0].Tools
	if want := `no call of tool "a" is cached or prefetched: it has no argument for the statement that classify needs`; found[0].Warning != want || found[1].Warning != "" {
		t.Errorf("got %q, %q, want %q, none", found[0].Warning, found[1].Warning, want)
	}
}
