package proxy_test

import (
	"fmt"
	"strings"
	"testing"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/mcptest"
)

// A client that answers a question with the help of further calls at the same host is not held up by
// the slot of the call that asks, also if the further calls ask too.
func TestCallWhileAsked(t *testing.T) {
	_, web := remote(t, mcptest.Options{Name: "one"})
	_, modern := remote(t, mcptest.Options{Name: "one", Era: "stateless"})
	for server, up := range map[string]catalog.Upstream{"process": child(t, mcptest.Options{Name: "one"}), "http": web, "stateless": modern} {
		for _, client := range []string{handshake, stateless} {
			t.Run(server+" "+client, func(t *testing.T) {
				o := options(up)
				o.Limits = map[string]limit.Rule{"*": {Concurrency: 1}}
				c := connect(t, start(t, o), client)
				depth := 3
				var deeper func(string, []byte) []byte
				call := func() {
					of, params := depth, toolCall("echo", `{"deep":1}`)
					if depth--; of > 0 {
						question := elicits
						if client == stateless && of == 2 { // whatever it is asked, it may never repeat its request
							question = `{"method":"roots/list"}`
						}
						params = toolCall("ask", fmt.Sprintf(`{"asks":[%s],"n":%d}`, question, of))
					}
					if m := c.converse(c.complete(params), deeper); !strings.Contains(string(m.Result), "deep") {
						t.Errorf("at depth %d: got %s", of, m.Raw)
					}
				}
				deeper = func(string, []byte) []byte {
					call()
					return []byte(`{"action":"accept","content":{"deep":1}}`)
				}
				c.reply(deeper)
				call()
			})
		}
	}
}
