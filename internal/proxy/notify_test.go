package proxy_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
)

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
