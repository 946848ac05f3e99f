package proxy_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/deliver"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// chatty is a proxy in front of a server that sends notifications during calls.
func chatty(t *testing.T, server, transport string) *proxy.Server {
	t.Helper()
	_, up := remote(t, mcptest.Options{Name: "one", Era: server})
	if transport == "stdio" {
		up = child(t, mcptest.Options{Name: "one", Era: server})
	}
	o := stored(t, []valuemodel.Rule{reading("one/*", 0)}, up)
	o.Plans.Enabled = true
	return start(t, o)
}

// noticed returns the params of the notifications of a method, in order, and whether any came
// after the response.
func (c *caller) noticed(method, id string) (params []string, late bool) {
	over := false
	for _, line := range c.transcript() {
		m, err := jsonrpc.Parse([]byte(line))
		if err != nil {
			continue
		}
		if m.IsResponse() && string(m.ID) == id {
			over = true
		}
		if m.Method == method {
			params, late = append(params, string(m.Params)), late || over
		}
	}
	return params, late
}

// A client with a progress token is notified of each step once, with its own token, and not
// after the response; a client without one is not notified.
func TestPlanProgress(t *testing.T) {
	const steps = `{"steps":[{"id":"a","tool":"progress","arguments":{"n":3,"late":true}},{"id":"b","tool":"echo"},
		{"id":"c","tool":"echo","when":{"ref":{"$ref":"b#/x"},"op":"exists"},"arguments":{"x":1}},{"id":"d","tool":"broken"},{"id":"e","tool":"echo","arguments":{"x":{"$ref":"d#"}}}]}`
	eachEra(t, func(t *testing.T, client, server string) {
		c := connect(t, chatty(t, server, "stdio"), client)
		c.plan(steps)
		c.request(map[string]string{handshake: "ping", stateless: "tools/list"}[client], "")
		if told, _ := c.noticed("notifications/progress", "0"); len(told) != 0 {
			t.Errorf("without a token: got %v", told)
		}
		p := c.start("tools/call", `{"name":"execute_tool_plan","arguments":`+line(steps)+`,"_meta":{"progressToken":"mine"}}`)
		p.wait()
		c.plan(steps) // late notifications have arrived
		told, late := c.noticed("notifications/progress", p.id)
		if late || len(told) != 5 {
			t.Fatalf("got %d, some after the answer: %v, want one for each step: %v", len(told), late, told)
		}
		all := strings.Join(told, "\n")
		for i, params := range told {
			if !strings.HasPrefix(params, fmt.Sprintf(`{"progress":%d,"total":5,`, i+1)) || !strings.HasSuffix(params, `"progressToken":"mine"}`) {
				t.Errorf("%d: got %s", i, params)
			}
		}
		for _, want := range []string{`"a: ok`, `"b: ok`, `"c: skipped"`, `"d: failed`, `"e: skipped"`} {
			if strings.Count(all, want) != 1 {
				t.Errorf("got %s, want %s in it once", all, want)
			}
		}
	})
}

// A log message that a server sends during a step reaches a client that wants logs.
func TestPlanLogs(t *testing.T) {
	eachEra(t, func(t *testing.T, client, server string) {
		for _, transport := range []string{"stdio", "http"} {
			connect(t, chatty(t, server, transport), client).hearsLogs()
		}
	})
}

// hearsLogs runs a plan whose step logs.
func (c *caller) hearsLogs() {
	c.t.Helper()
	const arguments = `{"steps":[{"id":"a","tool":"log","arguments":{"n":3,"level":"warning"}}]}`
	params := toolCall("execute_tool_plan", arguments)
	if c.era == stateless {
		params = withMeta(params, able, "info")
	}
	c.startAs("tools/call", params).wait()
	for range 3 {
		if m := c.next("notifications/message"); !strings.Contains(string(m.Params), `"level":"warning"`) {
			c.t.Errorf("got %s", m.Params)
		}
	}
	if c.era == stateless {
		before, _ := c.noticed("notifications/message", "0")
		c.plan(arguments)
		if after, _ := c.noticed("notifications/message", "0"); len(after) != len(before) {
			c.t.Errorf("without a level: got %v", after[len(before):])
		}
	}
}

// A client that does not read is not sent optional messages, which would only use memory.
func TestPlanLogsToTheDeaf(t *testing.T) {
	gate := mcptest.NewGate(t)
	s := chatty(t, "handshake", "http")
	in, toProxy := io.Pipe()
	fromProxy, out := io.Pipe() // the client does not read
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.ServeStdio(ctx, in, out, "") }()
	plan := `{"steps":[{"id":"a","tool":"log","arguments":{"n":60,"level":"` + strings.Repeat("x", 1<<18) + `"}},
		{"id":"b","tool":"hold","arguments":{"gate":"` + gate.Addr() + `"},"depends_on":["a"]}],"output_steps":["b"]}`
	deliver.Tokens([]byte("x")) // loads the vocabulary, which does not count here
	before := heap()
	for _, message := range []string{
		`"id":1,"method":"initialize","params":{"protocolVersion":"` + handshake + `","capabilities":{},"clientInfo":{"name":"deaf","version":"1"}}`,
		`"method":"notifications/initialized"`,
		`"id":2,"method":"tools/call","params":` + toolCall("execute_tool_plan", line(plan)),
	} {
		if _, err := io.WriteString(toProxy, `{"jsonrpc":"2.0",`+message+"}\n"); err != nil {
			t.Fatal(err)
		}
	}
	at := gate.Next()
	if grown := int64(heap()) - int64(before); grown > 24<<20 { // 18 MiB with the spare room of buffers, 32 if all is queued
		t.Errorf("the heap has grown by %d MiB", grown>>20)
	}
	at.Open()
	stop()
	fromProxy.Close()
	await(t, ended)
	toProxy.Close()
}

// Steps get the server's result to the byte, however results are delivered to clients, and a
// plan's fetches do not count as delivered.
func TestPlanStepsAreNotTouched(t *testing.T) {
	for _, delivery := range []string{"silent", "hint", "inline"} {
		t.Run(delivery, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				rules := listing(t)
				rules[0] = reading("foe/get", time.Hour)
				o := defaults(t, rules...)
				o.Enrichment.Delivery, o.Repeat = delivery, "reference"
				o.Plans.Enabled = true
				d := beset(t, newFoe(nil), o)
				v := d.visit()
				plan := func(steps string) string {
					return v.call(t.Context(), "tools/call", toolCall("execute_tool_plan", `{"steps":[`+steps+`]}`))
				}
				for range 2 {
					got := plan(`{"id":"a","tool":"list","arguments":{"page":1}},{"id":"b","tool":"get","arguments":{"n":11}}`)
					if !strings.Contains(got, `"outputs":{"a":{"things":[{"n":11},{"n":12},{"n":13}]},"b":"get {\"n\":11}"}`) {
						t.Errorf("got %s", got)
					}
					time.Sleep(10 * time.Second)
				}
				// The client has not received this result itself, so it is not replaced by a note.
				if got := v.call(t.Context(), "tools/call", toolCall("get", `{"n":11}`)); !strings.Contains(got, `get {\"n\":11}`) || !strings.Contains(got, `"hit"`) {
					t.Errorf("got %s, want the stored answer itself", got)
				}
				if got := v.call(t.Context(), "tools/call", toolCall("get", `{"n":11}`)); !strings.Contains(got, "Unchanged") {
					t.Errorf("got %s, want a note: it was given before", got)
				}
				if got := plan(`{"id":"b","tool":"get","arguments":{"n":11}}`); !strings.Contains(got, `"b":"get {\"n\":11}"`) {
					t.Errorf("got %s, want the answer itself", got)
				}
				v.ends()
			})
		})
	}
}
