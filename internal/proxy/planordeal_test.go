package proxy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// planned says that list and get read, that write writes, and that plans may do
// either.
func planned(t testing.TB, rules ...valuemodel.Rule) proxy.Options {
	t.Helper()
	rules = append([]valuemodel.Rule{
		reading("foe/list", 0), reading("foe/get", 0),
		{Pattern: "foe/write", Source: "test", Layer: valuemodel.Layer{Class: valuemodel.MutatesExternal}},
	}, rules...)
	o := withoutPrefetch(defaults(t, rules...))
	o.Plans = proxy.Plans{Enabled: true, Mutations: "allow"}
	return o
}

// of makes a foe one of that era.
func (f *foe) of(era string) *foe {
	f.rest = mcptest.New(mcptest.Options{Name: "foe", Era: era, Tools: f.tools}).Handler()
	return f
}

// planner is a client of plans in a bubble, of either era.
type planner struct {
	*guest
	era string
}

// plans begins a session on stdio for plans.
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

// said are params with what a stateless client says in them.
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

// read is what mcpschedd_read_result says, as text.
func (p *planner) read(arguments string) string {
	p.t.Helper()
	a := p.call("mcpschedd_read_result", arguments)
	text, ok := jsonrpc.String(jsonrpc.At(a.Result, "/content/0/text"))
	if !ok {
		p.t.Fatalf("got %s", a.Raw)
	}
	return text
}

// kept is the record of a plan whose answer was not read.
func (p *planner) kept() planAnswer {
	p.t.Helper()
	for text := range strings.Lines(p.read("{}")) {
		if handle, of, _ := strings.Cut(text, "  "); strings.Contains(of, "cancelled") {
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

// why is the reason that a step's status has.
func (a planAnswer) why(id string) string {
	for _, s := range a.Steps {
		if s.ID == id {
			return s.Reason
		}
	}
	return "no such step"
}

// source is where a step's answer came from; "" of one that brought none.
func (a planAnswer) source(id string) string {
	for _, s := range a.Steps {
		switch {
		case s.ID != id:
		case s.Source == "" && s.Status == "ok":
			return "fetched"
		default:
			return s.Source
		}
	}
	return ""
}

// calls are the tools that were called, with their arguments, in order.
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

// slowly takes a second for each call, but hangs where the arguments say so.
func slowly(v *visit) reply {
	if strings.Contains(v.arguments, "hang") {
		v.sleeps(1000 * time.Hour)
	} else {
		v.sleeps(time.Second)
	}
	return reply{result: v.told()}
}
