package proxy_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/proxy"
)

// moody returns a server that answers, fails, asks or hangs at random.
func moody(r *rand.Rand) func(v *visit) reply {
	var mu sync.Mutex
	luck := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(n)
	}
	return func(v *visit) reply {
		v.sleeps(time.Duration(luck(2000)) * time.Millisecond)
		switch luck(12) {
		case 0:
			v.sleeps(1000 * time.Hour)
		case 1:
			return reply{cut: true}
		case 2:
			return reply{fault: `{"code":-32000,"message":"no"}`}
		case 3:
			return reply{result: complained("no")}
		case 4, 5:
			return reply{asks: elicits}
		case 6:
			return reply{result: `{}`}
		case 7:
			return reply{status: http.StatusTooManyRequests, retryAfter: "1"}
		}
		return reply{result: v.told()}
	}
}

// someSteps returns steps of every kind.
func someSteps(r *rand.Rand) string {
	var all []string
	n := 2 + r.IntN(6)
	for i := range n {
		tool := []string{"get", "get", "list", "write"}[r.IntN(4)]
		more := ""
		if i > 0 {
			more += fmt.Sprintf(`,"depends_on":["s%d"]`, r.IntN(i))
		}
		more += []string{``, `,"on_error":"continue"`, `,"on_error":"skip"`, `,"timeout":"3s"`}[r.IntN(4)]
		if tool != "write" && r.IntN(4) == 0 {
			more += `,"retry":2`
		}
		if i > 0 && r.IntN(4) == 0 {
			more += fmt.Sprintf(`,"for_each":{"$ref":"s%d#/things","default":[1,2,3]},"max_items":3`, r.IntN(i))
		}
		all = append(all, fmt.Sprintf(`{"id":"s%d","tool":%q,"arguments":{"n":%d}%s}`, i, tool, r.IntN(6), more))
	}
	return strings.Join(all, ",")
}

// Clients of all kinds run plans, answer questions or not, cancel, and disconnect at any time, at
// a server with random behaviour. Nothing is left, and every plan gets its response.
func TestPlanChaos(t *testing.T) {
	t.Parallel()
	var seen tally
	for seed := range uint64(slice(4, 400)) {
		bubble.Test(t, func(t *testing.T) {
			o := planned(t, listing(t)...)
			o.Enrichment.Mode = "on"
			o.Plans.Timeout = 2 * time.Minute
			o.Plans.Parallel = 4
			if seed%3 == 0 {
				o.Plans.Mutations = "confirm"
			}
			d := beset(t, newFoe(moody(rand.New(rand.NewPCG(seed, 3)))).of([]string{"handshake", "stateless"}[seed%2]), o)
			var all sync.WaitGroup
			for i := range 4 {
				p, r := d.plans([]string{handshake, stateless}[i/2]), rand.New(rand.NewPCG(seed, uint64(20+i)))
				all.Go(func() { p.muddles(r, &seen, i%2 == 0) })
			}
			for i := range 2 {
				r := rand.New(rand.NewPCG(seed, uint64(40+i)))
				all.Go(func() { d.passesBy(r, &seen) })
			}
			all.Wait()
			time.Sleep(15 * time.Minute) // suspended work that was not resumed has expired
			if n := d.foe.there(); n != 0 {
				t.Errorf("seed %d: %d calls are open at the server", seed, n)
			}
			if st := d.proxy.Stats(); st.Store.Flights != 0 {
				t.Errorf("seed %d: %d flights are left", seed, st.Store.Flights)
			}
			d.leave()
			d.guests = nil
			time.Sleep(time.Hour) // the shared session of stateless clients has been idle
			if n := proxy.Results(d.proxy); n != 0 {
				t.Errorf("seed %d: %d results are kept for no session", seed, n)
			}
		})
	}
	t.Logf("what happened:\n%s", &seen)
	for _, what := range []string{"ok", "failed", "skipped", "cancelled", "asked", "withdrawn", "left alone", "hung up"} {
		if seen.of(what) == 0 {
			t.Errorf("there was no %q", what)
		}
	}
}

// plan counts the outcomes of a plan's steps.
func (c *tally) plan(m jsonrpc.Message) {
	for step := range jsonrpc.Elements(jsonrpc.At(m.Result, "/structuredContent/steps")) {
		status, _ := jsonrpc.String(jsonrpc.Get(step, "status"))
		c.count(status)
	}
}

// muddles runs plans on stdio. If leaves is set, it disconnects during the last one.
func (p *planner) muddles(r *rand.Rand, seen *tally, leaves bool) {
	for range 6 {
		params := p.said(toolCall("execute_tool_plan", `{"steps":[`+someSteps(r)+`]}`))
		s := p.start("tools/call", params)
		if r.IntN(3) == 0 {
			time.Sleep(time.Duration(r.IntN(4000)) * time.Millisecond)
			s.cancel()
			seen.count("withdrawn")
			continue
		}
		for a := s.wait(); a.Error == nil && !a.none; a = s.wait() {
			seen.plan(a.Message)
			again := retry(params, a.Result, tagged("me"))
			if again == nil {
				break
			}
			seen.count("asked")
			if r.IntN(2) == 0 {
				seen.count("left alone")
				break
			}
			s = p.start("tools/call", string(again))
		}
	}
	if leaves {
		p.begin("execute_tool_plan", `{"steps":[`+someSteps(r)+`]}`)
		time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
		p.in.Close()
	}
}

// passesBy runs stateless plans over HTTP, and disconnects during some.
func (d *ordeal) passesBy(r *rand.Rand, seen *tally) {
	for range 6 {
		ctx, cancel := context.WithCancel(d.t.Context())
		if r.IntN(2) == 0 {
			time.AfterFunc(time.Duration(r.IntN(4000))*time.Millisecond, cancel)
		}
		first := toolCall("execute_tool_plan", `{"steps":[`+someSteps(r)+`]}`)
		for params := first; params != ""; {
			m, err := jsonrpc.Parse([]byte(d.ask(ctx, params)))
			seen.plan(m)
			if ctx.Err() != nil {
				seen.count("hung up")
			}
			params = string(retry(first, m.Result, tagged("me")))
			if err != nil || r.IntN(6) == 0 {
				break
			}
		}
		cancel()
	}
}
