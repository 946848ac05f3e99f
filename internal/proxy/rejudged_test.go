package proxy_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/record"
	"mcpschedd/internal/valuemodel"
)

// A call is classified when it is sent, not only on arrival: the rules may change in between.

// tool returns the name in a tools/call, or "" for other messages.
func tool(m jsonrpc.Message) string {
	if m.Method != "tools/call" {
		return ""
	}
	name, _ := jsonrpc.String(jsonrpc.Get(m.Params, "name"))
	return name
}

// current is the answer to a read: the version of the world.
func current(version *atomic.Int64) []byte {
	return fmt.Appendf(nil, `{"content":[{"type":"text","text":"v%d"}]}`, version.Load())
}

// relay serves every connection to one server.
func relay(t *testing.T, srv interface{ Serve(net.Conn) }) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go srv.Serve(conn)
		}
	}()
	return ln.Addr().String()
}

// A stateless server starts a task for a call that asks for one, too.
func TestTaskThatWasAskedForToo(t *testing.T) {
	answer := func(ctx context.Context, m jsonrpc.Message) []byte {
		if tool(m) == "w" {
			return []byte(`{"resultType":"task","taskId":"1","status":"working"}`)
		}
		return nil
	}
	for _, era := range []string{stateless, handshake} {
		_, one := remote(t, mcptest.Options{Name: "one", Era: "stateless", Answer: answer})
		s := start(t, stored(t, nil, one))
		c := connect(t, s, era)
		c.request("tools/call", `{"name":"w","arguments":{},"task":{}}`)
		if s.Stats().Store.Doubtful != 1 {
			t.Errorf("client %s: the task is not in the air", era)
		}
	}
}

// Two servers may use the same task ids.
func TestTaskIDsAreTheirServersOwn(t *testing.T) {
	answer := func(ctx context.Context, m jsonrpc.Message) []byte {
		if tool(m) == "w" {
			return []byte(`{"task":{"taskId":"1","status":"working"}}`)
		}
		return nil
	}
	srv, one := remote(t, mcptest.Options{Name: "one", Answer: answer})
	_, two := remote(t, mcptest.Options{Name: "two", Answer: answer})
	o := stored(t, []valuemodel.Rule{reading("two/echo", time.Hour)}, one, two)
	o.Upstreams[0].Model.Domain, o.Upstreams[1].Model.Domain = "x", "y"
	s := start(t, o)
	c := connect(t, s, handshake)
	c.request("tools/call", `{"name":"one__w","arguments":{},"task":{}}`)
	c.request("tools/call", `{"name":"two__w","arguments":{},"task":{}}`)
	c.call("two__echo", `{}`)
	if how := disposition(t, c.call("two__echo", `{}`)); how != "fetched" {
		t.Fatalf("while its task runs: got %s", how)
	}
	srv.Announce("notifications/tasks/status", `{"taskId":"1","status":"completed"}`)
	c.next("notifications/tasks/status")
	c.call("two__echo", `{}`)
	if how := disposition(t, c.call("two__echo", `{}`)); how != "fetched" {
		t.Errorf("two's task still runs, and its domain is served: %s", how)
	}
}

// The policy is reloaded between the routing of a call and its arrival at the store. The new rules
// classify the call, as the reload did not see its write.
func TestReloadWhileACallArrives(t *testing.T) {
	release, sent := make(chan struct{}), make(chan struct{})
	var version atomic.Int64
	answer := func(ctx context.Context, m jsonrpc.Message) []byte {
		switch tool(m) {
		case "w":
			close(sent)
			heldUntil(ctx, release)
			version.Add(1)
			return []byte(`{"content":[]}`)
		case "r":
			return current(&version)
		}
		return nil
	}
	_, one := remote(t, mcptest.Options{Name: "one", Answer: answer})
	writing := stored(t, []valuemodel.Rule{reading("one/r", time.Hour), writesAll("one/w")}, one)
	o := stored(t, []valuemodel.Rule{reading("one/r", time.Hour), reading("one/w", 0)}, one)
	var s *proxy.Server
	o.Trace = func(_, _, tool string, _ time.Time) (parent, state string, end func(*record.Event)) {
		if tool == "w" { // it has been routed but not classified
			s.Apply(writing)
		}
		return "", "", nil
	}
	s = start(t, o)
	c := connect(t, s, handshake)
	w := c.begin("w", `{}`)
	await(t, sent)
	c.call("r", `{}`)
	if how := disposition(t, c.call("r", `{}`)); how != "fetched" {
		t.Errorf("while it writes: got %s, want fetched: a stale answer may follow", how)
	}
	close(release)
	w.wait()
	if got := c.call("r", `{}`); !strings.Contains(got, "v1") {
		t.Errorf("after it: got %s, a stale answer", got)
	}
}

// The policy is reloaded between two rounds of one call.
func TestRoundsAreJudgedAnew(t *testing.T) {
	release, second := make(chan struct{}), make(chan struct{})
	var version atomic.Int64
	answer := func(ctx context.Context, m jsonrpc.Message) []byte {
		switch tool(m) {
		case "w":
			if jsonrpc.Get(m.Params, "inputResponses") == nil {
				return []byte(`{"resultType":"input_required","inputRequests":{"q":{"method":"roots/list","params":{}}},"requestState":"s"}`)
			}
			close(second)
			heldUntil(ctx, release)
			version.Add(1)
			return []byte(`{"content":[]}`)
		case "r":
			return current(&version)
		}
		return nil
	}
	_, one := remote(t, mcptest.Options{Name: "one", Era: "stateless", Answer: answer})
	rules := []valuemodel.Rule{reading("one/r", time.Hour)}
	o := stored(t, rules, one)
	o.Upstreams[0].Model.Domain = "a"
	s := start(t, o)
	c := connect(t, s, handshake)
	c.call("r", `{}`)
	o2 := stored(t, rules, one)
	o2.Upstreams[0].Model.Domain = "b"
	c.reply(func(string, []byte) []byte {
		s.Apply(o2)
		return []byte(`{"roots":[]}`)
	})
	w := c.begin("w", `{}`)
	await(t, second)
	c.call("r", `{}`)
	if how := disposition(t, c.call("r", `{}`)); how != "fetched" {
		t.Errorf("while the write is in the air: got %s", how)
	}
	close(release)
	w.wait()
	if x := c.call("r", `{}`); !strings.Contains(x, "v1") {
		t.Errorf("stale answer: %s", x)
	}
}

// The policy is reloaded while a call waits for another's answer, which it then cannot use.
func TestLeftAloneIsJudgedAnew(t *testing.T) {
	release1, release2 := make(chan struct{}), make(chan struct{})
	entered := make(chan struct{}, 4)
	var version, calls atomic.Int64
	answer := func(ctx context.Context, m jsonrpc.Message) []byte {
		switch tool(m) {
		case "w":
			if calls.Add(1) == 1 {
				entered <- struct{}{}
				heldUntil(ctx, release1)
				return []byte(`{"content":[],"isError":true}`)
			}
			entered <- struct{}{}
			heldUntil(ctx, release2)
			version.Add(1)
			return []byte(`{"content":[]}`)
		case "r":
			return current(&version)
		}
		return nil
	}
	_, one := remote(t, mcptest.Options{Name: "one", Answer: answer})
	o := stored(t, []valuemodel.Rule{reading("one/r", time.Hour), reading("one/w", time.Hour)}, one)
	s := start(t, o)
	c := connect(t, s, handshake)
	c.call("r", `{}`)
	a := c.begin("w", `{}`)
	await(t, entered)
	b := c.begin("w", `{}`)
	c.request("ping", "")
	s.Apply(stored(t, []valuemodel.Rule{reading("one/r", time.Hour)}, one))
	close(release1)
	a.wait()
	await(t, entered)
	c.call("r", `{}`)
	if how := disposition(t, c.call("r", `{}`)); how != "fetched" {
		t.Errorf("while it is in the air: got %s", how)
	}
	close(release2)
	b.wait()
	if x := c.call("r", `{}`); !strings.Contains(x, "v1") {
		t.Errorf("stale answer: %s", x)
	}
}

// A write is classified before its server has given its name.
func TestNameThatComesLate(t *testing.T) {
	sent, release, greet := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var version atomic.Int64
	answer := func(ctx context.Context, m jsonrpc.Message) []byte {
		if m.Method == "initialize" || m.Method == "server/discover" {
			heldUntil(ctx, greet)
			return nil
		}
		switch tool(m) {
		case "w":
			close(sent)
			heldUntil(ctx, release)
			version.Add(1)
			return []byte(`{"content":[]}`)
		case "r":
			return current(&version)
		}
		return nil
	}
	up := child(t, mcptest.Options{Name: "one", Relay: relay(t, mcptest.New(mcptest.Options{Name: "github-mcp-server", Answer: answer}))})
	o := stored(t, []valuemodel.Rule{reading("one/r", time.Hour)}, up)
	o.Upstreams[0].Model.Trust = true
	o.StartupWait = time.Millisecond
	s := start(t, o)
	c := connect(t, s, handshake)
	w := c.begin("w", `{}`)
	c.request("ping", "") // the write has been classified
	close(greet)
	await(t, sent)
	c.call("r", `{}`)
	if how := disposition(t, c.call("r", `{}`)); how != "fetched" {
		t.Errorf("while the write is in the air: got %s", how)
	}
	close(release)
	w.wait()
	if x := c.call("r", `{}`); !strings.Contains(x, "v1") {
		t.Errorf("stale answer: %s", x)
	}
}

// Another process of the same upstream gives another name.
func TestNameThatTurns(t *testing.T) {
	var version atomic.Int64
	var name atomic.Value
	name.Store("github-mcp-server")
	answer := func(ctx context.Context, m jsonrpc.Message) []byte {
		if m.Method == "initialize" {
			return []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"` + name.Load().(string) + `","version":"1"}}`)
		}
		switch tool(m) {
		case "w":
			version.Add(1)
			return []byte(`{"content":[]}`)
		case "r":
			return current(&version)
		}
		return nil
	}
	addr := relay(t, mcptest.New(mcptest.Options{Name: "x", Answer: answer}))
	up := child(t, mcptest.Options{Name: "one", Relay: addr})
	o := stored(t, []valuemodel.Rule{reading("one/r", time.Hour)}, up)
	o.Upstreams[0].Model.Trust = true
	s := start(t, o)
	a := connect(t, s, handshake)
	a.call("r", `{}`)
	name.Store("github-mcp")
	b := connect(t, s, handshake)
	b.call("w", `{}`)
	b.call("w", `{}`)
	a.call("r", `{}`)
	a.call("r", `{}`)
	b.call("w", `{}`)
	if x := a.call("r", `{}`); !strings.Contains(x, "v3") {
		t.Errorf("stale answer: %s", x)
	}
}
