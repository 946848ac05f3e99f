package proxy_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

func plain(t testing.TB) proxy.Options { return planned(t) }

// A step that hangs times out, is cancelled at the server at once, and fails only the steps
// that depend on it.
func TestPlanStepHangs(t *testing.T) {
	besetEach(t, plain, slowly, func(t *testing.T, d *ordeal, p *planner) {
		began := time.Now()
		a := p.run(`{"id":"a","tool":"get","arguments":{"x":"hang"},"timeout":"5s"},
			{"id":"b","tool":"get","arguments":{"x":{"$ref":"a#"}}},
			{"id":"c","tool":"get","arguments":{"x":1}}`)
		if want := "a failed, b skipped, c ok"; a.states() != want || time.Since(began) != 5*time.Second {
			t.Errorf("got %s after %v, want %s after 5s", a.states(), time.Since(began), want)
		}
		if got := a.why("a"); got != "no answer within 5s" {
			t.Errorf("got %q", got)
		}
		if got, want := a.why("b"), "Skipped because dependency 'a' failed"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		synctest.Wait()
		for _, v := range d.foe.ledger() {
			if v.ctx.Err() == nil && v.went.IsZero() {
				t.Errorf("%s%s is with the server still", v.tool, v.arguments)
			}
		}
	})
}

// A plan that times out returns the results so far, large ones by handle.
func TestPlanTakesTooLong(t *testing.T) {
	o := func(t testing.TB) proxy.Options {
		o := planned(t)
		o.Plans.Timeout = 10 * time.Second
		o.Plans.Budget = 300
		return o
	}
	serve := func(v *visit) reply {
		if v.tool == "list" {
			return reply{result: said(`{"rows":[` + strings.Repeat(`{"text":"lorem ipsum dolor sit amet"},`, 500) + `{}]}`)}
		}
		return slowly(v)
	}
	besetEach(t, o, serve, func(t *testing.T, d *ordeal, p *planner) {
		a := p.run(`{"id":"a","tool":"list"},
			{"id":"w","tool":"write","arguments":{"x":"hang"}},
			{"id":"b","tool":"get","arguments":{"x":{"$ref":"w#"}}},
			{"id":"v","tool":"write"}`)
		if want := "a ok, w failed, b cancelled, v cancelled"; a.states() != want || !strings.Contains(a.Ended, "timeout") {
			t.Errorf("got %s, ended %q, want %s", a.states(), a.Ended, want)
		}
		if len(a.Left) == 0 || a.Handle == "" {
			t.Fatalf("got %+v, want a handle to what did not fit", a.Left)
		}
		if text := p.read(fmt.Sprintf(`{"handle":%q,"pointer":"/a/rows/499/text"}`, a.Handle)); text != `{"value":"lorem ipsum dolor sit amet"}` {
			t.Errorf("got %s", text)
		}
		if got := calls(d.foe.ledger()); strings.Count(got, "write") != 1 {
			t.Errorf("got calls %s: a write began after the end", got)
		}
	})
}

// A plan that its client cancels gets no response: its open calls are cancelled at the server,
// no other call starts, and the results of its writes can be read.
func TestPlanWithdrawn(t *testing.T) {
	besetEach(t, plain, slowly, func(t *testing.T, d *ordeal, p *planner) {
		s := p.begin("execute_tool_plan", `{"steps":[{"id":"w","tool":"write","arguments":{"n":1}},
			{"id":"g","tool":"get","arguments":{"x":"hang"}},
			{"id":"v","tool":"write","arguments":{"n":{"$ref":"g#"}}}]}`)
		time.Sleep(3 * time.Second)
		s.cancel()
		synctest.Wait()
		ledger := d.foe.ledger()
		if got, want := calls(ledger), `write{"n":1} get{"x":"hang"}`; got != want || ledger[1].ctx.Err() == nil {
			t.Errorf("got calls %s, want %s, the last cancelled: %v", got, want, ledger[1].ctx.Err())
		}
		if n := d.proxy.Stats().Store.Flights; n != 0 {
			t.Errorf("%d flights are left", n)
		}
		a := p.kept()
		if want := "w ok, g failed, v cancelled"; a.states() != want || !strings.HasPrefix(a.why("g"), "cut short") {
			t.Errorf("got %s (%s), want %s", a.states(), a.why("g"), want)
		}
		if string(a.Outputs["w"]) == "" {
			t.Errorf("got outputs %v", a.Outputs)
		}
	})
}

// For any response of a server, the step's status describes it, and its contents are treated
// as data.
func TestPlanStepLies(t *testing.T) {
	results := map[string]struct{ result, state, why, value string }{
		"both":     {`{"content":[{"type":"text","text":"no"}],"structuredContent":{"x":1},"isError":true}`, "failed", "no", ""},
		"mute":     {`{"content":[],"isError":true}`, "failed", "did not say why", ""},
		"odd":      {`{"content":[{"type":"text","text":"so so"}],"isError":"yes"}`, "failed", "so so", ""},
		"refuses":  {`error {"code":-32000,"message":"out of order"}`, "failed", "out of order", ""},
		"hollow":   {`{}`, "failed", "no content", ""},
		"list":     {`[]`, "failed", "", ""},
		"task":     {`{"task":{"taskId":"t","status":"working"}}`, "failed", "task", ""},
		"task2":    {`{"resultType":"task","taskId":"t","status":"working"}`, "failed", "", ""},
		"guide":    {texts("$ref:echo.did"), "ok", "", `"$ref:echo.did"`},
		"object":   {texts(`{"$ref":"echo#/did"}`), "ok", "", `{"$ref":"echo#/did"}`},
		"template": {`{"content":[],"structuredContent":{"$tpl":"${echo#}","$lit":{"$ref":"nobody#"}}}`, "ok", "", `{"$tpl":"${echo#}","$lit":{"$ref":"nobody#"}}`},
		"broken":   {texts(`{"x":`), "ok", "", `"{\"x\":"`},
		"twice":    {`{"content":[{"type":"text","text":"1"},{"type":"text","text":"2"}]}`, "ok", "", `"1\n2"`},
		"null":     {`{"content":[{"type":"text","text":"7"}],"structuredContent":null}`, "ok", "", `7`},
		"picture":  {`{"content":[{"type":"image","data":"AA==","mimeType":"image/png"}]}`, "ok", "", `""`},
	}
	eachEra(t, func(t *testing.T, client, server string) {
		o := mcptest.Options{Name: "liar", Era: server, Results: make(map[string]string)}
		for name, r := range results {
			o.Results[name] = r.result
			o.Tools = append(o.Tools, `{"name":"`+name+`","inputSchema":{"type":"object"}}`)
		}
		o.Tools = append(o.Tools, `{"name":"echo","inputSchema":{"type":"object"}}`)
		_, up := remote(t, o)
		opt := stored(t, []valuemodel.Rule{reading("liar/*", 0)}, up)
		opt.Plans.Enabled = true
		c := connect(t, start(t, opt), client)
		for name, want := range results {
			got := c.plan(fmt.Sprintf(`{"steps":[{"id":"lie","tool":%q},{"id":"echo","tool":"echo","arguments":{"did":{"$ref":"lie#"},"old":"$ref:lie"}}]}`, name))
			if got.Steps[0].Status != want.state || !strings.Contains(got.why("lie"), want.why) || string(got.Outputs["lie"]) != want.value {
				t.Errorf("%s: got %+v, %s; want %s %q %s", name, got.Steps[0], got.Outputs["lie"], want.state, want.why, want.value)
			}
			if want.state != "ok" {
				if got.Steps[1].Status != "skipped" {
					t.Errorf("%s: what refers to it is %s", name, got.Steps[1].Status)
				}
				continue
			}
			old := want.value
			if all := `"arguments":{"did":` + want.value + `,"old":` + old + `}`; !strings.Contains(string(got.Outputs["echo"]), all) {
				t.Errorf("%s: got %s, want %s in it", name, got.Outputs["echo"], all)
			}
		}
	})
}

func texts(text string) string { return string(texted(text)) }

// Of a step's result, only the parts that later steps need are kept.
func TestPlanKeepsNoPictures(t *testing.T) {
	size, pictures := slice(1<<18, 1<<20), 60
	gate := mcptest.NewGate(t)
	picture := `{"content":[{"type":"image","mimeType":"image/png","data":"` + strings.Repeat("A", size) + `"}],"structuredContent":{"n":1}}`
	_, up := remote(t, mcptest.Options{Name: "one", Tools: tools("picture", "hold", "echo"), Results: map[string]string{"picture": picture}})
	o := stored(t, []valuemodel.Rule{{Pattern: "one/*", Source: "test", Layer: valuemodel.Layer{Class: valuemodel.ReadOnly, Volatile: new(true)}}}, up)
	o.Plans.Enabled = true
	c := connect(t, start(t, o), handshake)
	var steps, ids, refs []string
	for i := range pictures {
		steps = append(steps, fmt.Sprintf(`{"id":"p%d","tool":"picture","arguments":{"i":%d}}`, i, i))
		ids = append(ids, fmt.Sprintf(`"p%d"`, i))
		refs = append(refs, fmt.Sprintf(`{"$ref":"p%d#"}`, i))
	}
	before := heap()
	p := c.begin("execute_tool_plan", fmt.Sprintf(`{"steps":[%s,{"id":"h","tool":"hold","arguments":{"gate":%q},"depends_on":[%s]},`+
		`{"id":"all","tool":"echo","arguments":{"all":[%s]},"depends_on":["h"]}],"output_steps":["all"]}`,
		strings.Join(steps, ","), gate.Addr(), strings.Join(ids, ","), strings.Join(refs, ",")))
	at := gate.Next()
	if grown := int64(heap()) - int64(before); grown > int64(pictures/2*size) {
		t.Errorf("the heap has grown by %d MiB", grown>>20)
	}
	at.Open()
	if a := readPlan(t, p.wait()); !strings.Contains(string(a.Outputs["all"]), `{"n":1},{"n":1}`) {
		t.Errorf("got %+v", a)
	}
}
