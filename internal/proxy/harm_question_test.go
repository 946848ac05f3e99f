package proxy_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/catalog"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/record"
	"mcpschedd/internal/valuemodel"
)

const elicits = `{"method":"elicitation/create","params":{"message":"sure?","requestedSchema":{"type":"object","properties":{}}}}`

// A server over HTTP asks a question while it works on a prefetch. The question arrives on the
// prefetch's stream, so the client does not get it, the prefetch is dropped, and the tool is not
// prefetched again. If the client makes the call itself, it gets the question.
func TestHarmQuestion(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		f := newFoe(func(v *visit) reply {
			v.sleeps(400 * time.Millisecond)
			if v.tool == "get" {
				return reply{asks: elicits}
			}
			return reply{result: v.told()}
		})
		d := beset(t, f, defaults(t, listing(t)...))
		g := d.enter()
		g.call("list", page(1))
		time.Sleep(3 * time.Second)
		if asked := g.questions(); len(asked) > 0 {
			t.Errorf("the client got %v, questions of a prefetch", asked)
		}
		st := d.proxy.Stats().Prefetch
		if made := len(early(f.ledger())); made == 0 || made > session || st.Harm.Questions != int64(made) || st.Wasted["error"] != int64(made) {
			t.Errorf("%d prefetches were made, %d questions are counted, %d prefetches dropped for them", made, st.Harm.Questions, st.Wasted["error"])
		}
		if a := g.call("get", thing(1, 0)); a.how() != "fetched" || len(g.questions()) != 1 {
			t.Errorf("got %s, and the client the questions %v", a.how(), g.questions())
		}
		before := len(early(f.ledger()))
		for p := range 5 {
			g.call("list", page(p+2))
			time.Sleep(3 * time.Second)
		}
		if n := len(early(f.ledger())) - before; n > 0 {
			t.Errorf("%d prefetches of a tool that asks", n)
		}
	})
}

// A tool that asks a question is barred at once: prefetches of it that wait for a slot are not
// sent.
func TestHarmQuestionBarsWhatWaits(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		f := newFoe(func(v *visit) reply {
			if v.tool == "get" {
				v.sleeps(5 * time.Second)
				return reply{asks: elicits}
			}
			return reply{result: v.told()}
		})
		d := beset(t, f, defaults(t, listing(t)...))
		hung(d)
		before := early(f.ledger())
		time.Sleep(time.Minute)
		if all := early(f.ledger()); len(before) == 0 || len(all) > len(before) {
			t.Errorf("%d prefetches were under way, and %d were sent after the first had asked", len(before), len(all)-len(before))
		}
	})
}

// askedByPrefetch starts a proxy and a client that makes a call which is followed by a prefetch.
// The prefetch asks a question: it must be dropped, and the client must not get the question.
func askedByPrefetch(t *testing.T, o proxy.Options) (s *proxy.Server, c *caller) {
	s = start(t, o)
	c = connect(t, s, handshake)
	c.reply(accepts)
	c.call("list", `{}`)
	until(t, s, "dropped", func(st proxy.Stats) bool {
		return st.Prefetch.Wasted["error"] == 1 && st.Prefetch.Harm.Questions == 1 && st.Store.Flights == 0
	})
	if n := len(c.questions()); n > 0 {
		t.Errorf("the client got %d questions of a prefetch", n)
	}
	return s, c
}

// On stdio a question does not name the call that it belongs to. If only prefetches are running,
// it belongs to one of them.
func TestHarmQuestionOfAProcess(t *testing.T) {
	t.Parallel()
	asker := newAsker()
	asker.asks = `{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`
	close(asker.ask)
	s, c := askedByPrefetch(t, asker.options(t))
	c.call("ask", `{"asks":[`+elicits+`]}`)
	if n := len(c.questions()); n != 1 {
		t.Errorf("the client got %d questions of its own call", n)
	}
	c.call("write", `{}`)
	c.call("list", `{}`)
	proxy.Decided(s)
	c.hangUp()
	until(t, s, "declined", func(st proxy.Stats) bool { return st.Prefetch.Declined["not_speculatable"] > 0 })
	if n := asker.seen.of("ask!"); n != 1 {
		t.Errorf("%d prefetches were made, want 1", n)
	}
}

// A request for the roots concerns the session, so its client gets it although only a prefetch is running.
func TestHarmNoneByRoots(t *testing.T) {
	t.Parallel()
	asker := newAsker()
	asker.asks = `{"method":"roots/list","params":{}}`
	close(asker.ask)
	s := start(t, asker.options(t))
	c := connect(t, s, handshake)
	c.reply(accepts)
	c.call("list", `{}`)
	until(t, s, "asked", func(proxy.Stats) bool { return len(c.questions()) == 1 })
}

// While a complete answer waits for prefetches to inline, its call is not running any more at the
// server, so a question belongs to a prefetch.
func TestHarmQuestionWhileAnAnswerWaits(t *testing.T) {
	t.Parallel()
	asker := newAsker()
	close(asker.ask)
	o := asker.options(t)
	o.Enrichment.Delivery, o.Enrichment.Wait, o.Enrichment.InlineFrom = "inline", patience, 0.5
	askedByPrefetch(t, o)
}

// If a call is open too, the question may belong to the call, which must not fail. So the prefetch
// is dropped, and the call is answered.
func TestHarmQuestionBesideACall(t *testing.T) {
	t.Parallel()
	asker := newAsker()
	s := start(t, asker.options(t))
	c := connect(t, s, handshake)
	c.reply(accepts)
	c.call("list", `{}`)
	until(t, s, "under way", func(proxy.Stats) bool { return asker.seen.of("ask!") == 1 })
	own := c.begin("slow", `{}`)
	until(t, s, "sent", func(proxy.Stats) bool { return asker.seen.of("slow") == 1 })
	close(asker.ask)
	until(t, s, "dropped", func(st proxy.Stats) bool {
		return st.Prefetch.Wasted["error"] == 1 && st.Prefetch.Harm.Questions == 1
	})
	close(asker.slow)
	if m := own.wait(); m.Error != nil || !strings.Contains(string(m.Result), "done") {
		t.Errorf("got %s", m.Raw)
	}
	until(t, s, "at rest", func(st proxy.Stats) bool { return st.Store.Flights == 0 })
}

// accepts accepts any question.
func accepts(string, []byte) []byte { return []byte(`{"action":"accept","content":{}}`) }

// accepted repeats a call whose result asks questions, and accepts them.
func (c *caller) accepted(params string, m jsonrpc.Message) jsonrpc.Message {
	c.t.Helper()
	again := retry(params, m.Result, accepts)
	if again == nil {
		c.t.Fatalf("got no question: %s", m.Raw)
	}
	return c.start("tools/call", string(again)).wait()
}

// When a stateless client resumes a call, the server continues to work on it. So the next question
// may belong to the call, although a prefetch is running.
func TestHarmQuestionBesideACallTakenUp(t *testing.T) {
	t.Parallel()
	asker := newAsker()
	s := start(t, asker.options(t))
	c := connect(t, s, stateless)
	c.call("write", `{}`) // otherwise the rules change during the call
	params := `{"name":"ask","arguments":{"asks":[` + elicits + `],"rounds":2}}`
	first := c.start("tools/call", params).wait()
	c.call("list", `{}`)
	until(t, s, "under way", func(proxy.Stats) bool { return asker.seen.of("ask!") == 1 })
	third := c.accepted(params, c.accepted(params, first))
	if third.Error != nil || strings.Count(string(third.Result), "accept") < 2 {
		t.Errorf("got %s", third.Raw)
	}
	close(asker.ask)
	until(t, s, "at rest", func(st proxy.Stats) bool { return st.Store.Flights == 0 })
}

// While a stateless client fetches replies, its call is still running at the server. So a question
// may belong to the call, and the tool of a running prefetch is not barred.
func TestHarmQuestionBesideACallSuspended(t *testing.T) {
	t.Parallel()
	asker := newAsker()
	s := start(t, asker.options(t))
	c := connect(t, s, stateless)
	c.call("write", `{}`) // otherwise the rules change during the call
	params := `{"name":"ask","arguments":{"asks":[` + elicits + `]}}`
	m := c.start("tools/call", params).wait()
	c.call("list", `{}`)
	until(t, s, "under way", func(proxy.Stats) bool { return asker.seen.of("ask!") == 1 })
	close(asker.ask)
	until(t, s, "asked", func(st proxy.Stats) bool { return st.Prefetch.Harm.Questions == 1 })
	c.call("write", `{}`)
	c.call("list", `{}`)
	until(t, s, "prefetched again", func(proxy.Stats) bool { return asker.seen.of("ask!") == 2 })
	for range 3 { // the questions of the two prefetches may come one by one
		if m = c.accepted(params, m); !strings.Contains(string(m.Result), "input_required") {
			break
		}
	}
	if m.Error != nil || !strings.Contains(string(m.Result), "accept") {
		t.Errorf("got %s", m.Raw)
	}
}

// If several sessions share a process, a question without a call reaches none of them. The
// prefetched tool is not prefetched again.
func TestHarmQuestionOfASharedProcess(t *testing.T) {
	t.Parallel()
	asker := newAsker()
	close(asker.ask)
	o := asker.options(t)
	o.Upstreams[0].Spec.Shared = true
	s := start(t, o)
	c, other := connect(t, s, handshake), connect(t, s, handshake)
	other.call("write", `{}`)
	c.call("list", `{}`)
	until(t, s, "dropped", func(st proxy.Stats) bool { return st.Prefetch.Wasted["error"] == 1 && st.Store.Flights == 0 })
	other.call("write", `{}`)
	other.call("list", `{}`)
	proxy.Decided(s)
	other.hangUp()
	until(t, s, "decided", func(st proxy.Stats) bool {
		return st.Prefetch.Declined["not_speculatable"] > 0 || asker.seen.of("ask!") > 1
	})
	if n := asker.seen.of("ask!"); n != 1 || len(c.questions())+len(other.questions()) > 0 {
		t.Errorf("%d prefetches were made, want 1; the clients got %d questions", n, len(c.questions())+len(other.questions()))
	}
}

// asker is a server in a process. Its tool ask asks the client a question.
type asker struct {
	ask  chan struct{} // closed when prefetched calls of ask may ask
	slow chan struct{} // closed when the tool slow may answer
	seen tally         // called tools; a prefetch has a ! appended
	asks string        // question of a prefetch
}

func newAsker() *asker {
	return &asker{ask: make(chan struct{}), slow: make(chan struct{}), asks: elicits}
}

// answer records a call and may delay it.
func (a *asker) answer(_ context.Context, m jsonrpc.Message) []byte {
	name := tool(m)
	if name == "" {
		return nil
	}
	if strings.Contains(string(m.Params), `"mcpschedd/purpose":"prefetch"`) {
		name += "!"
	}
	a.seen.count(name)
	switch name {
	case "ask!":
		<-a.ask
	case "slow":
		<-a.slow
		return []byte(said("done"))
	}
	return nil
}

// options returns options of a proxy in front of the server, with ask as a follow-up of list.
func (a *asker) options(t *testing.T) proxy.Options {
	t.Helper()
	var asks any
	if err := json.Unmarshal([]byte(`[`+a.asks+`]`), &asks); err != nil {
		t.Fatal(err)
	}
	binding, err := valuemodel.ParseBinding(asks)
	if err != nil {
		t.Fatal(err)
	}
	o := mcptest.Options{
		Name: "one", Tools: tools("list", "ask", "slow", "write"), Results: map[string]string{"list": said("here"), "write": said("done")}, Answer: a.answer,
	}
	up := child(t, mcptest.Options{Name: "one", Relay: relay(t, mcptest.New(o))})
	up.Exclusive = true
	opt := stored(t, []valuemodel.Rule{reading("one/ask", 0), reading("one/slow", 0), {
		Pattern: "one/list", Source: "test", Layer: valuemodel.Layer{
			Class:     valuemodel.ReadOnly,
			FollowUps: []valuemodel.FollowUp{{Tool: "ask", Probability: 0.9, Args: map[string]valuemodel.Binding{"asks": binding}}},
		},
	}}, up)
	opt.Enrichment = defaults(t).Enrichment
	return opt
}

// The time that a call waits for its user is not recorded as a latency of its tool.
func TestLatencyWithoutItsUser(t *testing.T) {
	t.Parallel()
	_, web := remote(t, mcptest.Options{Name: "one"})
	for transport, up := range map[string]catalog.Upstream{"stdio": child(t, mcptest.Options{Name: "one"}), "http": web} {
		for _, era := range []string{handshake, stateless} {
			t.Run(transport+" "+era, func(t *testing.T) {
				var mu sync.Mutex
				took := make(map[string]float64)
				o := options(up)
				o.Record.OnEvent = func(e record.Event) {
					mu.Lock()
					defer mu.Unlock()
					if e.Kind == record.Call {
						took[e.Tool] = e.UpstreamMS
					}
				}
				c := connect(t, start(t, o), era)
				c.reply(accepts)
				c.call("echo", `{}`)
				params := toolCall("ask", `{"asks":[`+elicits+`]}`)
				if m := c.start("tools/call", params).wait(); era == stateless {
					c.accepted(params, m)
				}
				mu.Lock()
				defer mu.Unlock()
				if ms, answered := took["ask"]; !answered || ms != 0 || took["echo"] == 0 {
					t.Errorf("got %v", took)
				}
			})
		}
	}
}

// A person may take any time to answer a question over HTTP, as long as the client has a stream open. If it has gone,
// the question ends, and the call with it.
func TestHarmQuestionToAClientThatHasGone(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		d := beset(t, newFoe(func(*visit) reply { return reply{asks: elicits} }), withoutPrefetch(defaults(t)))
		v := d.visit()
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		go v.call(ctx, "tools/call", toolCall("write", `{}`))
		for _, step := range []struct {
			wait time.Duration
			open int
		}{{25 * time.Minute, 1}, {4 * time.Minute, 1}, {11 * time.Minute, 0}} {
			time.Sleep(step.wait)
			if n := proxy.Kept(d.proxy)["requests"]; n != step.open {
				t.Errorf("%d requests are open, want %d", n, step.open)
			}
			leave()
		}
	})
}
