package proxy_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
)

// introduced is a client with a given name that has completed the handshake.
func introduced(t *testing.T, p *proxy.Server, name string) *caller {
	t.Helper()
	c := attach(t, p, handshake)
	c.opens(name, able)
	return c
}

// Pinned tools are listed and called by their own names, if the client may use them, whatever
// search_reach says of the others.
func TestSelectionPins(t *testing.T) {
	for onlyRead, list := range map[bool]string{false: "find_tools call_read_tool call_tool put", true: "find_tools call_read_tool put"} {
		p, s := searching(t, handshake, func(o *proxy.Options) {
			o.Selection.OnlyRead, o.Selection.Pins = onlyRead, func(tool string) bool { return tool == "shop/put" }
		})
		c := connect(t, p, handshake)
		if got := c.tools(); got != list {
			t.Errorf("listed: got %s, want %s", got, list)
		}
		c.call("put", `{"x":1}`)
		if got := c.found(`{"query":"put","limit":1}`).names(); got != "put put" {
			t.Errorf("found %s, want it called by its own name", got)
		}
		if got, want := s.called(), `put {"x":1}`; got != want {
			t.Errorf("called %s, want %s", got, want)
		}
	}
}

// Tools that most sessions use are listed in later sessions, and the stats give the reason. The
// list of an open session does not change. A reload that turns learning off or on affects later sessions.
func TestSelectionByEvidence(t *testing.T) {
	var mu sync.Mutex
	var kept []byte
	var options proxy.Options
	learning := func(o *proxy.Options) {
		o.Enrichment.Learn = true
		defer func() { options = *o }()
		o.Selection.Keep = func(merge func([]byte) ([]byte, error)) (err error) {
			mu.Lock()
			defer mu.Unlock()
			kept, err = merge(kept)
			return err
		}
	}
	for i := range 3 {
		p, _ := searching(t, handshake, learning)
		c := connect(t, p, handshake)
		c.found(`{"query":"look up the zanzibar ledger"}`)
		c.call("call_read_tool", `{"name":"get","arguments":{"password":"hunter2"}}`)
		if got, want := c.tools(), "find_tools call_read_tool call_tool"; got != want {
			t.Errorf("session %d: got %s, want %s", i, got, want)
		}
		c.hangUp()
		p.Close()
	}
	if state := string(kept); strings.Contains(state, "zanzibar") || strings.Contains(state, "hunter2") {
		t.Errorf("kept is %s, want counts only", state)
	}
	p, _ := searching(t, handshake, learning)
	c := connect(t, p, handshake)
	if got, want := c.tools(), "find_tools call_read_tool call_tool get"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if pinned := fmt.Sprint(p.Report().Running[0].Pinned); pinned != "map[shop/get:used in 3 of 3 sessions]" {
		t.Errorf("got %s, want it with its reason", pinned)
	}
	before := string(kept)
	options.Enrichment.Learn = false
	p.Apply(options)
	c = connect(t, p, handshake)
	if got, want := c.tools(), "find_tools call_read_tool call_tool"; got != want {
		t.Errorf("after a reload without learning: got %s, want %s", got, want)
	}
	c.found(`{"query":"look up the zanzibar ledger"}`)
	p.Idle()
	if string(kept) != before {
		t.Errorf("without learning, %s became %s", before, kept)
	}
	options.Enrichment.Learn = true
	p.Apply(options)
	if got, want := connect(t, p, handshake).tools(), "find_tools call_read_tool call_tool get"; got != want {
		t.Errorf("after a reload with learning: got %s, want %s", got, want)
	}
}

// In mode auto, tool search is used if the list is long, the client has no tool search of its own, and
// it can ask its user before a write. For a client that has a tool search, pinned tools are preloaded.
func TestSelectionAuto(t *testing.T) {
	for _, test := range []struct {
		client, can string
		over        int
		onlyRead    bool
		searched    bool
	}{
		{"tester", able, 50, false, true}, {"tester", able, 100_000, false, false}, {"claude-code", able, 50, false, false},
		{"qwen-cli-mcp-client-mcpschedd", able, 50, false, false}, {"tester", `{}`, 50, false, false}, {"tester", `{}`, 50, true, true},
	} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			p, _ := searching(t, handshake, func(o *proxy.Options) {
				o.Selection = catalog.Selection{Tools: "auto", Over: test.over, OnlyRead: test.onlyRead, Pins: func(tool string) bool { return tool == "shop/get" }}
			})
			c := attach(t, p, handshake)
			c.opens(test.client, test.can)
			list := c.request("tools/list", "")
			if got := strings.Contains(list, `"find_tools"`); got != test.searched {
				t.Errorf("searched: %v, want %v: %s", got, test.searched, list)
			}
			if got := strings.Contains(list, `"put"`); got == test.searched {
				t.Errorf("all listed: %v, want %v", got, !test.searched)
			}
			ready := strings.Count(list, `"_meta":{"anthropic/alwaysLoad":true}`)
			if searches := test.client != "tester"; searches != (ready == 1) || !searches && ready != 0 {
				t.Errorf("%d tools are preloaded: %s", ready, list)
			}
			if !test.searched {
				if got := firstText([]byte(c.call("call_tool", `{"name":"put"}`))); got != `{"did":{"name":"put"}}` {
					t.Errorf("call_tool of the server: got %s", got)
				}
				c.call("put", "")
			}
		})
	}
}

// auto: nothing is decided by a short list while that of another server is unknown. Calls follow the
// list that the client has seen, and the client is notified of the next one.
func TestSelectionAutoWhileAListIsUnknown(t *testing.T) {
	t.Parallel()
	known := make(chan struct{})
	_, late := remote(t, mcptest.Options{
		Name:  "late",
		Tools: []string{`{"name":"slow","description":"` + strings.Repeat("long ", 8000) + `","inputSchema":{"type":"object"}}`},
		Answer: func(ctx context.Context, m jsonrpc.Message) []byte {
			if m.Method == "tools/list" {
				heldUntil(ctx, known)
			}
			return nil
		},
	})
	p, _ := searching(t, handshake, func(o *proxy.Options) {
		o.Selection = catalog.Selection{Tools: "auto", Over: 5000}
		o.Upstreams, o.StartupWait = append(o.Upstreams, late), time.Millisecond
	})
	c := introduced(t, p, "tester")
	listed := func(name string) bool { return strings.Contains(c.request("tools/list", ""), `"name":"`+name+`"`) }
	mcptest.Eventually(t, "the short list is shown", func() bool { return listed("shop__put") })
	c.call("shop__put", "")
	if listed("find_tools") {
		t.Error("tools are searched for before the long list is known")
	}
	notified := func() int { return strings.Count(strings.Join(c.transcript(), ""), "notifications/tools/list_changed") }
	before := notified()
	close(known)
	mcptest.Eventually(t, "the client is notified", func() bool { return notified() > before })
	if !listed("find_tools") || listed("shop__put") {
		t.Error("the long list is not searched")
	}
}

// auto: of stateless clients with the same capabilities, each is listed what fits its name.
func TestSelectionAutoOfStatelessClients(t *testing.T) {
	p, _ := searching(t, handshake, func(o *proxy.Options) {
		o.Selection = catalog.Selection{Tools: "auto", Over: 50}
	})
	web := httptest.NewServer(p.HTTP())
	t.Cleanup(web.Close)
	f := &mcptest.WebClient{T: t, URL: web.URL, Client: web.Client()}
	for i, name := range []string{"claude-code", "tester", "claude-code"} {
		params := strings.Replace(withMeta(`{}`, able, ""), `"name":"tester"`, `"name":"`+name+`"`, 1)
		_, list := f.Post("/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":%s}`, i, params), "Mcp-Protocol-Version", stateless, "Mcp-Method", "tools/list")
		if got, want := strings.Contains(list, `"find_tools"`), name == "tester"; got != want {
			t.Errorf("%d, %s: searched: %v, want %v: %s", i, name, got, want, list)
		}
	}
}
