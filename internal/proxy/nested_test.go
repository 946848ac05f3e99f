package proxy_test

import (
	"fmt"
	"strings"
	"testing"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
)

// A client that answers a question with the help of further calls at the same host is not held up by
// the slot of the call that asks, also if the further calls ask too.
func TestCallWhileAsked(t *testing.T) {
	asks := func(depth int) string { return fmt.Sprintf(`{"asks":[%s],"n":%d}`, elicits, depth) }
	for _, server := range []string{"process", "http", "stateless"} {
		up := func(t *testing.T) proxy.Options {
			one := child(t, mcptest.Options{Name: "one"})
			if server == "http" {
				_, one = remote(t, mcptest.Options{Name: "one"})
			} else if server == "stateless" {
				_, one = remote(t, mcptest.Options{Name: "one", Era: "stateless"})
			}
			o := options(one)
			o.Limits = map[string]limit.Rule{"*": {Concurrency: 1}}
			return o
		}
		t.Run(server+" handshake", func(t *testing.T) {
			c := connect(t, start(t, up(t)), handshake)
			depth := 3
			c.reply(func(string, []byte) []byte {
				var got string
				if depth--; depth > 0 {
					got = c.call("ask", asks(depth))
				} else {
					got = c.call("echo", `{"deep":1}`)
				}
				if !strings.Contains(got, "deep") {
					t.Errorf("at depth %d: got %s", depth, got)
				}
				return []byte(`{"action":"accept","content":{"deep":1}}`)
			})
			if got := c.call("ask", asks(depth)); !strings.Contains(got, "deep") {
				t.Errorf("got %s", got)
			}
		})
		t.Run(server+" stateless", func(t *testing.T) {
			c := connect(t, start(t, up(t)), stateless)
			var answer func(depth int) string
			answer = func(depth int) string {
				if depth == 0 {
					return c.call("echo", `{"deep":1}`)
				}
				asked := []byte(c.call("ask", asks(depth)))
				if got := answer(depth - 1); !strings.Contains(got, "deep") {
					t.Errorf("at depth %d: got %s", depth, got)
				}
				var replies []byte
				for q := range jsonrpc.Members(jsonrpc.Get(asked, "inputRequests")) {
					replies = jsonrpc.Set(replies, string(q.Name), []byte(`{"action":"accept","content":{"deep":1}}`))
				}
				params := jsonrpc.Set([]byte(toolCall("ask", asks(depth))), "inputResponses", replies)
				return c.request("tools/call", string(jsonrpc.Set(params, "requestState", jsonrpc.Get(asked, "requestState"))))
			}
			if got := answer(3); !strings.Contains(got, "deep") {
				t.Errorf("got %s", got)
			}
		})
	}
}
