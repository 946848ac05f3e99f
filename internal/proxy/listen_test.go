package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/catalog"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/upstream"
)

func TestListen(t *testing.T) {
	t.Parallel()
	for _, upEra := range []string{"handshake", "stateless"} {
		for _, transport := range []string{"stdio", "http"} {
			t.Run(upEra+" "+transport, func(t *testing.T) {
				t.Parallel() // each waits twice until a change may be told
				o := mcptest.Options{Name: "n", Era: upEra}
				up := child(t, o)
				if transport == "http" {
					_, up = remote(t, o)
				}
				c := connect(t, start(t, options(up)), stateless)
				c.tools()
				c.start("resources/list", "").wait()
				listen := c.start("subscriptions/listen", `{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["n://a"]}}`)
				ack := c.next("notifications/subscriptions/acknowledged")
				checkSubscription(t, ack, listen)
				if got := string(jsonrpc.Get(ack.Params, "notifications")); got != `{"toolsListChanged":true,"resourceSubscriptions":["n://a"]}` {
					t.Errorf("acknowledged %s", got)
				}
				// The proxy's subscription request is sent concurrently with the calls.
				want := `"uri":"n://a"`
				if upEra == "stateless" {
					want = `"resourceSubscriptions":["n://a"]`
				}
				for !strings.Contains(c.said("seen", ""), want) {
					if t.Failed() {
						return
					}
				}
				c.call("update", `{"uri":"n://b"}`) // not requested
				c.call("update", `{"uri":"n://a"}`)
				updated := c.next("notifications/resources/updated")
				checkSubscription(t, updated, listen)
				if uri, _ := jsonrpc.String(jsonrpc.Get(updated.Params, "uri")); uri != "n://a" {
					t.Errorf("got an update of %s", uri)
				}
				c.call("change", `{"names":["echo","change","fresh"]}`)
				checkSubscription(t, c.next("notifications/tools/list_changed"), listen)
				if got := c.tools(); got != "echo change fresh" {
					t.Errorf("got tools %q", got)
				}
				c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + listen.id + `}}`)
				c.call("change", `{"names":["echo"]}`)
				for _, line := range c.transcript() {
					m, _ := jsonrpc.Parse([]byte(line))
					if strings.HasPrefix(m.Method, "notifications/") && jsonrpc.Get(jsonrpc.Get(m.Params, "_meta"), "io.modelcontextprotocol/subscriptionId") == nil {
						t.Errorf("outside of any subscription: %s", line)
					}
				}
			})
		}
	}
}

// subscription returns the method that begins or ends a subscription.
func subscription(begins bool) string {
	if begins {
		return "resources/subscribe"
	}
	return "resources/unsubscribe"
}

// Of two requests for one resource that a client sends at once, the last counts.
func TestLastSubscriptionCounts(t *testing.T) {
	for _, upEra := range []string{"handshake", "stateless"} {
		t.Run(upEra, func(t *testing.T) {
			c := connect(t, start(t, options(child(t, mcptest.Options{Name: "n", Era: upEra}))), handshake)
			const uri = `{"uri":"n://a"}`
			for i := range 50 {
				subscribed := i%2 == 0
				all := []pending{c.start(subscription(!subscribed), uri), c.start(subscription(subscribed), uri)}
				for _, p := range all {
					p.wait()
				}
				c.call("update", uri)
				updated := false
				for len(c.notes) > 0 {
					updated = (<-c.notes).Method == "notifications/resources/updated" || updated
				}
				if updated != subscribed {
					t.Fatalf("round %d: the last request was %s, and an update came: %v", i, subscription(subscribed), updated)
				}
			}
		})
	}
}

// A subscription that its client has cancelled no longer waits for a server that does not answer it.
func TestCancelledSubscription(t *testing.T) {
	asked := make(chan struct{})
	_, mute := remote(t, mcptest.Options{Name: "mute", Answer: func(ctx context.Context, m jsonrpc.Message) []byte {
		if m.Method == "resources/subscribe" {
			close(asked)
			<-ctx.Done()
		}
		return nil
	}})
	mute.Spec.StartTimeout = time.Hour
	s := start(t, options(mute))
	c := connect(t, s, handshake)
	c.tools()
	p := c.start("resources/subscribe", `{"uri":"mute://a"}`)
	<-asked
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + p.id + `}}`)
	mcptest.Eventually(t, "the request has ended", func() bool { return proxy.Kept(s)["requests"] == 0 })
}

// The subscriptions of a session are bounded by their bytes; hundreds of usual ones fit.
func TestSubscriptionsAreBounded(t *testing.T) {
	s := start(t, options(child(t, mcptest.Options{Name: "n"})))
	long := strings.Repeat("x", 256<<10)
	refused := func(c *caller, method, params string) {
		t.Helper()
		if code, text := c.refused(method, params); code != jsonrpc.CodeInternal || !strings.Contains(text, "too many subscriptions") {
			t.Errorf("%.60s: got %d %s", params, code, text)
		}
	}
	for _, scheme := range []string{"n://", "mcpschedd://models/"} { // a server's resources, and the proxy's own
		uri := func(i int, end string) string { return fmt.Sprintf(`{"uri":"%s%d/%s"}`, scheme, i, end) }
		c := connect(t, s, handshake)
		for i := range 500 {
			c.request("resources/subscribe", uri(i, ""))
		}
		for i := range 7 {
			c.request("resources/subscribe", uri(i, long))
		}
		refused(c, "resources/subscribe", uri(7, long))
		c.request("resources/unsubscribe", uri(0, long))
		c.request("resources/subscribe", uri(7, long))
	}
	listen := func(n int, end string) string {
		var uris []string
		for i := range n {
			uris = append(uris, fmt.Sprintf("n://%d/%s", i, end))
		}
		return fmt.Sprintf(`{"notifications":{"resourceSubscriptions":%s}}`, jsonrpc.Marshal(uris))
	}
	c := connect(t, s, stateless)
	c.start("subscriptions/listen", listen(500, ""))
	c.next("notifications/subscriptions/acknowledged")
	for range 2 {
		c.start("subscriptions/listen", listen(3, long))
		c.next("notifications/subscriptions/acknowledged")
	}
	refused(c, "subscriptions/listen", listen(2, long))
	refused(c, "subscriptions/listen", listen(100_000, ""))
}

// What a subscription allocates does not grow with the number of those before it.
func TestSubscriptionsAreNotCopied(t *testing.T) {
	_, up := remote(t, mcptest.Options{Name: "n"})
	c := connect(t, start(t, options(up)), handshake)
	const before, measured = 6000, 100
	var first, last runtime.MemStats
	for i := range before + measured {
		if i == before {
			runtime.ReadMemStats(&first)
		}
		c.request("resources/subscribe", fmt.Sprintf(`{"uri":"n://%d"}`, i))
	}
	runtime.ReadMemStats(&last)
	if each := (last.TotalAlloc - first.TotalAlloc) / measured; each > 80<<10 {
		t.Errorf("after %d subscriptions, each further one allocates %d bytes", before, each)
	}
}

func checkSubscription(t *testing.T, m jsonrpc.Message, listen pending) {
	t.Helper()
	if id := jsonrpc.Get(jsonrpc.Get(m.Params, "_meta"), "io.modelcontextprotocol/subscriptionId"); string(id) != listen.id {
		t.Errorf("got %s, want it to belong to %s", m.Raw, listen.id)
	}
}

// Ten changes in a short time cause one or two notifications, and list_changed is only sent if bytes of
// the list have changed.
func TestListChanged(t *testing.T) {
	for _, era := range []string{"handshake", "stateless"} {
		bubble.Test(t, func(t *testing.T) {
			d, change := changeable(t, era)
			g := d.enter()
			notified := func() int {
				time.Sleep(10 * time.Second)
				return len(g.notices("notifications/tools/list_changed"))
			}
			before := notified()
			for i := range 10 {
				change(fmt.Sprintf("t%d", i))
				time.Sleep(20 * time.Millisecond)
			}
			after := notified()
			if n := after - before; n < 1 || n > 2 {
				t.Errorf("%s: got %d notifications of ten changes, want one or two", era, n)
			}
			if list := g.request("tools/list", "{}").Result; !strings.Contains(string(list), `"t9"`) {
				t.Errorf("%s: got %s", era, list)
			}
			change("t9")
			if n := notified() - after; n != 0 {
				t.Errorf("%s: got %d notifications of no change", era, n)
			}
		})
	}
}

func TestRoutingBesideTools(t *testing.T) {
	for _, era := range []string{handshake, stateless} {
		for _, upEra := range []string{"handshake", "stateless"} {
			t.Run(fmt.Sprintf("client %s servers %s", era, upEra), func(t *testing.T) {
				_, a := remote(t, mcptest.Options{Name: "a", Era: upEra, Page: 1, Instructions: "A rules", Resources: []string{`{"uri":"a://1","name":"1"}`, `{"uri":"a://2","name":"2"}`, `{"uri":"b://listed by a","name":"x"}`},
					Templates: []string{`{"uriTemplate":"a://t/{id}","name":"t"}`, `{"uriTemplate":"b://t/{+path}","name":"wide"}`}})
				_, b := remote(t, mcptest.Options{Name: "b", Era: upEra, Page: 1, Instructions: "B rules"})
				c := connect(t, start(t, options(a, b)), era)
				if got := c.names("resources/list", "resources"); got != "1 2 x a b mcpschedd stats mcpschedd stats summary" {
					t.Errorf("got resources %q", got)
				}
				if got := c.names("resources/templates/list", "resourceTemplates"); got != "t wide t mcpschedd value model" {
					t.Errorf("got templates %q", got)
				}
				if got := c.names("prompts/list", "prompts"); got != "a__ask b__ask" {
					t.Errorf("got prompts %q", got)
				}
				tests := []struct{ method, params, want string }{
					{"resources/read", `{"uri":"b://b"}`, `"text":"b"`},
					{"resources/read", `{"uri":"b://t/7"}`, `"text":"b"`},      // found by template, as a, which has one for it too, lacks it
					{"resources/read", `{"uri":"b://unlisted"}`, `"text":"b"`}, // found by trying each server
					{"prompts/get", `{"name":"b__ask","arguments":{"x":"1"}}`, `"got":{"name":"ask","arguments":{"x":"1"}`},
					{"completion/complete", `{"ref":{"type":"ref/prompt","name":"b__ask"},"argument":{"name":"x","value":""}}`, `"values":["b"]`},
					{"completion/complete", `{"ref":{"type":"ref/prompt","name":"b__ask"},"argument":{"name":"x","value":""}}`, `"ref":{"type":"ref/prompt","name":"ask"}`},
					{"completion/complete", `{"ref":{"type":"ref/resource","uri":"b://t/{id}"},"argument":{"name":"id","value":""}}`, `"values":["b"]`},
				}
				for _, test := range tests {
					if got := c.request(test.method, test.params); !strings.Contains(got, test.want) {
						t.Errorf("%s %s: got %s, want %s", test.method, test.params, got, test.want)
					}
				}
				want := -32002
				if era == stateless {
					want = -32602
				}
				if code, _ := c.refused("resources/read", `{"uri":"c://nobody"}`); code != want {
					t.Errorf("an unknown resource: got code %d, want %d", code, want)
				}
			})
		}
	}
}

// A resource is not reported as missing if a server that may have it could not be asked.
func TestResourceOfServerNotReached(t *testing.T) {
	_, well := remote(t, mcptest.Options{Name: "well"})
	c := connect(t, start(t, options(child(t, mcptest.Options{Name: "frail", Start: "die"}), well)), handshake)
	if _, text := c.refused("resources/read", `{"uri":"x://unlisted"}`); !strings.Contains(text, "frail: born to die") {
		t.Errorf("got %q, want why the other server was not asked", text)
	}
}

// A server that becomes ready while the others answer is asked too.
func TestResourceOfServerThatStarts(t *testing.T) {
	gate := mcptest.NewGate(t)
	var p *proxy.Server
	ready := func(upstream int) func() bool {
		return func() bool { return p.Report().Running[0].Upstreams[upstream].State == "ready" }
	}
	_, well := remote(t, mcptest.Options{Name: "well", Answer: func(_ context.Context, m jsonrpc.Message) []byte {
		if m.Method == "resources/read" {
			gate.Next().Open()
			mcptest.Eventually(t, "the other server is ready", ready(1))
		}
		return nil
	}})
	o := options(well, child(t, mcptest.Options{Name: "slow", Gate: gate.Addr()}))
	o.StartupWait = time.Millisecond
	p = start(t, o)
	c := connect(t, p, handshake)
	mcptest.Eventually(t, "the server is ready", ready(0))
	if got := c.request("resources/read", `{"uri":"slow://a"}`); !strings.Contains(got, `"text":"slow"`) {
		t.Errorf("got %s", got)
	}
}

func TestTasks(t *testing.T) {
	for _, era := range []string{handshake, stateless} {
		for _, upEra := range []string{"handshake", "stateless"} {
			t.Run(fmt.Sprintf("client %s servers %s", era, upEra), func(t *testing.T) {
				_, a := remote(t, mcptest.Options{Name: "a", Era: upEra})
				_, b := remote(t, mcptest.Options{Name: "b", Era: upEra})
				c := connect(t, start(t, options(a, b)), era)
				c.tools()
				if era == stateless {
					if got := c.request("server/discover", ""); strings.Contains(got, `"tasks"`) || !strings.Contains(got, `"completions"`) {
						t.Errorf("got %s, want no tasks, which this revision does not have", got)
					}
				}
				params := `{"name":"b__echo","arguments":{},"task":{"ttl":1000}}`
				if era == stateless && upEra == "stateless" {
					params = `{"name":"b__task","arguments":{}}`
				}
				if got := c.request("tools/call", params); !strings.Contains(got, `"taskId":"b-0"`) {
					t.Fatalf("got %s", got)
				}
				methods := []string{"tasks/get", "tasks/cancel", "tasks/result"}
				if era == stateless {
					methods = methods[:2]
				}
				for _, method := range methods {
					if got := c.request(method, `{"taskId":"b-0"}`); !strings.Contains(got, `"method":"`+method+`"`) {
						t.Errorf("%s: got %s", method, got)
					}
				}
				if m := c.start("tasks/list", "").wait(); era == handshake && !strings.Contains(string(m.Result), `"tasks":[{"taskId":"b-0"}]`) {
					t.Errorf("got %s", m.Raw)
				}
				if code, text := c.refused("tasks/cancel", `{"taskId":"x"}`); code != jsonrpc.CodeInvalidParams || !strings.Contains(text, "no task of this session") {
					t.Errorf("an unknown task, which either server may have: got %d %s", code, text)
				}
			})
		}
	}
}

// tasks/list has every page of every server.
func TestTaskListIsWhole(t *testing.T) {
	_, a := remote(t, mcptest.Options{Name: "a", Answer: func(_ context.Context, m jsonrpc.Message) []byte {
		switch cursor, _ := jsonrpc.String(jsonrpc.Get(m.Params, "cursor")); {
		case m.Method != "tasks/list":
			return nil
		case cursor == "":
			return []byte(`{"tasks":[{"taskId":"1"}],"nextCursor":"second"}`)
		default:
			return fmt.Appendf(nil, `{"tasks":[{"taskId":%q}],"nextCursor":"second"}`, cursor) // the same page once more
		}
	}})
	_, b := remote(t, mcptest.Options{Name: "b"})
	_, end := remote(t, mcptest.Options{Name: "end", Answer: func(_ context.Context, m jsonrpc.Message) []byte {
		if m.Method != "tasks/list" {
			return nil
		}
		return []byte(`{"tasks":[{"taskId":"3"}],"nextCursor":""}`) // which is the end
	}})
	c := connect(t, start(t, options(a, b, end)), handshake)
	c.tools()
	c.request("tools/call", `{"name":"b__echo","arguments":{},"task":{"ttl":1000}}`)
	if got, want := c.request("tasks/list", ""), `{"tasks":[{"taskId":"1"},{"taskId":"second"},{"taskId":"b-0"},{"taskId":"3"}]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if code, _ := c.refused("tasks/list", `{"cursor":"second"}`); code != jsonrpc.CodeInvalidParams {
		t.Errorf("a page of one server: got code %d", code)
	}
}

// tasks/list leaves out a server that is starting, which has no tasks yet, and one that fails, unless all do.
func TestTaskListOfServersThatAnswer(t *testing.T) {
	slow := child(t, mcptest.Options{Name: "slow", Gate: mcptest.NewGate(t).Addr()})
	slow.Spec.StartTimeout = time.Hour
	srv := mcptest.New(mcptest.Options{Name: "fails"})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte("tasks/list")) {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		srv.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	_, fails := remote(t, mcptest.Options{Name: "fails"})
	fails.Spec.URL, fails.Fingerprint = web.URL, web.URL
	_, b := remote(t, mcptest.Options{Name: "b"})
	for _, all := range []bool{false, true} {
		o := options(slow, fails)
		if !all {
			o = options(slow, fails, b)
		}
		o.StartupWait = time.Millisecond
		c := connect(t, start(t, o), handshake)
		for _, u := range o.Upstreams[1:] { // they are live when their tools are known
			for !strings.Contains(c.tools(), u.Spec.Name+"__echo") {
			}
		}
		m := c.start("tasks/list", "").wait()
		if failed := m.Error != nil; failed != all || !failed && !strings.Contains(string(m.Result), `"tasks":[]`) {
			t.Errorf("all fail %v: got %s", all, m.Raw)
		}
	}
}

// tasks/list has a limited number of bytes from each server: one that ignores the cursor would fill the
// memory.
func TestTaskListIsBounded(t *testing.T) {
	var pages atomic.Int32
	_, a := remote(t, mcptest.Options{Name: "a", Answer: func(_ context.Context, m jsonrpc.Message) []byte {
		if m.Method != "tasks/list" {
			return nil
		}
		return fmt.Appendf(nil, `{"tasks":[{"taskId":"1","statusMessage":"%s"}],"nextCursor":"%d"}`, strings.Repeat("x", 1<<20), pages.Add(1))
	}})
	_, b := remote(t, mcptest.Options{Name: "b"})
	c := connect(t, start(t, options(a, b)), handshake)
	c.tools()
	c.request("tools/call", `{"name":"b__echo","arguments":{},"task":{"ttl":1000}}`)
	got := c.request("tasks/list", "")
	if n := strings.Count(got, `"taskId":"1"`); n != 4 || pages.Load() != 4 || !strings.HasSuffix(got, `,{"taskId":"b-0"}]}`) {
		t.Errorf("got %d tasks of %d pages, and at last %s", n, pages.Load(), got[len(got)-20:])
	}
}

// The first response does not wait for servers. It declares all capabilities that a server may
// turn out to have. The lists wait for the servers.
func TestBeginningDoesNotWait(t *testing.T) {
	for _, era := range []string{handshake, stateless} {
		gate := mcptest.NewGate(t)
		o := options(child(t, mcptest.Options{Name: "slow", Gate: gate.Addr()}), shelf("known", "tool"))
		o.StartupWait = time.Hour
		c := attach(t, start(t, o), era)
		began := c.opens("tester", able)
		for _, want := range []string{`"tools":{"listChanged":true}`, `"prompts":{"listChanged":true}`, `"resources":{"subscribe":true,"listChanged":true}`, `"logging":{}`, `"completions":{}`} {
			if !strings.Contains(began, want) {
				t.Errorf("%s: got %s, want %s in it", era, began, want)
			}
		}
		lists := []pending{c.start("tools/list", ""), c.start("prompts/list", "")}
		at := gate.Next()
		c.request("resources/read", `{"uri":"mcpschedd://stats"}`) // requests that need no server do not wait for the lists
		for _, l := range lists {
			if !l.open() {
				t.Errorf("%s: a list did not wait: %s", era, l.wait().Raw)
			}
		}
		at.Open()
		for i, want := range []string{`"slow__echo"`, `"slow__ask"`} {
			if m := lists[i].wait(); !strings.Contains(string(m.Result), want) {
				t.Errorf("%s: got %s, want %s in it", era, m.Raw, want)
			}
		}
	}
}

// A client that lists the tools once waits for a server that others do not wait for.
func TestListsOnce(t *testing.T) {
	for _, test := range []struct {
		client string
		waits  bool
	}{{"tester", false}, {"codex-mcp-client", true}, {"qwen-cli-mcp-client-mcpschedd", true}} {
		begin := make(chan struct{})
		_, slow := remote(t, mcptest.Options{Name: "slow", Answer: func(ctx context.Context, m jsonrpc.Message) []byte {
			if m.Method == "tools/list" {
				select {
				case <-begin:
				case <-ctx.Done():
				}
			}
			return nil
		}})
		o := options(slow)
		o.StartupWait = 0
		c := introduced(t, start(t, o), test.client)
		list := c.start("tools/list", "")
		if c.request("resources/read", `{"uri":"mcpschedd://stats"}`); test.waits {
			close(begin)
		}
		if got := strings.Contains(string(list.wait().Result), `"echo"`); got != test.waits {
			t.Errorf("%s: listed: %v, want %v", test.client, got, test.waits)
		}
		if !test.waits {
			close(begin)
		}
	}
}

// instructed is an upstream that cannot be started and has stored instructions.
func instructed(name, text string) catalog.Upstream {
	return shelved(name, upstream.Offer{Instructions: text})
}

// At an unknown name a client is told that the configuration has mistakes.
func TestMistakesAreTold(t *testing.T) {
	o := options(instructed("s0", "Be kind."))
	o.NameStyle = "always" // else the only server has any tool
	s := start(t, o)
	s.Reject(errors.New("c.toml:3: no good"))
	c := connect(t, s, handshake)
	if _, why := c.refused("tools/call", toolCall("echo", "")); !strings.HasSuffix(why, `unknown tool "echo"; the configuration has mistakes, which may be why: c.toml:3: no good`) {
		t.Errorf("got %s, want the mistake", why)
	}
}

// Of instructions that a client would cut off, each server has a fair share, and none is cut within a character.
func TestInstructionsShareTheAllowance(t *testing.T) {
	for _, test := range []struct {
		servers int
		text    string
	}{
		{1, "Be kind."}, {2, strings.Repeat("Ask twice, 𝒂nd listen. ", 200)}, {300, "One. Two. Three."}, {1000, "x"},
		{20, strings.Repeat("道生一。", 100)}, {20, strings.Repeat("𝒂", 400)},
	} {
		var ups []catalog.Upstream
		for i := range test.servers {
			ups = append(ups, instructed(fmt.Sprintf("s%d", i), test.text))
		}
		s := start(t, options(ups...))
		said := func(client string) string {
			text, _ := jsonrpc.String(jsonrpc.Get([]byte(attach(t, s, handshake).opens(client, `{}`)), "instructions"))
			return text
		}
		if all := said("tester"); strings.Count(all, test.text) < test.servers || !strings.HasPrefix(all, "# mcpschedd\nNot available now: s0 (on the shelf).") {
			t.Errorf("%d servers: got %.200q, want all instructions after what is wrong", test.servers, all)
		}
		got := said("claude-code")
		if len(got) > 4096 || strings.ContainsRune(got, '\uFFFD') {
			t.Errorf("%d servers: got %d bytes: %.200q", test.servers, len(got), got)
		}
		for i := range min(test.servers, 20) {
			if head := fmt.Sprintf("# s%d\n%.3s", i, test.text); test.servers <= 20 && !strings.Contains(got, head) {
				t.Errorf("%d servers: got %.200q, want %q", test.servers, got, head)
			}
		}
	}
}

// Instructions that fit are not cut, and of a long text without spaces all but its end is left.
func TestInstructionsThatFit(t *testing.T) {
	long, short := strings.Repeat("Ask twice. ", 270), "Be kind."
	s := start(t, options(instructed("long", long), instructed("short", short)))
	if got := attach(t, s, handshake).opens("claude-code", `{}`); !strings.Contains(got, long) || !strings.Contains(got, short) {
		t.Errorf("got %.200q, want both in full", got)
	}
	s = start(t, options(instructed("long", "GitHub "+strings.Repeat("道", 3000))))
	if got := attach(t, s, handshake).opens("claude-code", `{}`); strings.Count(got, "道") < 1200 {
		t.Errorf("got %.200q, want as much as there is space for", got)
	}
}

func TestProgress(t *testing.T) {
	for _, era := range []string{handshake, stateless} {
		for _, upEra := range []string{"handshake", "stateless"} {
			for _, transport := range []string{"stdio", "http"} {
				t.Run(fmt.Sprintf("client %s server %s %s", era, upEra, transport), func(t *testing.T) {
					o := mcptest.Options{Name: "p", Era: upEra}
					up := child(t, o)
					if transport == "http" {
						_, up = remote(t, o)
					}
					c := connect(t, start(t, options(up)), era)
					c.tools()
					for i, token := range []string{`0`, `"0"`, `"a\u0062"`, `9007199254740993`, `-1`} {
						checkProgress(t, c, token, i)
					}
					m := c.begin("progress", `{"n":3}`).wait() // no token, so no progress
					if m.Error != nil || len(c.notes) > 0 {
						t.Errorf("without a token: got %s and %d notifications", m.Raw, len(c.notes))
					}
				})
			}
		}
	}
}

func checkProgress(t *testing.T, c *caller, token string, round int) {
	t.Helper()
	before := len(c.transcript())
	params := fmt.Sprintf(`{"name":"progress","arguments":{"n":3,"late":true},"_meta":{"progressToken":%s,"x":1}}`, token)
	p := c.start("tools/call", params)
	p.wait()
	c.call("echo", "") // after its response, late notifications have arrived
	var got []string
	for _, line := range c.transcript()[before:] {
		switch m, _ := jsonrpc.Parse([]byte(line)); {
		case m.Method == "notifications/progress":
			got = append(got, string(m.Params))
		case string(m.ID) == p.id:
			got = append(got, "answer")
		}
	}
	var want []string
	for i := range 3 {
		want = append(want, fmt.Sprintf(`{"progressToken":%s,"progress":%d,"from":"p"}`, token, i+1))
	}
	if diff := cmp.Diff(append(want, "answer"), got); diff != "" {
		t.Errorf("token %s (-want +got):\n%s", token, diff)
	}
	for len(c.notes) > 0 {
		<-c.notes
	}
}

func TestLogLevels(t *testing.T) {
	for _, upEra := range []string{"handshake", "stateless"} {
		t.Run("server "+upEra, func(t *testing.T) {
			s := start(t, options(child(t, mcptest.Options{Name: "logs", Era: upEra})))
			old := connect(t, s, handshake)
			old.request("logging/setLevel", `{"level":"warning"}`)
			old.call("log", `{"n":2,"level":"warning"}`)
			for range 2 {
				old.next("notifications/message")
			}
			seen := old.said("seen", "")
			want := `"method":"logging/setLevel","params":{"level":"warning"}`
			if upEra == "stateless" {
				want = `"io.modelcontextprotocol/logLevel":"warning"`
			}
			if !strings.Contains(seen, want) {
				t.Errorf("the server saw %s, want %s", seen, want)
			}
			if code, _ := old.refused("logging/setLevel", `{"level":"loud"}`); code != jsonrpc.CodeInvalidParams {
				t.Errorf("unknown level: got code %d", code)
			}

			c := connect(t, s, stateless)
			c.era = "as written"
			c.start("tools/call", withMeta(toolCall("log", ""), able, "")).wait()
			if len(c.notes) > 0 {
				t.Errorf("a stateless client that asked for no log got %d messages", len(c.notes))
			}
			c.start("tools/call", withMeta(toolCall("log", ""), able, "debug")).wait()
			c.next("notifications/message")
			c.era = stateless
			want = `"method":"logging/setLevel","params":{"level":"debug"}`
			if upEra == "stateless" {
				want = `"io.modelcontextprotocol/logLevel":"debug"`
			}
			if seen := c.said("seen", ""); !strings.Contains(seen, want) {
				t.Errorf("the server saw %s, want %s", seen, want)
			}
		})
	}
}

func TestCancellation(t *testing.T) {
	gate := mcptest.NewGate(t)
	for _, era := range []string{handshake, stateless} {
		for _, upEra := range []string{"handshake", "stateless"} {
			for _, transport := range []string{"stdio", "http"} {
				t.Run(fmt.Sprintf("client %s server %s %s", era, upEra, transport), func(t *testing.T) {
					o := mcptest.Options{Name: "slow", Era: upEra}
					up := child(t, o)
					if transport == "http" {
						_, up = remote(t, o)
					}
					c := connect(t, start(t, options(up)), era)
					call := c.begin("hold", `{"gate":"`+gate.Addr()+`"}`)
					at := gate.Next()
					c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + call.id + `,"reason":"enough"}}`)
					at.Gone()
					if got := c.call("echo", `{"x":1}`); jsonrpc.Get([]byte(got), "structuredContent") == nil || !call.open() {
						t.Errorf("got %s, and an answer to the cancelled call: %v", got, !call.open())
					}
				})
			}
		}
	}
}

func TestRootsChangesReachServersWithAHandshake(t *testing.T) {
	c := connect(t, start(t, options(child(t, mcptest.Options{Name: "old"}))), handshake)
	c.tools()
	c.send(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
	if got := c.said("seen", ""); !strings.Contains(got, `"notifications/roots/list_changed"`) {
		t.Errorf("the server saw %s", got)
	}
}
