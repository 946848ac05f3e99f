package proxy_test

import (
	"fmt"
	"strings"
	"testing"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
)

func TestListen(t *testing.T) {
	for _, upEra := range []string{"handshake", "stateless"} {
		for _, transport := range []string{"stdio", "http"} {
			t.Run(upEra+" "+transport, func(t *testing.T) {
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
				// The proxy's own subscription goes out beside the calls.
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

func checkSubscription(t *testing.T, m jsonrpc.Message, listen pending) {
	t.Helper()
	if id := jsonrpc.Get(jsonrpc.Get(m.Params, "_meta"), "io.modelcontextprotocol/subscriptionId"); string(id) != listen.id {
		t.Errorf("got %s, want it to belong to %s", m.Raw, listen.id)
	}
}

// Ten changes at once lead to one or two notifications, and no list_changed is sent without
// changed bytes.
func TestListChanged(t *testing.T) {
	for _, upEra := range []string{"handshake", "stateless"} {
		t.Run(upEra, func(t *testing.T) {
			c := connect(t, start(t, options(child(t, mcptest.Options{Name: "n", Era: upEra}))), handshake)
			before := c.tools()
			c.call("change", `{"n":20}`) // nothing changes
			for i := range 10 {
				c.call("change", fmt.Sprintf(`{"names":["echo","change","t%d"],"n":3}`, i))
			}
			said := 0
			for got := before; got != "echo change t9"; got = c.tools() {
				c.next("notifications/tools/list_changed")
				said++
			}
			c.call("echo", "")
			for len(c.notes) > 0 {
				if m := <-c.notes; m.Method == "notifications/tools/list_changed" {
					said++
				}
			}
			if said > 3 {
				t.Errorf("told %d times of changes that came at once", said)
			}
		})
	}
}

func TestRoutingBesideTools(t *testing.T) {
	for _, era := range []string{handshake, stateless} {
		for _, upEra := range []string{"handshake", "stateless"} {
			t.Run(fmt.Sprintf("client %s servers %s", era, upEra), func(t *testing.T) {
				_, a := remote(t, mcptest.Options{Name: "a", Era: upEra, Page: 1, Instructions: "A rules", Resources: []string{`{"uri":"a://1","name":"1"}`, `{"uri":"a://2","name":"2"}`, `{"uri":"b://listed by a","name":"x"}`}})
				_, b := remote(t, mcptest.Options{Name: "b", Era: upEra, Page: 1, Instructions: "B rules"})
				c := connect(t, start(t, options(a, b)), era)
				if got := c.names("resources/list", "resources"); got != "1 2 x a b mcpschedd stats mcpschedd stats summary" {
					t.Errorf("got resources %q", got)
				}
				if got := c.names("resources/templates/list", "resourceTemplates"); got != "t t mcpschedd value model" {
					t.Errorf("got templates %q", got)
				}
				if got := c.names("prompts/list", "prompts"); got != "a__ask b__ask" {
					t.Errorf("got prompts %q", got)
				}
				tests := []struct{ method, params, want string }{
					{"resources/read", `{"uri":"b://b"}`, `"text":"b"`},
					{"resources/read", `{"uri":"b://t/7"}`, `"text":"b"`},      // found by template
					{"resources/read", `{"uri":"b://unlisted"}`, `"text":"b"`}, // found by trying
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
					t.Errorf("a resource nobody has: got code %d, want %d", code, want)
				}
			})
		}
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
				if code, _ := c.refused("tasks/cancel", `{"taskId":"x"}`); code != jsonrpc.CodeInvalidParams {
					t.Errorf("a task of nobody: got code %d", code)
				}
			})
		}
	}
}
