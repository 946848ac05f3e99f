package proxy_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/budget"
	"mcpschedd/internal/deliver"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
)

// spender is a client whose budgets the tests read.
type spender struct{ *planner }

// enterAs starts a session of a client with the given name and declared weight; "" means none.
func (d *ordeal) enterAs(name, weight string) spender {
	d.t.Helper()
	g := d.stranger("")
	able := "{}"
	if weight != "" {
		able = `{"experimental":{"mcpschedd/budget":{"weight":` + weight + `}}}`
	}
	g.request("initialize", `{"protocolVersion":"`+handshake+`","capabilities":`+able+`,"clientInfo":{"name":"`+name+`","version":"1"}}`)
	g.note("notifications/initialized", "{}")
	g.request("tools/list", "{}")
	return spender{&planner{g, handshake}}
}

// left returns the tokens left in a result's _meta.
func left(t *testing.T, result []byte) int {
	t.Helper()
	n, err := strconv.Atoi(string(jsonrpc.Get(jsonrpc.Get(result, "_meta"), "mcpschedd/tokens_left")))
	if err != nil {
		t.Fatalf("got %.300s, want it to say what is left", result)
	}
	return n
}

// words makes the client read a text of that many words, checks that it is complete, and
// returns the tokens left.
func (s spender) words(n int) int {
	s.t.Helper()
	a := s.planner.call("get", fmt.Sprintf(`{"words":%d}`, n))
	if got := strings.Count(string(a.Result), "word "); got != n {
		s.t.Errorf("got %d words, want all %d", got, n)
	}
	return left(s.t, a.Result)
}

// wordy serves texts of the requested number of words, one token each.
func wordy(v *visit) reply {
	v.sleeps(100 * time.Millisecond)
	if n, err := strconv.Atoi(string(jsonrpc.Get([]byte(v.arguments), "words"))); err == nil {
		return reply{result: said(strings.Repeat("word ", n))}
	}
	return reply{result: v.told()}
}

// budgeted returns options with budgets, plans and inlined results.
func budgeted(t *testing.T, r budget.Rules) proxy.Options {
	o := defaults(t, listing(t)...)
	o.Enrichment.Delivery, o.Enrichment.Wait = "inline", 300*time.Millisecond
	o.Plans, o.Budgets = proxy.Plans{Enabled: true, Mutations: "allow"}, r
	return o
}

// As a budget runs out, first inlining stops, then plans return less, then their optional
// steps are skipped. Requested results are complete to the end and beyond.
func TestBudgetSteps(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := beset(t, newFoe(wordy), budgeted(t, budget.Rules{Context: 20_000, Reserve: .25}))
		c := d.enterAs("guest", "")
		run := func() (planAnswer, int) {
			t.Helper()
			a := c.planner.call("execute_tool_plan", `{"steps":[
				{"id":"big","tool":"get","arguments":{"words":5000}},
				{"id":"extra","tool":"get","arguments":{"n":7},"optional":true}]}`)
			return readPlan(t, a.Message), left(t, a.Result)
		}
		plan, _ := run()
		if len(plan.Left) > 0 || plan.why("extra") != "" {
			t.Errorf("got %+v, want all of it", plan)
		}
		if n := c.words(10_500); n < 3000 || n > 5000 {
			t.Fatalf("%d tokens are left, want less than the reserve of 5000, and not much less", n)
		}
		before := left(t, c.planner.call("get", `{"n":1}`).Result)
		plan, after := run()
		if spent := before - after; len(plan.Left) == 0 || spent < before/2 || spent > before+200 {
			t.Errorf("a plan brought %d tokens of %d that were left, and left out %v; want it to bring most of what was left", spent, before, plan.Left)
		}
		if plan.Handle == "" || plan.why("extra") != "" {
			t.Errorf("got %+v, want a handle to the rest, and the optional step", plan)
		}
		c.words(3000)
		plan, _ = run()
		if why := plan.why("extra"); !strings.Contains(why, "[budgets]") {
			t.Errorf("the optional step of a plan: got %q, want it left out with its reason", why)
		}
		if plan.Outputs["big"] == nil || plan.Handle == "" || len(plan.Outputs["big"]) > 4000 {
			t.Errorf("got %+v, want a short excerpt of the step that is not optional", plan)
		}
		if n := c.words(2000); n != 0 {
			t.Errorf("%d tokens are left, want none", n)
		}
		report := d.proxy.Report()
		b := report.Running[0].Budgets
		if len(b.Sessions) != 1 || b.Sessions[0].Used < 20_000 || *b.Sessions[0].Left != 0 || b.Pool != nil {
			t.Errorf("the stats have %+v", b)
		}
		if text := report.StatusText(); !strings.Contains(text, "tokens, 0 are left") {
			t.Errorf("got %q, want it to say what is left", text)
		}
	})
}

// Results are inlined only while more than the reserve is left.
func TestBudgetInlining(t *testing.T) {
	for most, want := range map[int]bool{0: true, 8000: true, 6000: false} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				serve := func(v *visit) reply {
					v.sleeps(100 * time.Millisecond)
					if v.tool == "list" { // about 5000 tokens
						return reply{result: said(`{"things":[{"n":11}],"about":"` + strings.Repeat("word ", 4000) + `"}`)}
					}
					return reply{result: v.told()}
				}
				c := beset(t, newFoe(serve), budgeted(t, budget.Rules{Context: most, Reserve: .25})).enterAs("guest", "")
				result := string(c.planner.call("list", page(1)).Result)
				if got := strings.Contains(result, "mcpschedd/inlined"); got != want {
					t.Errorf("got %.100s … %s, inlined: %t, want %t", result, result[len(result)-300:], got, want)
				}
			})
		})
	}
}

// A turn's budget is restored in the next turn.
func TestBudgetOfATurn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := beset(t, newFoe(wordy), budgeted(t, budget.Rules{PerTurn: 1000}))
		c := d.enterAs("guest", "")
		c.words(100)
		for range 3 {
			time.Sleep(time.Second) // the model reads the result
			a, b := c.begin("get", `{"words":300}`), c.begin("get", `{"words":301}`)
			first, second := left(t, a.wait().Result), left(t, b.wait().Result)
			if got := min(first, second); got < 350 || got > 450 {
				t.Errorf("got %d left after two calls at once, want about 400", got)
			}
		}
	})
}

// The counted tokens equal those of an exact tokenizer, for texts of all kinds and lengths.
func TestBudgetCounts(t *testing.T) {
	texts := map[string]string{"unicode": strings.Repeat("Größe und Maß: 東京 🙂 \"quoted\"\n", 200), "digits": strings.Repeat("0.123456789,", 2000)}
	for _, name := range []string{"../../README.md", "../../CHANGELOG.md", "../../configs/pipeline_config.toml", "../../go.sum", "call.go", "../record/stats.schema.json", "../valuemodel/summary.json"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
		texts[name+", the start"] = string(text[:1500])
	}
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				o := withoutPrefetch(defaults(t))
				o.Budgets = budget.Rules{Context: 1_000_000}
				d := beset(t, newFoe(func(*visit) reply { return reply{result: said(text)} }), o)
				c := d.enterAs("guest", "")
				c.planner.call("get", "{}")
				synctest.Wait() // background counting has finished
				c.planner.call("get", "{}")
				used := d.proxy.Report().Running[0].Budgets.Sessions[0].Used // estimated, or counted by now
				want := 2 * deliver.Tokens([]byte(text))
				if math.Abs(float64(used)/float64(want)-1) > .05 {
					t.Errorf("got %d tokens, want about %d", used, want)
				}
			})
		})
	}
}

// Agents share a pool by weights. Declaring more than the own weight gains nothing, and one
// agent's use takes nothing from the promised share of others.
func TestBudgetPool(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		o := budgeted(t, budget.Rules{Pool: 100_000, Window: time.Hour, Weights: map[string]float64{"main": 2}})
		d := beset(t, newFoe(wordy), o)
		main, liar, modest := d.enterAs("main", ""), d.enterAs("guest", "1000"), d.enterAs("guest", "0.5")
		near := func(what string, got, want int) {
			t.Helper()
			if math.Abs(float64(got-want)) > .02*float64(want)+300 {
				t.Errorf("%s: got %d left, want about %d", what, got, want)
			}
		}
		for _, c := range []spender{main, liar, modest} {
			c.words(1)
		}
		synctest.Wait()
		near("of weight 2", main.words(1), 100_000*4/7)
		near("that declares 1000", liar.words(1), 100_000*2/7)
		near("that declares 0.5", modest.words(1), 100_000/7)
		liar.words(60_000) // requested, so it is delivered
		near("that asked for more than there is", liar.words(1), 0)
		near("of weight 2", main.words(1), 100_000*4/7)
		near("that declares 0.5", modest.words(1), 100_000/7)
		if p := d.proxy.Report().Running[0].Budgets.Pool; p == nil || p.Tokens != 100_000 || p.Used < 60_000 || p.LeftS > 3600 {
			t.Errorf("the stats have the pool as %+v", p)
		}
	})
}

// The workplaces of a daemon share one pool.
func TestBudgetOfADaemon(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		o := withoutPrefetch(defaults(t))
		o.Budgets = budget.Rules{Pool: 10_000, Window: time.Hour}
		o.Common = proxy.NewCommon(o)
		here, there := beset(t, newFoe(wordy), o).enterAs("guest", ""), beset(t, newFoe(wordy), o).enterAs("guest", "")
		here.words(1)
		there.words(1)
		synctest.Wait()
		if got, other := here.words(1), there.words(1); got > 5000 || other > 5000 || got < 4900 || other < 4900 {
			t.Errorf("got %d and %d left, want half of the pool each", got, other)
		}
		there.leave()
		there.leave = func() {}
		if got := here.words(1); got < 9900 {
			t.Errorf("got %d left once the other has gone, want all of it", got)
		}
		here.words(9000)
		time.Sleep(2 * time.Hour)
		if got := here.words(1); got < 9900 {
			t.Errorf("got %d left in the next window", got)
		}
	})
}

// Without a budget no result is changed. A reload turns budgets on and off without changing
// the list of tools.
func TestBudgetReload(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		o := withoutPrefetch(defaults(t))
		d := beset(t, newFoe(wordy), o)
		c := d.enterAs("guest", "")
		list := string(c.request("tools/list", "{}").Result)
		plain := func() {
			t.Helper()
			if got, want := string(c.planner.call("get", `{"words":3}`).Result), said("word word word "); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if b := d.proxy.Report().Running[0].Budgets; b != nil {
				t.Errorf("the stats have budgets: %+v", b)
			}
		}
		plain()
		with := o
		with.Budgets = budget.Rules{Context: 5000}
		d.proxy.Apply(with)
		if n := c.words(1000); n < 3500 || n > 4500 {
			t.Errorf("got %d left of 5000", n)
		}
		if got := string(c.request("tools/list", "{}").Result); got != list {
			t.Errorf("the list became %s", got)
		}
		d.proxy.Apply(o)
		plain()
	})
}

// The cost of an image does not depend on its size in bytes.
func TestBudgetOfImages(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		image := `{"content":[{"type":"image","mimeType":"image/png","data":"` + strings.Repeat("AAAA", 50_000) + `"},{"type":"text","text":"a chart"}]}`
		o := withoutPrefetch(defaults(t))
		o.Budgets = budget.Rules{Context: 10_000}
		d := beset(t, newFoe(func(*visit) reply { return reply{result: image} }), o)
		c := d.enterAs("guest", "")
		if n := left(t, c.planner.call("get", "{}").Result); n < 8000 || n > 9000 {
			t.Errorf("got %d left of 10000 after one image", n)
		}
	})
}

// The result of a task counts when it is delivered; its start and its status do not count.
func TestBudgetOfTasks(t *testing.T) {
	result := said(strings.Repeat("word ", 1000))
	_, up := remote(t, mcptest.Options{Name: "fake", Answer: func(_ context.Context, m jsonrpc.Message) []byte {
		switch m.Method {
		case "tools/call":
			return []byte(`{"task":{"taskId":"a","status":"working","createdAt":"2026-05-01T12:00:00Z"}}`)
		case "tasks/get":
			return []byte(`{"taskId":"a","status":"working"}`)
		case "tasks/result":
			return []byte(result)
		}
		return nil
	}})
	o := stored(t, nil, up)
	o.Budgets = budget.Rules{Context: 10_000}
	c := connect(t, start(t, o), handshake)
	if got := left(t, []byte(c.request("tools/call", `{"name":"echo","task":{}}`))); got != 10_000 {
		t.Errorf("got %d left when the task has begun, want all", got)
	}
	if got := c.request("tasks/get", `{"taskId":"a"}`); strings.Contains(got, "tokens_left") {
		t.Errorf("got %s, want nothing of the budget with a status", got)
	}
	if got := left(t, []byte(c.request("tasks/result", `{"taskId":"a"}`))); got < 8500 || got > 9300 {
		t.Errorf("got %d left after the result, want about 9000", got)
	}
}
