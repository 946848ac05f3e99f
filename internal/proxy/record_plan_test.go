package proxy_test

import (
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/record"
)

// However a plan ends whose client is asked or cancels, the record has one line for it, which
// says whether it was cancelled. Formerly a plan whose client never returned had none, though
// it had made calls.
func TestPlanIsRecordedOnce(t *testing.T) {
	const plan = `{"steps":[{"id":"a","tool":"get"},{"id":"b","tool":"list","depends_on":["a"]}]}`
	handleOf := func(a answered) []byte { return jsonrpc.Get(a.Result, "requestState") }
	for _, test := range []struct {
		name      string
		asks      bool // its first step asks
		then      func(t *testing.T, d *ordeal, g *guest, s sent)
		cancelled bool
	}{
		{"it runs through", false, func(_ *testing.T, _ *ordeal, _ *guest, s sent) { s.wait() }, false},
		{"its client is back with the answers", true, func(_ *testing.T, _ *ordeal, g *guest, s sent) {
			again := retry(toolCall("execute_tool_plan", plan), s.wait().Result, tagged("me"))
			g.request("tools/call", withMeta(string(again), able, ""))
		}, false},
		{"its client never comes back", true, func(_ *testing.T, _ *ordeal, _ *guest, s sent) {
			s.wait()
			time.Sleep(11 * time.Minute)
		}, true},
		{"its client comes back with something else", true, func(t *testing.T, _ *ordeal, g *guest, s sent) {
			other := jsonrpc.Set([]byte(toolCall("execute_tool_plan", `{"steps":[{"id":"x","tool":"list"}]}`)), "requestState", handleOf(s.wait()))
			if a := g.request("tools/call", withMeta(string(other), able, "")); a.Error == nil {
				t.Errorf("got %s, want that it is refused", a.Raw)
			}
		}, true},
		{"its client is asked, and its session ends", true, func(_ *testing.T, d *ordeal, g *guest, s sent) {
			s.wait()
			g.leave()
			d.guests = nil
		}, true},
		{"its session ends under way", false, func(_ *testing.T, d *ordeal, g *guest, s sent) {
			time.Sleep(100 * time.Millisecond)
			go s.wait()
			g.leave()
			d.guests = nil
		}, false}, // open calls are waited for
		{"it is withdrawn", false, func(_ *testing.T, _ *ordeal, _ *guest, s sent) {
			time.Sleep(100 * time.Millisecond)
			s.cancel()
			time.Sleep(time.Second)
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				o := defaults(t, listing(t)...)
				o.Plans.Enabled = true
				d := beset(t, newFoe(func(v *visit) reply {
					v.sleeps(300 * time.Millisecond)
					if v.tool == "get" && test.asks {
						return reply{asks: elicits}
					}
					return reply{result: v.told()}
				}), o)
				g := d.stranger("")
				s := g.start("tools/call", withMeta(toolCall("execute_tool_plan", plan), able, ""))
				test.then(t, d, g, s)
				plans, steps := d.told(record.Plan), make(map[string]bool)
				for _, e := range d.told(record.Call) {
					if e.Plan == 1 {
						steps[e.Step] = true
					}
				}
				if len(plans) != 1 || len(steps) == 0 {
					t.Fatalf("got %d lines of the plan, and some of %d of its steps: want one of it", len(plans), len(steps))
				}
				e := plans[0]
				if e.Plan != 1 || e.Tool != "execute_tool_plan" || e.Cancelled != test.cancelled || e.Steps != len(steps) {
					t.Errorf("got %+v, want plan 1 of %d calls, cancelled: %v", e, len(steps), test.cancelled)
				}
				if !test.cancelled && e.BytesOut == 0 {
					t.Error("its answer has no bytes")
				}
			})
		})
	}
}

// The same with a server that is a process: its client disconnects while it is asked.
func TestPlanOfAProcessIsRecordedOnce(t *testing.T) {
	o := options(child(t, mcptest.Options{Name: "asks"}))
	o.Plans.Enabled, o.Plans.Mutations = true, "allow"
	var book account
	s := start(t, book.kept(o))
	c := connect(t, s, stateless)
	result := c.call("execute_tool_plan", `{"steps":[{"id":"a","tool":"ask","arguments":{"asks":[`+elicits+`]}}]}`)
	if jsonrpc.Get([]byte(result), "inputRequests") == nil {
		t.Fatalf("got %s, want a question", result)
	}
	c.hangUp()
	s.Close()
	plans := book.of(record.Plan)
	if len(plans) != 1 || !plans[0].Cancelled || plans[0].Steps == 0 {
		t.Errorf("got %+v, want one plan, cancelled", plans)
	}
}
