package proxy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/valuemodel"
)

// A note replaces an answer only if the operator turned that on, the session serves one conversation, and the tool
// declares no output schema; and never twice in a row.
func TestReference(t *testing.T) {
	rules := []valuemodel.Rule{reading("one/*", time.Hour)}
	tools := []string{
		`{"name":"echo","inputSchema":{"type":"object"}}`,
		`{"name":"big","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}`,
	}
	_, up := remote(t, mcptest.Options{Name: "one", Tools: tools})
	up.Spec.Shared = true
	for _, test := range []struct {
		name, repeat, tool string
		want               []string
	}{
		{"as it is", "", "echo", []string{"fetched", "hit", "hit", "hit"}},
		{"with references", "reference", "echo", []string{"fetched", "reference", "hit", "reference"}},
		{"with an output schema", "reference", "big", []string{"fetched", "hit", "hit", "hit"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := stored(t, rules, up)
			o.Repeat = test.repeat
			f := serveTCP(t, o)
			id := f.open("/mcp", handshake)
			header := []string{"Mcp-Session-Id", id, "Mcp-Protocol-Version", handshake}
			f.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, header...)
			var body string
			for i, want := range test.want {
				_, answer := f.post("/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, i+2, toolCall(test.tool, `{"n":5}`)), header...)
				result := string(jsonrpc.Get([]byte(answer), "result"))
				how := disposition(t, result)
				if how != want {
					t.Errorf("call %d: got %s, want %s: %s", i, how, want, answer)
				}
				switch {
				case i == 0:
					body = result
				case how == "hit" && without(result) != body:
					t.Errorf("call %d: got %s, want %s", i, result, body)
				case how == "reference" && !strings.Contains(result, "Unchanged"):
					t.Errorf("call %d: got %s, want a note", i, result)
				}
			}
		})
	}
	t.Run("on stdio", func(t *testing.T) { // one process may serve several conversations
		o := stored(t, rules, up)
		o.Repeat = "reference"
		c := connect(t, start(t, o), handshake)
		c.tools()
		c.call("echo", `{}`)
		for range 3 {
			if how := disposition(t, c.call("echo", `{}`)); how != "hit" {
				t.Errorf("got %s, want hit", how)
			}
		}
	})
}
