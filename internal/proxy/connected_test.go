package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// Requests that an earlier process may have sent are sent again if they change nothing, cost
// nothing and disclose nothing. For any other, the client gets an error that its outcome is
// unknown, and its write is treated as pending.
func TestServeConnected(t *testing.T) {
	for _, era := range []string{handshake, stateless} {
		t.Run(era, func(t *testing.T) { servesConnected(t, era) })
	}
}

func servesConnected(t *testing.T, era string) {
	rule := func(tool string, l valuemodel.Layer) valuemodel.Rule {
		return valuemodel.Rule{Pattern: "one/" + tool, Source: "test", Layer: l}
	}
	yes := true
	read := valuemodel.Layer{Class: valuemodel.ReadOnly, Speculate: &yes, Cost: valuemodel.Cost{Freshness: time.Hour}}
	priced := read
	priced.Cost.Dollars = 0.01
	up := child(t, mcptest.Options{Name: "one"})
	up.Spec.Shared = true
	o := stored(t, []valuemodel.Rule{rule("echo", read), rule("pid", priced)}, up, child(t, mcptest.Options{Name: "two", Tools: tools("lone")}))
	o.NameStyle = "never" // with two upstreams, an unknown tool is of neither
	o.Plans = planSettings(proxy.Plans{Enabled: true})
	s := start(t, o)
	other := connect(t, s, handshake) // so that the proxy has the list of tools
	other.call("echo", `{}`)

	ours, theirs := net.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- s.ServeConnected(context.Background(), theirs, theirs, proxy.Connected{Replayed: []string{"1", "2", `"3"`, "4", "5", "6"}, ServedBefore: true})
	}()
	lines := []string{
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"n":1}}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"log"}}`,
		`{"jsonrpc":"2.0","id":"3","method":"tools/call","params":{"name":"pid"}}`,
		`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"execute_tool_plan","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/list","params":{}}`,
		`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"gone"}}`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"log"}}`,
	}
	unknown := map[string]bool{"0": false, "1": false, "2": true, `"3"`: true, "4": true, "5": false, "6": true, "7": false}
	if era == stateless {
		delete(unknown, "0")
		lines = lines[2:]
		for i, line := range lines {
			meta := `"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"` + stateless + `","io.modelcontextprotocol/clientCapabilities":{}},`
			lines[i] = strings.Replace(strings.Replace(line, `"params":{`, meta, 1), ",}", "}", 1)
		}
	}
	go fmt.Fprint(ours, strings.Join(lines, "\n")+"\n")
	for answers := jsonrpc.NewReader(ours, 0); len(unknown) > 0; {
		line, err := answers.Next()
		if err != nil {
			t.Fatal(err)
		}
		m, err := jsonrpc.Parse(line)
		if err != nil || !m.IsResponse() {
			continue
		}
		want, open := unknown[string(m.ID)]
		delete(unknown, string(m.ID))
		if got := strings.Contains(string(m.Result), "outcome unknown") && string(jsonrpc.Get(m.Result, "isError")) == "true"; !open || got != want || m.Error != nil {
			t.Errorf("got %s, want unknown %v", line, want)
		}
	}
	if how := disposition(t, other.call("echo", `{}`)); how != "fetched" {
		t.Errorf("got %s while a write may be in flight, want fetched", how)
	}
	ours.Close()
	if err := <-ended; err != nil && err != io.ErrClosedPipe {
		t.Error(err)
	}
	seen := other.call("seen", "")
	if n := strings.Count(seen, `"name":"log"`); n != 1 {
		t.Errorf("the server got %d writes, want 1", n)
	}
}

// A client that an earlier process has served is told that the lists may have changed, since this one
// does not know what it was shown.
func TestServedBefore(t *testing.T) {
	s := start(t, stored(t, nil, child(t, mcptest.Options{Name: "one"})))
	initialize := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}` + "\n" + `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	listen := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"` + stateless + `","io.modelcontextprotocol/clientCapabilities":{}}}}`
	for era, lines := range map[string]string{handshake: initialize, stateless: listen} {
		ours, theirs := net.Pipe()
		_ = ours.SetReadDeadline(time.Now().Add(time.Minute))
		ended := make(chan error, 1)
		go func() {
			ended <- s.ServeConnected(context.Background(), theirs, theirs, proxy.Connected{ServedBefore: true})
		}()
		go fmt.Fprintln(ours, lines)
		for answers := jsonrpc.NewReader(ours, 0); ; {
			line, err := answers.Next()
			if err != nil {
				t.Fatal(era, err)
			}
			if m, err := jsonrpc.Parse(line); err == nil && m.Method == "notifications/tools/list_changed" {
				break
			}
		}
		ours.Close()
		if err := <-ended; err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Error(era, err)
		}
	}
}

// A search for tools that is replayed is answered.
func TestReplayedSearch(t *testing.T) {
	o := stored(t, []valuemodel.Rule{reading("one/echo", time.Hour)}, child(t, mcptest.Options{Name: "one"}))
	o.NameStyle, o.Selection.Tools = "never", "search"
	s := start(t, o)
	c := attachBy(t, handshake, func(in io.Reader, out io.Writer) error {
		return s.ServeConnected(context.Background(), in, out, proxy.Connected{Replayed: []string{"1"}})
	})
	if text := c.request("tools/call", `{"name":"find_tools","arguments":{"query":"echo"}}`); !strings.Contains(text, "echo") || strings.Contains(text, "outcome unknown") {
		t.Errorf("got %s, want the tool", text)
	}
}

// Whichever way a repeated call may have been made, its outcome is unknown, and nothing is served that its
// write may have changed. Nor is it if nothing is repeated: the earlier process may have sent other writes.
func TestRepeatedCallMayWrite(t *testing.T) {
	for name, params := range map[string]string{
		"none":                     `{"name":"call_read_tool","arguments":{"name":"echo"}}`,
		"a plan":                   `{"name":"execute_tool_plan","arguments":{}}`,
		"a tool that is not known": `{"name":"gone","arguments":{}}`,
		"a wrapped tool":           `{"name":"call_tool","arguments":{"name":"log"}}`,
		"a tool that is not shown": `{"name":"log","arguments":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			up := child(t, mcptest.Options{Name: "one"})
			up.Spec.Shared = true
			o := stored(t, []valuemodel.Rule{reading("one/echo", time.Hour)}, up, child(t, mcptest.Options{Name: "two", Tools: tools("lone")}))
			o.NameStyle, o.Selection.Tools, o.Plans = "never", "search", planSettings(proxy.Plans{Enabled: true})
			s := start(t, o)
			other := connect(t, s, handshake)
			other.call("echo", `{}`)
			if how := disposition(t, other.call("echo", `{}`)); how == "fetched" {
				t.Fatal("not cached")
			}
			c := attachBy(t, handshake, func(in io.Reader, out io.Writer) error {
				return s.ServeConnected(context.Background(), in, out, proxy.Connected{Replayed: []string{"1"}, ServedBefore: true})
			})
			if text := c.request("tools/call", params); strings.Contains(text, "outcome unknown") != (name != "none") {
				t.Errorf("got %s", text)
			}
			for range 2 {
				if how := disposition(t, other.call("echo", `{}`)); how != "fetched" {
					t.Errorf("got %s while a write may be in flight, want fetched", how)
				}
			}
		})
	}
}
