package proxy_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// planned returns options with plans, and with rules by which list and get read and write writes.
func planned(t testing.TB, rules ...valuemodel.Rule) proxy.Options {
	t.Helper()
	rules = append([]valuemodel.Rule{reading("foe/list", 0), reading("foe/get", 0), writesAll("foe/write")}, rules...)
	o := withoutPrefetch(defaults(t, rules...))
	o.Plans = planSettings(proxy.Plans{Enabled: true, Mutations: "allow"})
	return o
}

// of makes the foe a server of an era.
func (f *foe) of(era string) *foe {
	f.rest = mcptest.New(mcptest.Options{Name: "foe", Era: era, Tools: f.tools}).Handler()
	return f
}

// planner is a client of either era that runs plans, in a bubble.
type planner struct {
	*guest
	era string
}

// plans starts a session on stdio for plans.
func (d *ordeal) plans(era string) *planner {
	d.t.Helper()
	if era == handshake {
		return &planner{d.enter(), era}
	}
	g := d.stranger("")
	g.breaks = true
	p := &planner{g, era}
	p.request("tools/list", p.said("{}"))
	return p
}

// said returns params with the _meta of a stateless client.
func (p *planner) said(params string) string {
	if p.era == handshake {
		return params
	}
	return withMeta(params, able, "")
}

func (p *planner) begin(tool, arguments string) sent {
	return p.start("tools/call", p.said(toolCall(tool, line(arguments))))
}

func (p *planner) call(tool, arguments string) answered { return p.begin(tool, arguments).wait() }

// run runs a plan of these steps.
func (p *planner) run(steps string) planAnswer {
	p.t.Helper()
	a := p.call("execute_tool_plan", `{"steps":[`+steps+`]}`)
	if a.none || a.Error != nil {
		p.t.Fatalf("got %s", a.Raw)
	}
	return readPlan(p.t, a.Message)
}

// read returns the result of mcpschedd_read_result as text.
func (p *planner) read(arguments string) string {
	p.t.Helper()
	a := p.call("mcpschedd_read_result", arguments)
	text, ok := jsonrpc.String(jsonrpc.At(a.Result, "/content/0/text"))
	if !ok {
		p.t.Fatalf("got %s", a.Raw)
	}
	return text
}

// kept returns the stored entry of a plan.
func (p *planner) kept() planAnswer {
	p.t.Helper()
	for text := range strings.Lines(p.read("{}")) {
		if handle, of, _ := strings.Cut(text, "  "); strings.Contains(of, ", result,") {
			var a struct{ Value planAnswer }
			if err := json.Unmarshal([]byte(p.read(fmt.Sprintf(`{"handle":%q}`, handle))), &a); err != nil {
				p.t.Fatal(err)
			}
			return a.Value
		}
	}
	p.t.Fatal("nothing was kept")
	panic("unreachable")
}

// why returns the reason in a step's status.
func (a planAnswer) why(id string) string {
	for _, s := range a.Steps {
		if s.ID == id {
			return s.Reason
		}
	}
	return "no such step"
}

// calls returns the tools that were called, with their arguments, in order.
func calls(ledger []visit) string {
	var all []string
	for _, v := range ledger {
		all = append(all, v.tool+v.arguments)
	}
	return strings.Join(all, " ")
}

// besetEach runs a test in a bubble for clients and servers of each era.
func besetEach(t *testing.T, o func(testing.TB) proxy.Options, serve func(*visit) reply, test func(t *testing.T, d *ordeal, p *planner)) {
	eachEra(t, func(t *testing.T, client, server string) {
		bubble.Test(t, func(t *testing.T) {
			d := beset(t, newFoe(serve).of(server), o(t))
			test(t, d, d.plans(client))
		})
	})
}

// A step asks its server for progress, as that restarts its timeout.
func TestPlanStepAsksForProgress(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFoe(nil)
		var token []byte
		f.first = func(_ http.ResponseWriter, m jsonrpc.Message) bool {
			if tool(m) == "get" {
				token = jsonrpc.Get(jsonrpc.Get(m.Params, "_meta"), "progressToken")
			}
			return false
		}
		o := planned(t)
		o.Upstreams[0].Timeout = time.Minute
		beset(t, f, o).plans(handshake).run(`{"id":"a","tool":"get","arguments":{}}`)
		if token == nil {
			t.Error("the step has no progress token")
		}
	})
}

// slowly answers each call after a second, or never if its arguments say so.
func slowly(v *visit) reply {
	if strings.Contains(v.arguments, "hang") {
		v.sleeps(1000 * time.Hour)
	} else {
		v.sleeps(time.Second)
	}
	return reply{result: v.told()}
}
