package proxy_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/upstream"
)

// puppet returns a shared upstream and its server, over a transport on which a message of the
// server need not name a request.
func puppet(t *testing.T, transport string) (*mcptest.Puppet, catalog.Upstream) {
	t.Helper()
	p := mcptest.NewPuppet()
	if transport == "stdio" {
		up := child(t, mcptest.Options{Name: "puppet", Relay: relay(t, p)})
		up.Spec.Shared = true
		return p, up
	}
	handler := p.Handler()
	if transport == "sse" {
		handler = p.SSE()
	}
	web := httptest.NewServer(handler)
	t.Cleanup(web.Close)
	return p, catalog.Upstream{
		Fingerprint: web.URL,
		Spec:        upstream.Spec{Name: "puppet", URL: web.URL, SSE: transport == "sse", Shared: true, StartTimeout: patience, MaxMessage: 1 << 20},
	}
}

// loose lists the transports of puppet.
var loose = []string{"stdio", "sse", "streamable"}

// Sessions begin and end while the server sends messages about calls, some of which are cancelled.
// No session receives a message with another session's token.
func TestNoSessionSeesAnothersToken(t *testing.T) {
	for _, transport := range loose {
		t.Run(transport, func(t *testing.T) {
			p, up := puppet(t, transport)
			o := options(up)
			o.DrainTimeout = 1
			s := start(t, o)
			connect(t, s, handshake).hangUp() // the first session, so that the others get no questions from the handshake
			ended := make(chan struct{})
			var speaking sync.WaitGroup
			refused := 0
			speaking.Go(func() { refused = speakForCalls(p, ended) })
			var all sync.WaitGroup
			for i := range 2 {
				all.Go(func() {
					random := rand.New(rand.NewPCG(1, uint64(i)))
					for n := range soak(12) {
						comeAndGo(t, s, random, fmt.Sprintf("token-%d-%d.", i, n))
					}
				})
			}
			all.Wait()
			close(ended)
			speaking.Wait()
			if refused == 0 {
				t.Error("no question of the server was refused")
			}
		})
	}
}

// comeAndGo plays one session: it makes some calls with its token, cancels some of them, and ends.
func comeAndGo(t *testing.T, s *proxy.Server, random *rand.Rand, token string) {
	c := connect(t, s, handshake)
	c.reply(tagged(token))
	for range 1 + random.IntN(3) {
		work := c.begin("work", `{"token":"`+token+`"}`)
		switch random.IntN(4) {
		case 0:
			c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + work.id + `}}`)
		case 1: // still open at the end
		default:
			work.wait()
		}
	}
	c.hangUp()
	for _, line := range c.transcript() {
		if i := strings.Index(line, "token-"); i >= 0 && !strings.HasPrefix(line[i:], token) {
			t.Errorf("the client with token %s received %s", token, line)
		}
	}
}

// speakForCalls sends a log message and a question about every call before it answers the call,
// and again for some much earlier calls. It returns how many questions were refused.
func speakForCalls(p *mcptest.Puppet, ended chan struct{}) (refused int) {
	replied := make(map[string]chan struct{})
	var mu sync.Mutex
	var all sync.WaitGroup
	defer all.Wait()
	asks := 0
	ask := func(method, token string) {
		done := make(chan struct{})
		mu.Lock()
		asks++
		id := fmt.Sprint(asks)
		replied[id] = done
		mu.Unlock()
		p.Say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":%q,"params":{"message":%q}}`, id, method, token))
		select {
		case <-done:
		case <-ended:
		}
	}
	for {
		select {
		case m := <-p.Replies:
			if m.Error != nil {
				refused++
			}
			id, _ := jsonrpc.String(m.ID)
			mu.Lock()
			close(replied[id])
			mu.Unlock()
		case call := <-p.Calls:
			all.Go(func() {
				token, _ := jsonrpc.String(jsonrpc.Get(jsonrpc.Get(call.Params, "arguments"), "token"))
				for range 5 {
					p.Log("info", token)
					ask("elicitation/create", token)
				}
				ask("ping", "") // the proxy has read everything sent before
				p.Answer(call.ID, []byte(`{"content":[{"type":"text","text":"`+token+`"}]}`))
			})
		case <-ended:
			return refused
		}
	}
}

// The progress of a task, which continues after the answer that names it, is sent to the client that
// started the task, under that client's token.
func TestProgressOfATask(t *testing.T) {
	for _, transport := range loose {
		t.Run(transport, func(t *testing.T) {
			p, up := puppet(t, transport)
			s := start(t, options(up))
			a, b := connect(t, s, handshake), connect(t, s, handshake)
			work := a.start("tools/call", `{"name":"work","arguments":{},"task":{},"_meta":{"progressToken":"of a"}}`)
			id := await(t, p.Calls).ID
			p.Answer(id, []byte(`{"task":{"taskId":"1","status":"working"}}`))
			work.wait()
			p.Say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(id) + `,"progress":1}}`)
			if m := a.next("notifications/progress"); jsonrpc.Text(m.Params, "progressToken") != "of a" {
				t.Errorf("got %s", m.Raw)
			}
			b.call("rest", "")
			b.mustNotHold("progress")
		})
	}
}

// A client's progress with a question is sent to the server that asked it, under that server's token.
// The tokens of two servers may be equal.
func TestProgressWithAQuestion(t *testing.T) {
	p, one := puppet(t, "stdio")
	q, two := puppet(t, "stdio")
	two.Spec.Name = "other"
	c := connect(t, start(t, options(one, two)), handshake)
	const question = `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"_meta":{"progressToken":7}}}`
	p.Say(question)
	first := jsonrpc.Get(jsonrpc.Get(c.next("sampling/createMessage").Params, "_meta"), "progressToken")
	q.Say(question)
	second := jsonrpc.Get(jsonrpc.Get(c.next("sampling/createMessage").Params, "_meta"), "progressToken")
	c.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(second) + `,"progress":2}}`)
	c.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(first) + `,"progress":1}}`)
	for progress, server := range map[string]*mcptest.Puppet{"1": p, "2": q} {
		if m := await(t, server.Replies); string(m.Params) != `{"progressToken":7,"progress":`+progress+`}` {
			t.Errorf("got %s, want progress %s", m.Raw, progress)
		}
	}
}

// Stateless HTTP clients with the same facts share one session. A message that may be about a cancelled call
// or a task of one client is not sent to the others.
func TestClientsOfAPoolAreToldNothingOfEachOther(t *testing.T) {
	for how, before := range map[string]func(t *testing.T, p *mcptest.Puppet, call func(arguments string) (end func(), answer chan string)){
		"a call given up": func(t *testing.T, p *mcptest.Puppet, call func(string) (func(), chan string)) {
			end, _ := call(`"arguments":{}`)
			await(t, p.Calls)
			end()
			await(t, p.Ended)
		},
		"a task": func(t *testing.T, p *mcptest.Puppet, call func(string) (func(), chan string)) {
			_, answer := call(`"arguments":{},"task":{}`)
			p.Answer(await(t, p.Calls).ID, []byte(`{"task":{"taskId":"1","status":"working"}}`))
			await(t, answer)
		},
	} {
		t.Run(how, func(t *testing.T) {
			p, up := puppet(t, "stdio")
			up.Spec.Shared = false
			f := serveTCP(t, options(up))
			call := func(params string) (end func(), answer chan string) {
				body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%s}`, withMeta(`{"name":"work",`+params+`}`, able, "debug"))
				ctx, cancel := context.WithCancel(t.Context())
				r := f.Request("POST", "/mcp", body, "Mcp-Protocol-Version", stateless, "Mcp-Method", "tools/call", "Mcp-Name", "work").WithContext(ctx)
				answer = make(chan string, 1)
				go func() {
					response, err := f.Client.Do(r)
					if err != nil {
						return
					}
					defer response.Body.Close()
					said, _ := io.ReadAll(response.Body)
					answer <- string(said)
				}()
				return cancel, answer
			}
			before(t, p, call)
			_, answer := call(`"arguments":{}`)
			other := await(t, p.Calls)
			p.Log("info", "secret")
			p.Say(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"secret"}}`)
			select {
			case m := <-p.Replies:
				if m.Error == nil {
					t.Errorf("got %s", m.Raw)
				}
			case got := <-answer:
				t.Fatalf("a question reached another client: %s", got)
			}
			p.Answer(other.ID, []byte(`{"content":[{"type":"text","text":"done"}]}`))
			if got := await(t, answer); strings.Contains(got, "secret") || !strings.Contains(got, "done") {
				t.Errorf("got %s", got)
			}
		})
	}
}

// mustNotHold fails the test if any message to a client contains text.
func (c *caller) mustNotHold(text string) {
	c.t.Helper()
	for _, line := range c.transcript() {
		if strings.Contains(line, text) {
			c.t.Errorf("a client received a message for another client: %s", line)
		}
	}
}
