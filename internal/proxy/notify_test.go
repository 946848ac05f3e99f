package proxy_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
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
		t.Errorf("got %s, want question %s cancelled", got.Raw, question.ID)
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

// Each session of a shared server receives the log messages of its own level, whatever level the
// server has because of other sessions.
func TestEachSessionOfASharedServerHasItsOwnLevel(t *testing.T) {
	_, up := remote(t, mcptest.Options{Name: "logs"})
	up.Spec.Shared = true
	s := start(t, options(up))
	levels := func(c *caller, params func(string) string) (got []string) {
		c.t.Helper()
		for _, level := range []string{"debug", "info", "warning", "error", "odd"} {
			p := c.startAs("tools/call", params(toolCall("log", fmt.Sprintf(`{"level":%q}`, level))))
			p.wait()
			for len(c.notes) > 0 {
				if m := <-c.notes; m.Method == "notifications/message" {
					got = append(got, level)
				}
			}
		}
		return got
	}
	plain := func(params string) string { return params }
	asking := func(level string) func(string) string {
		return func(params string) string { return withMeta(params, able, level) }
	}
	a, b, c, d := connect(t, s, handshake), connect(t, s, handshake), connect(t, s, handshake), connect(t, s, stateless)
	if got := levels(c, plain); len(got) != 5 {
		t.Errorf("no session has set a level: got %v", got)
	}
	a.request("logging/setLevel", `{"level":"debug"}`)
	b.request("logging/setLevel", `{"level":"warning"}`)
	for _, test := range []struct {
		name   string
		c      *caller
		params func(string) string
		want   []string
	}{
		{"debug", a, plain, []string{"debug", "info", "warning", "error", "odd"}},
		{"warning", b, plain, []string{"warning", "error", "odd"}},
		{"none", c, plain, []string{"debug", "info", "warning", "error", "odd"}},
		{"stateless, error", d, asking("error"), []string{"error", "odd"}},
		{"stateless, debug", d, asking("debug"), []string{"debug", "info", "warning", "error", "odd"}},
		{"stateless, none", d, asking(""), nil},
	} {
		if got := levels(test.c, test.params); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

// The log messages of a call are sent to its client, and not again to that of a call that joined it.
func TestLogMessagesOfAJoinedCall(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFoe(nil)
		f.first = func(w http.ResponseWriter, m jsonrpc.Message) bool {
			if tool(m) != "get" {
				return false
			}
			f.mu.Lock()
			f.came++
			f.mu.Unlock()
			time.Sleep(time.Second) // the other call joins
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: %s\n\n", `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"private"}}`)
			fmt.Fprintf(w, "data: %s\n\n", jsonrpc.AppendResult(nil, m.ID, []byte(said("got"))))
			return true
		}
		d := beset(t, f, withoutPrefetch(defaults(t, reading("foe/get", 0))))
		g := d.enter()
		calls := []sent{g.begin("get", "{}"), g.begin("get", "{}")}
		for i, how := range []string{"fetched", "joined"} {
			if a := calls[i].wait(); a.how() != how {
				t.Errorf("call %d: got %s, want %s", i, a.Raw, how)
			}
		}
		synctest.Wait()
		if n := len(g.notices("notifications/message")); n != 1 {
			t.Errorf("the client got %d log messages, want 1", n)
		}
	})
}
