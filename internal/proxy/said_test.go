package proxy_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// soon waits until a condition holds.
func soon(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not %s after %v", what, patience)
		}
	}
}

// After a reload to another command whose server never completes the handshake, the old
// server's annotations do not bar it repeatedly.
func TestReloadToMuteServer(t *testing.T) {
	for _, name := range []string{"fake", "github-mcp-server"} {
		old, next := child(t, mcptest.Options{Name: name}), child(t, mcptest.Options{Name: name, Start: "mute"})
		old.Spec.Name, next.Spec.Name = "one", "one"
		next.Spec.StartTimeout = 100 * time.Millisecond
		rules := []valuemodel.Rule{reading("one/r", time.Hour)}
		s := start(t, stored(t, rules, old))
		c := connect(t, s, handshake)
		c.call("echo", `{}`)
		s.Apply(stored(t, rules, next))
		c.broken("echo", `{}`)
		c.request("ping", "")
	}
}

// Annotations are remembered up to a limit of name bytes for each server. Those beyond the
// limit are not trusted, and other servers are not affected.
func TestHintsOfManyTools(t *testing.T) {
	claiming := func(name string, tools int, longer string) proxy.Upstream {
		var all []string
		for i := range tools {
			all = append(all, fmt.Sprintf(`{"name":"t%d%s","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`, i, longer))
		}
		_, up := remote(t, mcptest.Options{Name: name, Tools: all})
		up.Model.Trust = true
		return up
	}
	o := options(claiming("long", 60, strings.Repeat("x", 100_000)), claiming("many", 9000, ""), claiming("small", 1, ""))
	for i := range o.Upstreams {
		o.Upstreams[i].Model.Name = o.Upstreams[i].Spec.Name
	}
	believed := make(map[string]int)
	for _, found := range start(t, o).Survey(t.Context()) {
		for _, one := range found.Tools {
			if one.Model.Class.Reads() {
				believed[one.Model.Upstream]++
			}
		}
	}
	if believed["long"] > 20 || believed["many"] != 9000 || believed["small"] != 1 {
		t.Errorf("got %v tools believed, want at most 20 of the 2 MiB of long names, and all the others", believed)
	}
}

// A tool that is no longer listed is classified by its last annotations. If it is listed again
// as a write, its open call counts as a write.
func TestListedAgain(t *testing.T) {
	var phase, version atomic.Int64
	sent, release := make(chan struct{}), make(chan struct{})
	answer := func(ctx context.Context, m jsonrpc.Message) []byte {
		if m.Method == "tools/list" {
			hint := map[int64]string{0: "true", 2: "false"}[phase.Load()]
			if hint == "" {
				return []byte(`{"tools":[{"name":"r","inputSchema":{"type":"object"}}]}`)
			}
			return []byte(`{"tools":[{"name":"r","inputSchema":{"type":"object"}},{"name":"w","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":` + hint + `}}]}`)
		}
		switch tool(m) {
		case "w":
			if strings.Contains(string(m.Params), "hold") {
				close(sent)
				heldUntil(ctx, release)
				version.Add(1)
			}
			return []byte(`{"content":[]}`)
		case "r":
			return current(&version)
		}
		return nil
	}
	srv := mcptest.New(mcptest.Options{Name: "x", Answer: answer})
	up := child(t, mcptest.Options{Name: "one", Relay: relay(t, srv)})
	o := stored(t, []valuemodel.Rule{reading("one/r", time.Hour)}, up)
	o.Upstreams[0].Model.Trust = true
	s := start(t, o)
	c := connect(t, s, handshake)
	c.call("w", `{}`)
	list := func(n int64, want bool) {
		t.Helper()
		phase.Store(n)
		srv.Announce("notifications/tools/list_changed", "{}")
		soon(t, "in the list as it is now", func() bool { return strings.Contains(c.tools(), "w") == want })
	}
	list(1, false)
	o2 := stored(t, []valuemodel.Rule{reading("one/r", time.Hour), reading("one/q", time.Hour)}, up)
	o2.Upstreams[0].Model.Trust = true
	s.Apply(o2)
	w := c.begin("w", `{"hold":1}`)
	await(t, sent)
	list(2, true)
	c.call("w", `{}`) // is a write now
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

// After a reload to another command, the new server's annotations apply to its tools.
func TestStirredAfterReload(t *testing.T) {
	var version atomic.Int64
	answer := func(ctx context.Context, m jsonrpc.Message) []byte {
		if tool(m) == "echo" {
			return current(&version)
		}
		return nil
	}
	srv := mcptest.New(mcptest.Options{Name: "github-mcp-server", Answer: answer})
	up := child(t, mcptest.Options{Name: "one", Relay: relay(t, srv)})
	rules := []valuemodel.Rule{reading("one/echo", time.Hour)}
	for _, reload := range []bool{false, true} {
		version.Store(0)
		o := stored(t, rules, up)
		o.Upstreams[0].Model.Trust = true
		s := start(t, o)
		c := connect(t, s, handshake)
		c.call("echo", `{}`)
		if reload {
			o2 := stored(t, rules, up)
			o2.Upstreams[0].Model.Trust = true
			o2.Upstreams[0].Fingerprint += " another"
			s.Apply(o2)
			c.call("echo", `{}`)
		}
		c.call("echo", `{}`)
		version.Store(1)
		srv.Announce("notifications/tools/list_changed", "{}")
		soon(t, "fresh after list_changed", func() bool { return strings.Contains(c.call("echo", `{}`), "v1") })
	}
}

// If one server's task has ended and another's with the same id runs, the id means the running
// one.
func TestTaskThatRunsIsMeant(t *testing.T) {
	answer := func(name string) func(ctx context.Context, m jsonrpc.Message) []byte {
		return func(ctx context.Context, m jsonrpc.Message) []byte {
			switch {
			case tool(m) == "w":
				return []byte(`{"task":{"taskId":"1","status":"working"}}`)
			case m.Method == "tasks/result":
				return []byte(`{"content":[{"type":"text","text":"result of ` + name + `"}]}`)
			case m.Method == "tasks/cancel":
				return []byte(`{"taskId":"1","status":"cancelled"}`)
			}
			return nil
		}
	}
	srv, one := remote(t, mcptest.Options{Name: "one", Answer: answer("one")})
	_, two := remote(t, mcptest.Options{Name: "two", Answer: answer("two")})
	o := stored(t, []valuemodel.Rule{reading("two/echo", time.Hour)}, one, two)
	s := start(t, o)
	c := connect(t, s, handshake)
	c.request("tools/call", `{"name":"one__w","arguments":{},"task":{}}`)
	srv.Announce("notifications/tasks/status", `{"taskId":"1","status":"completed"}`)
	c.next("notifications/tasks/status")
	c.request("tools/call", `{"name":"two__w","arguments":{},"task":{}}`)
	if got := c.request("tasks/result", `{"taskId":"1"}`); !strings.Contains(got, "result of two") {
		t.Errorf("got %s", got)
	}
	if got := c.request("tasks/cancel", `{"taskId":"1"}`); !strings.Contains(got, "cancelled") {
		t.Errorf("got %s", got)
	}
}

// A tool of a server that the configuration recognises is known while it has the arguments in
// the table. With another argument it counts as a write, and continues to do so while the
// program runs.
func TestRecognisedToolChangesItsArguments(t *testing.T) {
	const known = `{"name":"read_graph","inputSchema":{"type":"object","properties":{}}}`
	const other = `{"name":"read_graph","inputSchema":{"type":"object","properties":{"forget":{}}}}`
	var lists atomic.Int64
	answer := func(_ context.Context, m jsonrpc.Message) []byte {
		if m.Method != "tools/list" {
			return nil
		}
		return []byte(`{"tools":[` + []string{known, other, known}[lists.Load()] + `]}`)
	}
	_, up := remote(t, mcptest.Options{Name: "memory", Answer: answer})
	up.Model.Name, up.Model.Recognised = up.Spec.Name, valuemodel.Recognised{Provider: "memory", By: "these words"}
	srv := start(t, options(up))
	for i, want := range []struct {
		arguments int
		class     valuemodel.Class
	}{{0, valuemodel.ReadOnly}, {1, valuemodel.Indeterminate}, {0, valuemodel.Indeterminate}} {
		lists.Store(int64(i))
		connect(t, srv, handshake) // stays until the list is read: a survey may end earlier with the last-known one
		soon(t, "listed anew", func() bool {
			tool := srv.Survey(t.Context())[0].Tools[0]
			if len(tool.Hints.Arguments) != want.arguments {
				return false
			}
			if tool.Model.Class != want.class {
				t.Fatalf("list %d: got class %s, want %s", i, tool.Model.Class, want.class)
			}
			return true
		})
	}
}

// exclusive is a claim that few operators can make: it is suggested only if no other line
// helps, and not for a server that is known to read this machine.
func TestExclusiveIsTheLastLine(t *testing.T) {
	change := func(set func(*proxy.Upstream)) string {
		_, up := remote(t, mcptest.Options{Name: "one", Tools: []string{`{"name":"git_log","inputSchema":{"type":"object"}}`}})
		up.Model.Name, up.Model.URL = "one", ""
		set(&up)
		o := stored(t, []valuemodel.Rule{reading("one/*", time.Hour)}, up)
		o.Enrichment.Mode = "on"
		return start(t, o).Survey(t.Context())[0].Status.Change
	}
	for want, set := range map[string]func(*proxy.Upstream){
		"remote = true in [upstreams.one]":    func(up *proxy.Upstream) { up.Model.Trust = true },
		"exclusive = true in [upstreams.one]": func(up *proxy.Upstream) { up.Model.Trust, up.Model.Remote = true, new(false) },
		"":                                    func(up *proxy.Upstream) { up.Model.Provider = "git" },
	} {
		if got := change(set); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
