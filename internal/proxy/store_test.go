package proxy_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/catalog"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// A call with other members than its name and arguments is not cached, as these may affect the
// answer.
func TestStoredOnlyPlain(t *testing.T) {
	s := start(t, stored(t, []valuemodel.Rule{reading("one/echo", time.Hour)}, child(t, mcptest.Options{Name: "one"})))
	const ofCodex = `{"name":"echo","arguments":{},"_meta":{"callId":"a","itemId":"b","sessionId":"c","threadId":"d","windowId":"e","x-codex-turn-metadata":{"model":"f"}}}`
	var c *caller
	for _, test := range []struct{ client, want string }{{"codex-mcp-client", "hit"}, {"tester", "fetched"}} {
		c = introduced(t, s, test.client)
		c.request("tools/list", "")
		c.request("tools/call", `{"name":"echo","arguments":{}}`)
		if how := disposition(t, c.request("tools/call", ofCodex)); how != test.want {
			t.Errorf("%s: got %s, want %s", test.client, how, test.want)
		}
	}
	for _, test := range []struct{ params, want string }{
		{`{"name":"echo","arguments":{}}`, "hit"},
		{`{"name":"echo"}`, "hit"},
		{`{"name":"echo","arguments":{},"_meta":{"progressToken":7}}`, "hit"},
		{`{"name":"echo","arguments":{},"_meta":{"claudecode/toolUseId":"x","traceparent":"00-0"}}`, "hit"},
		{`{"name":"echo","arguments":{},"_meta":{"vscode.conversationId":"a","vscode.requestId":"b"}}`, "hit"},
		{`{"name":"echo","arguments":{},"_meta":{"example/tenant":"x"}}`, "fetched"},
		{`{"name":"echo","arguments":{},"later":true}`, "fetched"},
	} {
		if how := disposition(t, c.request("tools/call", test.params)); how != test.want {
			t.Errorf("%s: got %s, want %s", test.params, how, test.want)
		}
	}
}

// The answers of a session are dropped when it ends.
func TestStoredUntilTheSessionEnds(t *testing.T) {
	s := start(t, stored(t, []valuemodel.Rule{reading("one/echo", time.Hour)}, child(t, mcptest.Options{Name: "one"})))
	c := connect(t, s, handshake)
	c.call("echo", `{}`)
	before := s.Stats().Store.Entries
	c.hangUp()
	if after := s.Stats().Store.Entries; before != 1 || after != 0 {
		t.Errorf("got %d answers during the session and %d after it, want 1 and 0", before, after)
	}
}

// The end of a session's server invalidates the answers of other sessions only if that server was sent a
// call that may write.
func TestStoredAfterAnotherSessionEnds(t *testing.T) {
	s := start(t, stored(t, []valuemodel.Rule{reading("one/echo", time.Hour)}, child(t, mcptest.Options{Name: "one"})))
	c := connect(t, s, handshake)
	for tool, want := range map[string]string{"echo": "hit", "pid": "fetched"} { // nothing classifies pid
		other := connect(t, s, handshake)
		other.call(tool, `{}`)
		arguments := `{"before":"` + tool + `"}`
		c.call("echo", arguments)
		other.hangUp()
		if how := disposition(t, c.call("echo", arguments)); how != want {
			t.Errorf("after the end of a session that called %s: got %s, want %s", tool, how, want)
		}
	}
}

// An answer that depends on the client's reply to a question is not cached.
func TestAskedNotStored(t *testing.T) {
	_, web := remote(t, mcptest.Options{Name: "one"})
	for theirs, up := range map[string]catalog.Upstream{
		"handshake": child(t, mcptest.Options{Name: "one"}), "stateless": child(t, mcptest.Options{Name: "one", Era: "stateless"}), "HTTP": web,
	} {
		s := start(t, stored(t, []valuemodel.Rule{reading("one/ask", time.Hour)}, up))
		c := connect(t, s, handshake)
		c.reply(func(string, []byte) []byte { return []byte(`{"roots":[]}`) })
		for range 2 {
			if how := disposition(t, c.call("ask", `{"asks":[{"method":"roots/list","params":{}}]}`)); how != "fetched" {
				t.Errorf("%s server: got %s", theirs, how)
			}
		}
	}
}

// What is read after a write is stored if the write cannot land any more.
func TestStoredAfterAWrite(t *testing.T) {
	for _, tt := range []struct {
		name          string
		takes         time.Duration // until its server answers
		status        int           // of the answer if not 200
		busy, givenUp bool          // its host has no free slot; it is cancelled after a second
		want          string
	}{
		{"answered", time.Second, 0, false, false, "hit"},
		{"refused", 0, http.StatusTooManyRequests, false, false, "hit"},
		{"failed", 0, http.StatusInternalServerError, false, false, "fetched"},
		{"given up", 5 * time.Second, 0, false, true, "fetched"},
		{"given up and then answered", 1500 * time.Millisecond, 0, false, true, "hit"},
		{"given up before it was sent", time.Second, 0, true, true, "hit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				f := newFoe(func(v *visit) reply {
					switch v.tool {
					case "list":
						v.sleeps(time.Hour)
					case "write":
						v.ctx = context.WithoutCancel(v.ctx) // it is answered even if it is cancelled
						v.sleeps(tt.takes)
						return reply{result: v.told(), status: tt.status}
					}
					return reply{result: v.told()}
				})
				o := withoutPrefetch(defaults(t, reading("foe/get", time.Hour), reading("foe/list", 0)))
				o.Limits = map[string]limit.Rule{"*": {Concurrency: 2}}
				g := beset(t, f, o).enter()
				var list sent
				if tt.busy {
					g.begin("list", page(1))
					list = g.begin("list", page(2))
				}
				write := g.begin("write", `{}`)
				if tt.givenUp {
					time.Sleep(time.Second)
					write.cancel()
				} else {
					write.wait()
				}
				if tt.busy {
					list.cancel()
				}
				time.Sleep(10 * time.Second)
				g.call("get", thing(1, 0))
				if how := g.call("get", thing(1, 0)).how(); how != tt.want {
					t.Errorf("got %s, want %s", how, tt.want)
				}
			})
		})
	}
}

// A call is a write each time it is sent: a stateless server asks by a result, and gets the reply with the call sent again.
func TestStoredAfterAWriteThatAsks(t *testing.T) {
	s := start(t, stored(t, []valuemodel.Rule{reading("one/echo", time.Hour)}, child(t, mcptest.Options{Name: "one", Era: "stateless"})))
	c := connect(t, s, handshake)
	write := c.begin("ask", `{"asks":[`+elicits+`]}`)
	question := c.next("elicitation/create")
	c.call("echo", `{}`)
	c.send(string(jsonrpc.AppendResult(nil, question.ID, accepts("", nil))))
	write.wait()
	if how := disposition(t, c.call("echo", `{}`)); how != "fetched" {
		t.Errorf("got %s, want fetched, as the call may have written after the client's reply", how)
	}
}

// The hourly limit of prefetches is a reason of its own, which is counted for the host, and so is a refusal by the host.
func TestHourlyLimit(t *testing.T) {
	_, up := remote(t, mcptest.Options{Name: "one"})
	up.Exclusive = true
	o := stored(t, []valuemodel.Rule{reading("one/*", time.Hour)}, up)
	o.Enrichment.Mode = "on"
	o.Limits = map[string]limit.Rule{"*": {SpeculativePerHour: 1}}
	s := start(t, o)
	c := connect(t, s, handshake)
	if begun, why := proxy.Prefetch(s, 0, "one", "echo", `{"n":1}`); !begun {
		t.Fatalf("the first: %s", why)
	}
	c.call("echo", `{"n":1}`) // waits for it
	if begun, why := proxy.Prefetch(s, 0, "one", "echo", `{"n":2}`); begun || why != "quota" {
		t.Errorf("the second: begun %v, %q; want quota", begun, why)
	}
	for name, h := range s.Report().Hosts {
		if h.OverQuota != 1 {
			t.Errorf("%s: %d prefetches over the limit, want one", name, h.OverQuota)
		}
	}
	c.start("tools/call", `{"name":"status","arguments":{"status":429}}`).wait()
	if begun, why := proxy.Prefetch(s, 0, "one", "echo", `{"n":3}`); begun || why != "rate_limited" {
		t.Errorf("after a 429: begun %v, %q; want rate_limited", begun, why)
	}
}

// Task ids of two servers may be equal.
func TestTaskIDsAreTheirServersOwn(t *testing.T) {
	answer := func(name string) func(ctx context.Context, m jsonrpc.Message) []byte {
		return func(ctx context.Context, m jsonrpc.Message) []byte {
			switch {
			case tool(m) == "w":
				return []byte(`{"task":{"taskId":"1","status":"working"}}`)
			case m.Method == "tasks/get":
				return fmt.Appendf(nil, `{"taskId":"1","status":"working","of":%q}`, name)
			}
			return nil
		}
	}
	srv, one := remote(t, mcptest.Options{Name: "one", Answer: answer("one")})
	_, two := remote(t, mcptest.Options{Name: "two", Answer: answer("two")})
	o := stored(t, []valuemodel.Rule{reading("one/echo", time.Hour), reading("two/echo", time.Hour)}, one, two)
	o.Upstreams[0].Model.Domain, o.Upstreams[1].Model.Domain = "x.example", "y.example"
	s := start(t, o)
	c := connect(t, s, handshake)
	c.request("tools/call", `{"name":"one__w","arguments":{},"task":{}}`)
	c.request("tools/call", `{"name":"two__w","arguments":{},"task":{}}`)
	c.call("two__echo", `{}`)
	if how := disposition(t, c.call("two__echo", `{}`)); how != "fetched" {
		t.Fatalf("while its task runs: got %s", how)
	}
	srv.Announce("notifications/tasks/status", `{"taskId":"1","status":"completed"}`)
	c.next("notifications/tasks/status")
	c.call("two__echo", `{}`)
	if how := disposition(t, c.call("two__echo", `{}`)); how != "fetched" {
		t.Errorf("while the task of two runs: got %s from its domain, want fetched", how)
	}
	c.call("one__echo", `{}`)
	if how := disposition(t, c.call("one__echo", `{}`)); how == "fetched" {
		t.Error("after the task of one: fetched again from its domain")
	}
	if got := c.request("tasks/get", `{"taskId":"1"}`); !strings.Contains(got, `"of":"two"`) {
		t.Errorf("got %s, want the task that was started last", got)
	}
}

// A task of a server that is gone is not looked for at another server, which may have one of the same id.
func TestTaskOfServerThatIsGone(t *testing.T) {
	_, one := remote(t, mcptest.Options{Name: "one"})
	_, two := remote(t, mcptest.Options{Name: "two", Answer: func(ctx context.Context, m jsonrpc.Message) []byte {
		if tool(m) == "w" {
			return []byte(`{"task":{"taskId":"one-0","status":"working"}}`)
		}
		return nil
	}})
	o := stored(t, nil, one, two)
	s := start(t, o)
	c := connect(t, s, handshake)
	c.request("tools/call", `{"name":"two__w","arguments":{},"task":{}}`)
	c.request("tools/call", `{"name":"one__task","arguments":{},"task":{}}`)
	c.request("tools/call", `{"name":"two__w","arguments":{},"task":{}}`)
	o.Upstreams = o.Upstreams[1:]
	s.Apply(o)
	if _, text := c.refused("tasks/get", `{"taskId":"one-0"}`); !strings.Contains(text, "no such task") {
		t.Errorf("got %s, want the server of the latest task asked", text)
	}
	o.Upstreams = []catalog.Upstream{one}
	s.Apply(o)
	if _, text := c.refused("tasks/get", `{"taskId":"one-0"}`); !strings.Contains(text, "has been removed") {
		t.Errorf("got %s, want the task refused", text)
	}
}

// A server over HTTP keeps its tasks after a reload with, for example, another token, so the write of a task still ends
// with it. Another process has none of the tasks of the one before.
func TestTaskAfterAReload(t *testing.T) {
	_, one := remote(t, mcptest.Options{Name: "one"})
	two := child(t, mcptest.Options{Name: "two"})
	o := stored(t, []valuemodel.Rule{reading("one/echo", time.Hour)}, one, two)
	s := start(t, o)
	c := connect(t, s, handshake)
	replaced := func(n int) {
		name := o.Upstreams[n].Spec.Name
		if got := c.request("tools/call", `{"name":"`+name+`__task","arguments":{},"task":{}}`); !strings.Contains(got, `"taskId":"`+name+`-0"`) {
			t.Fatalf("got %s, want a task", got)
		}
		o.Upstreams = slices.Clone(o.Upstreams)
		o.Upstreams[n].Fingerprint = name + " again"
		s.Apply(o)
	}
	replaced(0)
	for range 2 {
		if how := disposition(t, c.call("one__echo", `{}`)); how != "fetched" {
			t.Errorf("while the task runs: got %s", how)
		}
	}
	c.request("tasks/result", `{"taskId":"one-0"}`)
	c.call("one__echo", `{}`)
	if how := disposition(t, c.call("one__echo", `{}`)); how == "fetched" {
		t.Error("after the task: fetched again")
	}
	replaced(1)
	if _, text := c.refused("tasks/cancel", `{"taskId":"two-0"}`); !strings.Contains(text, "has been removed or replaced") {
		t.Errorf("got %s, want the task refused", text)
	}
}

// A late answer may name a task that goes on, so the write of the call stays pending.
func TestLateAnswerMayNameATask(t *testing.T) {
	asked, answer := make(chan bool), make(chan bool)
	_, up := remote(t, mcptest.Options{Name: "one", Answer: func(_ context.Context, m jsonrpc.Message) []byte {
		if tool(m) != "w" {
			return nil
		}
		asked <- true
		<-answer
		return []byte(`{"task":{"taskId":"1","status":"working"}}`)
	}})
	c := connect(t, start(t, stored(t, []valuemodel.Rule{reading("one/echo", time.Hour)}, up)), handshake)
	call := c.begin("w", `{}`)
	<-asked
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + call.id + `}}`)
	c.call("echo", `{}`)
	answer <- true
	for range 5 {
		if how := disposition(t, c.call("echo", `{}`)); how != "fetched" {
			t.Errorf("got %s, want fetched while the task may run", how)
		}
	}
}

// A cancelled write that takes longer than write_settle may change something until its answer.
func TestLateAnswerAfterItsWriteExpired(t *testing.T) {
	p, up := puppet(t, "stdio")
	o := stored(t, []valuemodel.Rule{reading("puppet/rest", time.Hour)}, up)
	o.Dedup.WriteSettle = time.Millisecond
	c := connect(t, start(t, o), handshake)
	fetched := func() bool { return disposition(t, c.call("rest", `{}`)) == "fetched" }
	call := c.begin("work", `{}`)
	m := <-p.Calls
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + call.id + `}}`)
	<-p.Ended
	mcptest.Eventually(t, "the write expires", func() bool { return !fetched() })
	p.Answer(m.ID, []byte(`{"content":[]}`))
	mcptest.Eventually(t, "the late answer invalidates", fetched)
	mcptest.Eventually(t, "it does so once", func() bool { return !fetched() })
}

// A task may change something after its write has expired, as long as no status said that it ended.
func TestTaskEndsAfterItsWriteExpired(t *testing.T) {
	_, up := remote(t, mcptest.Options{Name: "one"})
	o := stored(t, []valuemodel.Rule{reading("one/echo", time.Hour)}, up)
	o.Dedup.WriteSettle = time.Millisecond
	c := connect(t, start(t, o), handshake)
	if got := c.request("tools/call", `{"name":"task","arguments":{},"task":{}}`); !strings.Contains(got, `"taskId":"one-0"`) {
		t.Fatalf("got %s, want a task", got)
	}
	mcptest.Eventually(t, "the write expires", func() bool { return disposition(t, c.call("echo", `{}`)) != "fetched" })
	c.request("tasks/result", `{"taskId":"one-0"}`)
	for i, want := range []bool{true, false} {
		if how := disposition(t, c.call("echo", `{}`)); (how == "fetched") != want {
			t.Errorf("%d: after the task's end: got %s", i, how)
		}
	}
	c.request("tasks/result", `{"taskId":"one-0"}`)
	if how := disposition(t, c.call("echo", `{}`)); how == "fetched" {
		t.Error("a task that has ended changes nothing any more")
	}
}

// A tool without a name is not listed, and a call of it is refused, whatever rules apply to all tools.
func TestCallWithoutName(t *testing.T) {
	unnamed := child(t, mcptest.Options{Name: "one", Tools: []string{`{"name":""}`, `{"name":"echo"}`}})
	for style, name := range map[string]string{"auto": "", "always": "one__"} {
		o := stored(t, []valuemodel.Rule{reading("one/*", time.Hour)}, unnamed)
		o.NameStyle = style
		c := connect(t, start(t, o), handshake)
		if got, want := c.tools(), name+"echo"; got != want {
			t.Errorf("%s: got the tools %q, want %q", style, got, want)
		}
		if _, why := c.refused("tools/call", `{"name":"`+name+`","arguments":{}}`); !strings.Contains(why, "unknown tool") {
			t.Errorf("%s: got %q, want that the tool is unknown", style, why)
		}
	}
}

// A task that its server does not name cannot be followed, so its write stays pending for write_settle.
func TestTaskWithoutID(t *testing.T) {
	_, up := remote(t, mcptest.Options{Name: "one", Answer: func(_ context.Context, m jsonrpc.Message) []byte {
		if tool(m) == "w" {
			return []byte(`{"task":{"status":"working"}}`)
		}
		return nil
	}})
	c := connect(t, start(t, stored(t, []valuemodel.Rule{reading("one/echo", time.Hour)}, up)), handshake)
	c.request("tools/call", `{"name":"w","arguments":{},"task":{}}`)
	for range 2 {
		if how := disposition(t, c.call("echo", `{}`)); how != "fetched" {
			t.Errorf("while the task may run: got %s", how)
		}
	}
}
