package proxy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/budget"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/record"
)

// spender is a client that reads how many tokens are left in its budgets.
type spender struct{ *planner }

// left returns the tokens left in a result's _meta.
func left(t *testing.T, result []byte) int {
	t.Helper()
	n, err := strconv.Atoi(string(jsonrpc.Get(jsonrpc.Get(result, "_meta"), "mcpschedd/tokens_left")))
	if err != nil {
		t.Fatalf("got %.300s, want the tokens that are left", result)
	}
	return n
}

// words makes the client read a text of n words, checks that the text is complete, and returns the
// tokens left.
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
	o.Plans, o.Budgets = planSettings(proxy.Plans{Enabled: true, Mutations: "allow"}), r
	return o
}

// As a budget is used up, first inlining stops, then plans return excerpts, then their optional
// steps are skipped. Requested results stay complete, even beyond the budget.
func TestBudgetSteps(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := beset(t, newFoe(wordy), budgeted(t, budget.Rules{Context: 20_000, Reserve: .25}))
		c := spender{d.plans(handshake)}
		run := func() (planAnswer, int) {
			t.Helper()
			a := c.planner.call("execute_tool_plan", `{"steps":[
				{"id":"big","tool":"get","arguments":{"words":5000}},
				{"id":"extra","tool":"get","arguments":{"n":7},"optional":true}]}`)
			return readPlan(t, a.Message), left(t, a.Result)
		}
		plan, _ := run()
		if len(plan.Left) > 0 || plan.why("extra") != "" {
			t.Errorf("got %+v, want all results complete", plan)
		}
		if n := c.words(10_500); n < 3000 || n > 5000 {
			t.Fatalf("%d tokens are left, want less than the reserve of 5000, and not much less", n)
		}
		before := left(t, c.planner.call("get", `{"n":1}`).Result)
		plan, after := run()
		if spent := before - after; len(plan.Left) == 0 || spent < before/2 || spent > before+200 {
			t.Errorf("a plan returned %d of %d tokens that were left, and omitted %v; want it to use most of them", spent, before, plan.Left)
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
		now := d.proxy.Report().Running[0]
		if len(now.Clients) != 1 || now.Clients[0].Used < 20_000 || *now.Clients[0].Left != 0 || now.Pool != nil {
			t.Errorf("the stats have %+v", now)
		}
	})
}

// Without a budget no result is changed. A reload turns budgets on and off without changing
// the list of tools.
func TestBudgetReload(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		o := withoutPrefetch(defaults(t))
		d := beset(t, newFoe(wordy), o)
		c := spender{d.plans(handshake)}
		list := string(c.request("tools/list", "{}").Result)
		plain := func() {
			t.Helper()
			if got, want := string(c.planner.call("get", `{"words":3}`).Result), said("word word word "); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if c := d.proxy.Report().Running[0].Clients[0]; c.Used != 0 || c.Left != nil {
				t.Errorf("the stats have budgets: %+v", c)
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

// The status file has the budgets after the last of several calls in a row.
func TestBudgetInStatus(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		o := withoutPrefetch(defaults(t))
		o.Budgets, o.Record.Dir = budget.Rules{Context: 20_000}, t.TempDir()
		d := beset(t, newFoe(wordy), o)
		c := spender{d.plans(handshake)}
		c.words(1)
		time.Sleep(3 * time.Second)
		want := c.words(5000)
		time.Sleep(15 * time.Second)
		files, _ := filepath.Glob(filepath.Join(o.Record.Dir, "*.status.json"))
		if len(files) != 1 {
			t.Fatalf("got the files %q, want one", files)
		}
		data, err := os.ReadFile(files[0])
		var s record.Status
		if err := errors.Join(err, json.Unmarshal(data, &s)); err != nil || len(s.Clients) != 1 || *s.Clients[0].Left != int64(want) {
			t.Errorf("got %s, %v, want %d tokens left", data, err, want)
		}
	})
}

// The pool is divided by the weights of clients' names.
func TestBudgetWeight(t *testing.T) {
	o := options(child(t, mcptest.Options{Name: "one"}))
	o.Budgets = budget.Rules{Pool: 10_000, Window: time.Hour, Weights: map[string]float64{"modest": .25}}
	s := start(t, o)
	modest, other := attach(t, s, handshake), connect(t, s, handshake)
	modest.opens("modest", "{}")
	modest.call("echo", "{}") // both share the pool from the first result on
	whole, fifth := left(t, []byte(other.call("echo", "{}"))), left(t, []byte(modest.call("echo", "{}")))
	if whole < 7000 || fifth > 2000 || fifth < 1000 {
		t.Errorf("%d tokens are left to a client, and %d to one with a quarter of its weight, want almost 8000 and 2000", whole, fifth)
	}
}
