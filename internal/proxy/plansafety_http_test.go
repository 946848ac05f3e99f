package proxy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// serves starts a second foe in the bubble, and returns how it is reached.
func serves(t *testing.T, f *foe) (dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	at := newPipes()
	server, ended := &http.Server{Handler: f}, make(chan error, 1)
	go func() { ended <- server.Serve(at) }()
	t.Cleanup(func() {
		server.Close()
		<-ended
	})
	return at.dial
}

// process is a proxy over HTTP in front of a process of the handshake era, which does not tell
// for which of its calls it asks.
func process(t *testing.T, answer func(context.Context, jsonrpc.Message) []byte) *httpClient {
	t.Helper()
	o := mcptest.Options{Name: "one", Era: "handshake", Tools: tools("ask", "hold"), Answer: answer}
	opt := stored(t, []valuemodel.Rule{reading("one/*", 0)}, child(t, mcptest.Options{Name: "one", Relay: relay(t, mcptest.New(o))}))
	opt.Plans = proxy.Plans{Enabled: true}
	return serveTCP(t, opt)
}

// A process asks while two steps of one plan are open: the question is sent to the client on
// the plan's own request, since it has no other stream.
func TestPlanQuestionOnItsOwnStream(t *testing.T) {
	holds, asked := make(chan struct{}), make(chan struct{})
	letOn := sync.OnceFunc(func() { close(asked) })
	t.Cleanup(letOn)
	f := process(t, func(_ context.Context, m jsonrpc.Message) []byte {
		switch tool(m) {
		case "hold": // until the question has arrived
			close(holds)
			<-asked
			return texted(`"held"`)
		case "ask":
			<-holds
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	post := func(id, body string) *http.Response {
		r := f.request(http.MethodPost, "/mcp", body).WithContext(ctx)
		if id != "" {
			r.Header.Set("Mcp-Session-Id", id)
		}
		return f.do(r)
	}
	r := post("", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+handshake+`","capabilities":`+able+`,"clientInfo":{"name":"t","version":"1"}}}`)
	id := r.Header.Get("Mcp-Session-Id")
	text(t, r)
	r = post(id, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+toolCall("execute_tool_plan", `{"steps":[{"id":"h","tool":"hold"},`+asking("a", 1, "")+`]}`)+`}`)
	defer r.Body.Close()
	for next := eventReader(r.Body); ; {
		event, err := next()
		if err != nil {
			t.Fatalf("the plan has no answer: %v", err)
		}
		m, err := jsonrpc.Parse([]byte(event))
		switch {
		case err != nil: // the event that opens a stream has no message
		case m.IsRequest():
			letOn()
			text(t, post(id, string(jsonrpc.AppendResult(nil, m.ID, tagged("me")(m.Method, m.Params)))))
		case m.IsResponse():
			if a := readPlan(t, m); a.states() != "h ok, a ok" || string(a.Outputs["a"]) != replies("a", 1) {
				t.Errorf("got %s", m.Raw)
			}
			return
		}
	}
}

// resumed makes one request of a stateless plan over HTTP, and returns its result and, if the
// result asks questions, the members that resume the plan with answers.
func (f *httpClient) resumed(params, who string) (m jsonrpc.Message, again string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	r := f.request(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+params+`}`,
		"Mcp-Protocol-Version", stateless, "Mcp-Method", "tools/call", "Mcp-Name", "execute_tool_plan")
	answer, err := f.client.Do(r.WithContext(ctx))
	if err != nil {
		f.t.Errorf("%s has no answer: %v", who, err)
		return m, ""
	}
	if m, err = jsonrpc.Parse([]byte(text(f.t, answer))); err != nil {
		f.t.Error(err)
	}
	return m, string(retry(params, m.Result, tagged(who)))
}

// asksFor runs a stateless plan over HTTP for a client that answers its questions.
func (f *httpClient) asksFor(who, steps string) (m jsonrpc.Message) {
	f.t.Helper()
	again := withMeta(toolCall("execute_tool_plan", `{"steps":[`+steps+`]}`), able, "")
	for again != "" {
		m, again = f.resumed(again, who)
	}
	return m
}

// together blocks calls of ask until the given number has arrived.
func together(n int64) func(context.Context, jsonrpc.Message) []byte {
	var came atomic.Int64
	all := make(chan struct{})
	return func(ctx context.Context, m jsonrpc.Message) []byte {
		if tool(m) == "ask" {
			if came.Add(1) == n {
				close(all)
			}
			select {
			case <-all:
			case <-ctx.Done():
			}
		}
		return nil
	}
}

// The questions of one plan's steps go to its own client, though many clients share the
// process, and each step gets its own answer.
func TestPlanStepsAskAcrossAPool(t *testing.T) {
	for i := range 4 { // the call to which a question is attributed is random
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel() // a question may wait a second for others
			f := process(t, together(2))
			a := readPlan(t, f.asksFor("me", asking("a", 2, "")+","+asking("b", 1, "")))
			if a.states() != "a ok, b ok" {
				t.Fatalf("got %+v", a)
			}
			for id, rounds := range map[string]int{"a": 2, "b": 1} {
				if got := string(a.Outputs[id]); got != replies(id, rounds) {
					t.Errorf("%s: got %s, want %s", id, got, replies(id, rounds))
				}
			}
		})
	}
}

// With two plans it is unknown for which one a process asks: neither client is asked.
func TestPlansAskAcrossAPool(t *testing.T) {
	f := process(t, together(2))
	var all sync.WaitGroup
	for _, who := range []string{"a", "b"} {
		all.Go(func() {
			m := f.asksFor(who, asking(who, 1, ""))
			if got := string(m.Raw); !strings.Contains(got, "cannot be asked") && !strings.Contains(got, fmt.Sprintf(`{"who":%q,"method":"elicitation/create","tag":%q}`, who, who)) {
				t.Errorf("%s: got %s", who, got)
			}
		})
	}
	all.Wait()
}

// A process asks, and other calls of the same plan, any of which may be the cause, end: the
// question was for one that still waits for the answer.
func TestPlanQuestionOutlivesOtherCalls(t *testing.T) {
	t.Parallel()     // a question waits a second for others, the calls end after two
	const others = 7 // one more than these are open at once
	suspended, ended := make(chan struct{}), make(chan struct{}, others)
	letOn := sync.OnceFunc(func() { close(suspended) })
	t.Cleanup(letOn)
	f := process(t, func(ctx context.Context, m jsonrpc.Message) []byte {
		switch {
		case tool(m) != "ask":
		case strings.Contains(string(m.Params), `"tag":"late"`):
			<-suspended
		default:
			context.AfterFunc(ctx, func() { ended <- struct{}{} })
		}
		return nil
	})
	steps := []string{asking("late", 1, "")}
	for i := range others {
		steps = append(steps, asking(fmt.Sprintf("s%d", i), 1, `,"timeout":"2s"`))
	}
	plan := toolCall("execute_tool_plan", `{"steps":[`+strings.Join(steps, ",")+`]}`)
	_, again := f.resumed(withMeta(plan, able, ""), "me")
	letOn()
	for range others {
		await(t, ended)
	}
	var m jsonrpc.Message
	for again != "" {
		m, again = f.resumed(again, "me")
	}
	if t.Failed() {
		return // the plan does not end
	}
	if a := readPlan(t, m); string(a.Outputs["late"]) != replies("late", 1) {
		t.Errorf("got %s", m.Raw)
	}
}

// reporting sends progress every 100 ms to a client with a token, and answers after 800 ms; on
// request it sends no progress.
func reporting(rest http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the caller has disconnected
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		m, err := jsonrpc.Parse(body)
		if err != nil || tool(m) == "" {
			rest.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		token := jsonrpc.At(m.Params, "/_meta/progressToken")
		for i := range 8 {
			if token != nil {
				params := fmt.Appendf(nil, `{"progressToken":%s,"progress":%d}`, token, i+1)
				fmt.Fprintf(w, "data: %s\n\n", jsonrpc.AppendNotification(nil, "notifications/progress", params))
				http.NewResponseController(w).Flush()
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-r.Context().Done():
				return
			}
		}
		result := jsonrpc.Set([]byte(said("done")), "resultType", []byte(`"complete"`))
		fmt.Fprintf(w, "data: %s\n\n", jsonrpc.AppendResult(nil, m.ID, result))
	})
}

// A progress notification restarts the timeout of an upstream's call, for a step of a plan as
// for a call with a progress token.
func TestPlanStepReportsProgress(t *testing.T) {
	eachEra(t, func(t *testing.T, client, server string) {
		bubble.Test(t, func(t *testing.T) {
			f := newFoe(func(v *visit) reply {
				if strings.Contains(v.arguments, "quiet") {
					v.sleeps(800 * time.Millisecond)
					return reply{result: v.told()}
				}
				return reply{asks: elicits} // any tool: the rest answers
			}).of(server)
			f.rest = reporting(f.rest)
			o := planned(t)
			o.Upstreams[0].Timeout = 300 * time.Millisecond
			p := beset(t, f, o).plans(client)
			params := jsonrpc.Set([]byte(toolCall("get", `{"x":0}`)), "_meta", []byte(`{"progressToken":"p"}`))
			if m := p.request("tools/call", p.said(string(params))); firstText(m.Message) != "done" {
				t.Errorf("a direct call: got %s", m.Raw)
			}
			a := p.run(`{"id":"a","tool":"get","arguments":{"x":1}},{"id":"w","tool":"write","arguments":{"x":2}},
				{"id":"q","tool":"get","arguments":{"x":"quiet"}}`)
			if want := "a ok, w ok, q failed"; a.states() != want {
				t.Errorf("got %s, want %s: %s, %s", a.states(), want, a.why("a"), a.why("w"))
			}
		})
	})
}

// besideBar returns options with a second upstream whose calls share no state with the first.
func besideBar(t testing.TB) proxy.Options {
	o := planned(t, reading("bar/list", 0), reading("bar/get", 0),
		valuemodel.Rule{Pattern: "bar/write", Source: "test", Layer: valuemodel.Layer{Class: valuemodel.MutatesExternal}})
	bar := o.Upstreams[0]
	bar.Fingerprint, bar.Model.Name, bar.Spec.Name = "bar", "bar", "bar"
	bar.Model.URL = "http://bar.test/mcp"
	bar.Spec.URL = bar.Model.URL
	o.Upstreams = append(o.Upstreams, bar)
	return o
}

// The shared session of stateless clients over HTTP does not expire while one of their plans
// waits for answers: to a server's question, or to the confirmation.
func TestPlanOutlivesIdleness(t *testing.T) {
	for _, server := range []string{"handshake", "stateless"} {
		for _, step := range []string{`{"id":"a","tool":"get","arguments":{"x":"ask"}}`, `{"id":"a","tool":"write"}`} {
			bubble.Test(t, func(t *testing.T) {
				o := planned(t)
				o.HTTP.SessionIdle = time.Minute
				o.Plans.Mutations = "confirm"
				d := beset(t, newFoe(inquisitive).of(server), o)
				params := toolCall("execute_tool_plan", `{"steps":[`+step+`]}`)
				m, err := jsonrpc.Parse([]byte(d.ask(t.Context(), params)))
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Minute)
				accepts := func(string, []byte) []byte { return []byte(`{"action":"accept","content":{}}`) }
				if got := d.ask(t.Context(), string(retry(params, m.Result, accepts))); !strings.Contains(got, `"status":"ok"`) {
					t.Errorf("%s: got %s", server, got)
				}
				time.Sleep(time.Hour)
				if n := d.proxy.Stats().Sessions; n != 0 {
					t.Errorf("%d sessions after an hour in which nothing was asked", n)
				}
			})
		}
	}
}

// A plan is resumed by the same arguments in any formatting, and by no others.
func TestPlanTakenUpByEqualArguments(t *testing.T) {
	const plan = `{"steps":[{"id":"w","tool":"put","arguments":{"n":1,"t":"x"}},{"id":"a","tool":"ask","arguments":{"asks":[{"method":"elicitation/create","params":{"message":"?"}}]},"depends_on":["w"]}],"output_steps":["a"]}`
	for name, test := range map[string]struct {
		from, to string
		same     bool
	}{
		"spaces":           {`"tool":"put"`, `"tool" :   "put"`, true},
		"escapes":          {`"tool":"put"`, `"t\u006fol":"\u0070ut"`, true},
		"order of members": {`"id":"w","tool":"put"`, `"tool":"put","id":"w"`, true},
		"in arguments":     {`{"n":1,"t":"x"}`, `{"t":"\u0078", "n":1}`, true},
		"another number":   {`"n":1`, `"n":2`, false},
		"a text":           {`"n":1`, `"n":"1"`, false},
		"another letter":   {`"t":"x"`, `"t":"X"`, false},
		"one more":         {`"t":"x"`, `"t":"x","u":null`, false},
		"one less":         {`,"t":"x"`, ``, false},
		"order of items":   {`"output_steps":["a"]`, `"output_steps":["w"]`, false},
		"twice":            {`"n":1`, `"n":2,"n":1`, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, server := range []string{"handshake", "stateless"} {
				s, q := inquiring(t, server, "http", func(o *proxy.Options) { o.Plans.Mutations = "allow" })
				c := connect(t, s, stateless)
				params, result := c.suspended("execute_tool_plan", plan)
				again := retry(params, result, tagged("me"))
				other := strings.Replace(plan, test.from, test.to, 1)
				if again == nil || other == plan {
					t.Fatalf("got %s, want a question, and %s", result, other)
				}
				m := c.start("tools/call", string(jsonrpc.Set(again, "arguments", []byte(other)))).wait()
				if test.same {
					if a := readPlan(t, m); a.states() != "w ok, a ok" {
						t.Errorf("%s: got %s", server, m.Raw)
					}
				} else if m.Error == nil {
					t.Errorf("%s: got %s, want a refusal", server, m.Raw)
				}
				if n := q.calls("put"); n != 1 {
					t.Errorf("%s: it was written %d times", server, n)
				}
			}
		})
	}
}

// A session can have a limited number of suspended plans. One more ends, and the suspended
// ones are not affected.
func TestPlansSuspendedAtMost(t *testing.T) {
	const most, more = 32, 5
	for _, server := range []string{"handshake", "stateless"} {
		for _, mutations := range []string{"allow", "confirm"} {
			t.Run(server+", "+mutations, func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					o := planned(t)
					o.Plans.Mutations = mutations
					d := beset(t, newFoe(inquisitive).of(server), o)
					p := d.plans(stateless)
					accepts := func(string, []byte) []byte { return []byte(`{"action":"accept","content":{}}`) }
					suspend := func(i int) (again string, m jsonrpc.Message) {
						steps := fmt.Sprintf(`{"id":"w","tool":"write","arguments":{"n":%d}}`, i) // its confirmation is asked
						if mutations == "allow" {
							steps = fmt.Sprintf(`{"id":"a","tool":"get","arguments":{"x":"ask","i":%d}},{"id":"w","tool":"write","arguments":{"n":%d},"depends_on":["a"]}`, i, i)
						}
						params := toolCall("execute_tool_plan", `{"steps":[`+steps+`]}`)
						m = p.request("tools/call", p.said(params)).Message
						return string(retry(params, m.Result, accepts)), m
					}
					var waiting []string
					for i := range most + more {
						again, m := suspend(i)
						if again != "" {
							waiting = append(waiting, again)
						} else if text := string(m.Raw); strings.Contains(text, `"status":"ok"`) || strings.Contains(text, "session ended") || strings.Contains(text, "session has ended") {
							t.Errorf("the %dth: got %s", i+1, text)
						}
					}
					if len(waiting) != most {
						t.Fatalf("%d plans wait, want %d", len(waiting), most)
					}
					if n := len(d.foe.ledger()); mutations == "confirm" && n != 0 {
						t.Errorf("%d calls were made before any plan was confirmed", n)
					}
					for i, again := range waiting {
						if m := p.request("tools/call", p.said(again)); !strings.Contains(string(m.Result), `"id":"w","status":"ok"`) {
							t.Errorf("the %dth: got %s", i+1, m.Raw)
						}
					}
					if got := strings.Count(calls(d.foe.ledger()), "write"); got != most {
						t.Errorf("%d writes, want %d", got, most)
					}
					if again, m := suspend(most + more); again == "" {
						t.Errorf("with none waiting: got %s", m.Raw)
					}
				})
			})
		}
	}
}
