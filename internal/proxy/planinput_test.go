package proxy_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// inquirer is a server whose tool ask asks the client, and whose tool find does not. It counts
// calls, and repeated calls separately.
type inquirer struct {
	mu    sync.Mutex
	count map[string]int
}

func (q *inquirer) answer(_ context.Context, m jsonrpc.Message) []byte {
	name := tool(m)
	if name == "" {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.count == nil {
		q.count = make(map[string]int)
	}
	if jsonrpc.Get(m.Params, "requestState") != nil {
		name += " again"
	}
	q.count[name]++
	if name == "find" || name == "put" {
		return texted(string(jsonrpc.Get(m.Params, "arguments")))
	}
	return nil
}

func (q *inquirer) calls(name string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count[name]
}

// inquiring is a proxy in front of an inquirer.
func inquiring(t *testing.T, era, transport string, change func(*proxy.Options)) (*proxy.Server, *inquirer) {
	t.Helper()
	q := &inquirer{}
	o := mcptest.Options{Name: "one", Era: era, Tools: tools("find", "ask", "put", "hold"), Answer: q.answer}
	var up proxy.Upstream
	if transport == "http" {
		_, up = remote(t, o)
	} else {
		up = child(t, mcptest.Options{Name: "one", Relay: relay(t, mcptest.New(o))})
	}
	opt := stored(t, []valuemodel.Rule{reading("one/find", 0), reading("one/ask", 0), reading("one/hold", 0)}, up)
	opt.Plans.Enabled = true
	if change != nil {
		change(&opt)
	}
	return start(t, opt), q
}

// asking is a step that asks once in each round.
func asking(id string, rounds int, more string) string {
	return fmt.Sprintf(`{"id":%q,"tool":"ask","arguments":{"rounds":%d,"asks":[{"method":"elicitation/create","params":{"message":"?","tag":%q}}]}%s}`, id, rounds, id, more)
}

func replies(id string, rounds int) string {
	one := fmt.Sprintf(`{"who":"me","method":"elicitation/create","tag":%q}`, id)
	return "[" + strings.Repeat(one+",", rounds-1) + one + "]"
}

// Steps that ask, several at once and in rounds, for clients and servers of both eras: each
// gets its own answer, and no call is made twice.
func TestPlanStepsAsk(t *testing.T) {
	eachEra(t, func(t *testing.T, client, server string) {
		for _, transport := range []string{"stdio", "http"} {
			p, q := inquiring(t, server, transport, nil)
			c := attach(t, p, client)
			c.reply(tagged("me"))
			a := readPlan(t, c.ableTo(able, "execute_tool_plan", `{"steps":[{"id":"first","tool":"find","arguments":{"x":1}},`+
				asking("a", 1, `,"depends_on":["first"]`)+`,`+asking("b", 3, `,"depends_on":["first"]`)+`,`+asking("c", 2, ``)+
				`,{"id":"last","tool":"find","arguments":{"x":{"$ref":"b#"}}}]}`))
			if want := "first ok, a ok, b ok, c ok, last ok"; a.states() != want {
				t.Errorf("%s: got %s, want %s: %+v", transport, a.states(), want, a)
				continue
			}
			for id, rounds := range map[string]int{"a": 1, "b": 3, "c": 2} {
				if got := string(a.Outputs[id]); got != replies(id, rounds) {
					t.Errorf("%s: %s: got %s, want %s", transport, id, got, replies(id, rounds))
				}
			}
			if want := `{"x":` + replies("b", 3) + `}`; string(a.Outputs["last"]) != want {
				t.Errorf("%s: got %s, want %s", transport, a.Outputs["last"], want)
			}
			if q.calls("find") != 2 || q.calls("ask") != 3 {
				t.Errorf("%s: the server was called %v", transport, q.count)
			}
		}
	})
}

// A user's refusal is passed to the server; with a client that cannot ask, the step fails.
func TestPlanStepDeclined(t *testing.T) {
	eachEra(t, func(t *testing.T, client, server string) {
		p, _ := inquiring(t, server, "http", nil)
		c := attach(t, p, client)
		c.reply(func(string, []byte) []byte { return []byte(`{"action":"decline"}`) })
		plan := `{"steps":[` + asking("a", 1, "") + `,{"id":"b","tool":"find"}]}`
		a := readPlan(t, c.ableTo(able, "execute_tool_plan", plan))
		if got, want := string(a.Outputs["a"]), `[{"action":"decline"}]`; got != want || a.states() != "a ok, b ok" {
			t.Errorf("got %s, %s, want %s", a.states(), got, want)
		}
		c = attach(t, p, client)
		c.reply(func(method string, _ []byte) []byte {
			t.Errorf("asked %s", method)
			return []byte("{}")
		})
		m := c.ableTo(`{"roots":{}}`, "execute_tool_plan", plan)
		if a := readPlan(t, m); !strings.Contains(a.why("a")+string(a.Outputs["a"]), "cannot be asked") || string(a.Outputs["b"]) == "" {
			t.Errorf("got %s", m.Raw)
		}
	})
}

// suspended starts a plan as a stateless client, and returns the members that resume it, with
// the client's answers; nil if the plan has ended.
func (c *caller) suspended(tool, arguments string) (params string, result []byte) {
	c.t.Helper()
	params = toolCall(tool, line(arguments))
	return params, []byte(c.request("tools/call", params))
}

// A server cannot ask without limit.
func TestPlanStepNeverHasEnough(t *testing.T) {
	eachEra(t, func(t *testing.T, client, server string) {
		for _, result := range []string{
			`{"resultType":"input_required","requestState":"more"}`,
			`{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"?"}}},"requestState":"more"}`,
			`{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"?"}}}}`,
		} {
			o := mcptest.Options{Name: "one", Era: server, Tools: tools("greedy"), Results: map[string]string{"greedy": result}}
			_, up := remote(t, o)
			opt := stored(t, []valuemodel.Rule{reading("one/*", 0)}, up)
			opt.Plans.Enabled = true
			c := attach(t, start(t, opt), client)
			asked := 0
			var mu sync.Mutex
			c.reply(func(string, []byte) []byte {
				mu.Lock()
				defer mu.Unlock()
				asked++
				return []byte(`{"action":"accept"}`)
			})
			m := c.ableTo(able, "execute_tool_plan", `{"steps":[{"id":"a","tool":"greedy"}]}`)
			if got := readPlan(t, m); got.states() != "a failed" {
				t.Errorf("got %s", m.Raw)
			}
			mu.Lock()
			if asked > 32 {
				t.Errorf("the client was asked %d times", asked)
			}
			mu.Unlock()
		}
	})
}

// inquisitive asks the client if the arguments request it.
func inquisitive(v *visit) reply {
	if strings.Contains(v.arguments, "ask") {
		return reply{asks: elicits}
	}
	return slowly(v)
}

// A client that does not return: after a while its plan ends, no call is left at the server,
// and the results of its writes can be read.
func TestPlanClientNeverComesBack(t *testing.T) {
	for _, server := range []string{"handshake", "stateless"} {
		for name, ends := range map[string]func(d *ordeal, p *planner, again string){
			"for too long": func(d *ordeal, p *planner, again string) {
				time.Sleep(11 * time.Minute)
			},
			"but with another plan": func(d *ordeal, p *planner, again string) {
				p.request("tools/call", p.said(string(jsonrpc.Set([]byte(again), "arguments", []byte(`{"steps":[]}`)))))
				synctest.Wait()
			},
		} {
			t.Run(server+", "+name, func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					d := beset(t, newFoe(inquisitive).of(server), planned(t))
					p := d.plans(stateless)
					params := toolCall("execute_tool_plan", line(`{"steps":[{"id":"w","tool":"write","arguments":{"n":1}},
						{"id":"a","tool":"get","arguments":{"x":"ask"},"depends_on":["w"]},
						{"id":"v","tool":"write","arguments":{"n":{"$ref":"a#"}}}]}`))
					m := p.request("tools/call", p.said(params))
					again := retry(params, m.Result, tagged("me"))
					if again == nil {
						t.Fatalf("got %s, want questions", m.Raw)
					}
					ends(d, p, string(again))
					if n := d.foe.there(); n != 0 {
						t.Errorf("%d calls are with the server", n)
					}
					if st := d.proxy.Stats(); st.Store.Flights != 0 {
						t.Errorf("%d flights are left", st.Store.Flights)
					}
					if m := p.request("tools/call", p.said(string(again))); m.Error == nil {
						t.Errorf("came back too late: got %s", m.Raw)
					}
					if got := calls(d.foe.ledger()); strings.Count(got, "write") != 1 {
						t.Errorf("got calls %s", got)
					}
					if a := p.kept(); a.states() != "w ok, a failed, v cancelled" {
						t.Errorf("got %s", a.states())
					}
				})
			})
		}
	}
}

// A step that waits too long for its client is cancelled at the server, too.
func TestPlanStepWaitsTooLong(t *testing.T) {
	for _, server := range []string{"handshake", "stateless"} {
		bubble.Test(t, func(t *testing.T) {
			d := beset(t, newFoe(inquisitive).of(server), planned(t))
			p := d.plans(stateless)
			params := toolCall("execute_tool_plan", line(`{"steps":[{"id":"a","tool":"get","arguments":{"x":"ask"},"timeout":"20s"},
				{"id":"b","tool":"get","arguments":{"x":1},"depends_on":["a"]},{"id":"c","tool":"get","arguments":{"x":2}}]}`))
			m := p.request("tools/call", p.said(params))
			time.Sleep(time.Minute)
			if n := d.foe.there(); n != 0 {
				t.Errorf("%s: %d calls are with the server", server, n)
			}
			m = p.request("tools/call", p.said(string(retry(params, m.Result, tagged("me")))))
			if a := readPlan(t, m.Message); a.states() != "a failed, b skipped, c ok" || a.why("a") != "no answer within 20s" {
				t.Errorf("%s: got %s: %s", server, a.states(), a.why("a"))
			}
		})
	}
}

// A plan that times out while its client fetches answers returns the results so far.
func TestPlanTakesTooLongToAsk(t *testing.T) {
	for _, server := range []string{"handshake", "stateless"} {
		bubble.Test(t, func(t *testing.T) {
			o := planned(t)
			o.Plans.Timeout = time.Minute
			d := beset(t, newFoe(inquisitive).of(server), o)
			p := d.plans(stateless)
			params := toolCall("execute_tool_plan", line(`{"steps":[{"id":"c","tool":"get","arguments":{"x":2}},
				{"id":"a","tool":"get","arguments":{"x":"ask"},"depends_on":["c"]},{"id":"w","tool":"write","depends_on":["a"]}]}`))
			m := p.request("tools/call", p.said(params))
			time.Sleep(2 * time.Minute)
			m = p.request("tools/call", p.said(string(retry(params, m.Result, tagged("me")))))
			if a := readPlan(t, m.Message); a.states() != "c ok, a failed, w cancelled" || !strings.Contains(a.Ended, "timeout") {
				t.Errorf("%s: got %s, ended %q", server, a.states(), a.Ended)
			}
			if got := calls(d.foe.ledger()); strings.Contains(got, "write") {
				t.Errorf("got calls %s", got)
			}
		})
	}
}

// Questions to which no others can be added are asked at once, in every round.
func TestPlanAsksAtOnce(t *testing.T) {
	for _, server := range []string{"handshake", "stateless"} {
		bubble.Test(t, func(t *testing.T) {
			f := newFoe(func(*visit) reply {
				return reply{asks: elicits + "," + strings.Replace(elicits, "sure?", "really?", 1)}
			})
			d := beset(t, f.of(server), planned(t))
			p, began, asked := d.plans(stateless), time.Now(), 0
			params := toolCall("execute_tool_plan", `{"steps":[{"id":"a","tool":"get","arguments":{"x":1}},{"id":"b","tool":"get","arguments":{"x":2},"depends_on":["a"]},{"id":"c","tool":"get","arguments":{"x":3},"depends_on":["b"]}]}`)
			m := p.request("tools/call", p.said(params))
			for again := retry(params, m.Result, tagged("me")); again != nil; again = retry(params, m.Result, tagged("me")) {
				asked++
				m = p.request("tools/call", p.said(string(again)))
			}
			if a := readPlan(t, m.Message); a.states() != "a ok, b ok, c ok" || asked < 3 {
				t.Errorf("%s: asked %d times, got %s", server, asked, a.states())
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("%s: it took %v, and nobody had to be waited for", server, took)
			}
		})
	}
}

// A client that supports only URL elicitation is not asked by a form.
func TestPlanConfirmedByForm(t *testing.T) {
	for capabilities, asks := range map[string]bool{
		`{"elicitation":{}}`:                   true,
		`{"elicitation":{"form":{},"url":{}}}`: true,
		`{"elicitation":{"url":{}}}`:           false,
		`{"sampling":{}}`:                      false,
	} {
		for _, era := range []string{handshake, stateless} {
			p, q := inquiring(t, "handshake", "http", nil)
			c := attach(t, p, era)
			c.reply(func(string, []byte) []byte { return []byte(`{"action":"accept","content":{}}`) })
			m := c.ableTo(capabilities, "execute_tool_plan", `{"steps":[{"id":"w","tool":"put"}]}`)
			if ran := q.calls("put") == 1; ran != asks {
				t.Errorf("%s, %s: got %s", capabilities, era, m.Raw)
			}
		}
	}
}

// A server asks after its stateless client has sent its last request and cannot answer: an
// ordinary call gets an error instead of no response.
func TestQuestionAfterTheEndOfInput(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := beset(t, newFoe(func(*visit) reply {
			time.Sleep(time.Second)
			return reply{asks: elicits}
		}).of("handshake"), planned(t))
		p := d.plans(stateless)
		call := p.begin("get", `{"x":1}`)
		time.Sleep(100 * time.Millisecond)
		d.guests = nil // each leaves only once
		left := make(chan struct{})
		go func() {
			defer close(left)
			p.leave()
		}()
		defer func() { <-left }()
		if m := call.wait(); m.none || !strings.Contains(string(m.Raw), "session ended") {
			t.Errorf("got %s, want that the session has ended", m.Raw)
		}
	})
}
