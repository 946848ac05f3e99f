package proxy_test

import (
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/upstream"
)

// puppet is an upstream shared by sessions, and its server, over each transport on which a server's message
// need not name a request.
func puppet(t *testing.T, transport string) (*mcptest.Puppet, proxy.Upstream) {
	t.Helper()
	p := mcptest.NewPuppet()
	if transport == "stdio" {
		up := child(t, mcptest.Options{Name: "puppet", Relay: relay(t, p)})
		up.Spec.Shared = true
		return p, up
	}
	handler := p.Streamable()
	if transport == "sse" {
		handler = p.SSE()
	}
	web := httptest.NewServer(handler)
	t.Cleanup(web.Close)
	return p, proxy.Upstream{
		Fingerprint: web.URL,
		Spec:        upstream.Spec{Name: "puppet", URL: web.URL, SSE: transport == "sse", Shared: true, StartTimeout: patience, MaxMessage: 1 << 20},
	}
}

// loose are the transports of puppet.
var loose = []string{"stdio", "sse", "streamable"}

// Sessions come and go while the server sends messages for calls, some of them cancelled: no session ever
// sees another's token.
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
			speaking.Go(func() { speakForCalls(p, ended) })
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
			if st := s.Stats().Upstreams["puppet"]; st.Dropped == 0 || st.Refused == 0 {
				t.Errorf("got %+v, want what was dropped and refused", st)
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
			t.Errorf("the client with %s was sent %s", token, line)
		}
	}
}

// speakForCalls logs and asks on behalf of every call before it answers the call, and again for some much
// earlier calls.
func speakForCalls(p *mcptest.Puppet, ended chan struct{}) {
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
				ask("ping", "") // everything before it has been read
				p.Answer(call.ID, []byte(`{"content":[{"type":"text","text":"`+token+`"}]}`))
			})
		case <-ended:
			return
		}
	}
}
