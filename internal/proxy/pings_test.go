package proxy_test

import (
	"fmt"
	"runtime"
	"testing"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/proxy"
)

// A server over HTTP sends pings, or questions that are refused, faster than it accepts replies.
// Neither goroutines nor open POSTs grow with their number, and the server gets replies again once
// it accepts them.
func TestFloodOfPingsAndQuestions(t *testing.T) {
	const flood, posts, goroutines = 2000, 100, 700
	for _, transport := range []string{"sse", "streamable"} {
		for name, kind := range map[string]struct {
			message string // with an id
			crowd   bool   // another session shares the server, so no client can be asked
			open    int    // questions that the client leaves open; 0 if it answers all
		}{
			"pings":                    {`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, false, 0},
			"refused questions":        {`{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, true, 0},
			"questions, answered":      {`{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, false, 0},
			"questions, not answered":  {`{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, false, 64},
			"questions, all of one id": {`{"jsonrpc":"2.0","id":7,"method":"roots/list","params":{"n":%d}}`, false, 1},
		} {
			t.Run(transport+", "+name, func(t *testing.T) {
				p, up := puppet(t, transport)
				s := start(t, options(up))
				c := connect(t, s, handshake)
				if kind.open == 0 {
					c.reply(tagged("me"))
				}
				if kind.crowd {
					connect(t, s, handshake).call("rest", "")
				}
				c.start("tools/call", `{"name":"work","arguments":{},"_meta":{"progressToken":"mine"}}`)
				call := await(t, p.Calls)
				release := p.Hold()
				defer release()
				before := runtime.NumGoroutine()
				for i := range flood {
					p.Say(fmt.Sprintf(kind.message, i+1))
				}
				token := jsonrpc.Get(jsonrpc.Get(call.Params, "_meta"), "progressToken")
				p.Say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, token))
				c.next("notifications/progress") // all notifications before it have been read
				if n := p.Held(); n > posts {
					t.Errorf("%d open POSTs, want at most %d", n, posts)
				}
				if n := runtime.NumGoroutine() - before; n > goroutines {
					t.Errorf("%d goroutines more, want at most %d", n, goroutines)
				}
				unanswered := int(s.Stats().Upstreams["puppet"].Unanswered)
				if unanswered < flood/2 {
					t.Errorf("%d of %d are counted as not answered", unanswered, flood)
				}
				release()
				for range flood - unanswered - kind.open {
					await(t, p.Replies)
				}
				for len(p.Replies) == 0 { // the proxy notices only gradually that its replies were accepted
					dropped := s.Stats().Upstreams["puppet"].Unanswered
					p.Say(`{"jsonrpc":"2.0","id":"last","method":"ping"}`)
					until(t, s, "was a ping answered or dropped", func(st proxy.Stats) bool {
						return len(p.Replies) > 0 || st.Upstreams["puppet"].Unanswered > dropped
					})
				}
				if m := await(t, p.Replies); string(m.ID) != `"last"` {
					t.Errorf("got %s", m.Raw)
				}
				p.Answer(call.ID, []byte(`{"content":[]}`))
			})
		}
	}
}
