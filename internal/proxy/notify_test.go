package proxy_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
)

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
	c.call("echo", "") // late notifications have arrived
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
					if got := c.said("echo", `{"x":1}`); got == "" || !call.open() {
						t.Errorf("got %s, and an answer to the cancelled call: %v", got, !call.open())
					}
				})
			}
		}
	}
}

// When the server cancels a question, it is cancelled at the client.
func TestQuestionWithdrawn(t *testing.T) {
	c := connect(t, start(t, options(child(t, mcptest.Options{Name: "asks"}))), handshake)
	call := c.begin("ask", `{"asks":[{"method":"elicitation/create","params":{"message":"?"}}]}`)
	question := c.next("elicitation/create")
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + call.id + `}}`)
	got := c.next("notifications/cancelled")
	if id := jsonrpc.Get(got.Params, "requestId"); string(id) != string(question.ID) {
		t.Errorf("got %s, want the question %s withdrawn", got.Raw, question.ID)
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

// Notifications of one session never reach another, whether or not they share the server.
func TestNotificationsNeverCross(t *testing.T) {
	for _, shared := range []bool{false, true} {
		for _, transport := range []string{"stdio", "http"} {
			t.Run(fmt.Sprintf("shared %v %s", shared, transport), func(t *testing.T) {
				o := mcptest.Options{Name: "n"}
				up := child(t, o)
				if transport == "http" {
					_, up = remote(t, o)
				}
				up.Spec.Shared = shared
				s := start(t, options(up))
				var all sync.WaitGroup
				var clients []*caller
				for i := range 4 {
					c := connect(t, s, []string{handshake, stateless}[i%2])
					c.tools()
					clients = append(clients, c)
					all.Go(func() {
						for n := range soak(10) {
							params := fmt.Sprintf(`{"name":"progress","arguments":{"n":3,"late":true},"_meta":{"progressToken":"%d/%d"}}`, i, n)
							c.start("tools/call", params).wait()
							c.begin("log", fmt.Sprintf(`{"level":"level-%d","n":2}`, i)).wait()
						}
					})
				}
				all.Wait()
				for i, c := range clients {
					for _, line := range c.transcript() {
						m, _ := jsonrpc.Parse([]byte(line))
						switch token, _ := jsonrpc.String(jsonrpc.Get(m.Params, "progressToken")); {
						case m.Method == "notifications/progress" && !strings.HasPrefix(token, fmt.Sprintf("%d/", i)):
							t.Errorf("client %d heard %s", i, line)
						case m.Method == "notifications/message" && !strings.Contains(line, fmt.Sprintf(`"level-%d"`, i)):
							t.Errorf("client %d heard %s", i, line)
						}
					}
				}
			})
		}
	}
}
