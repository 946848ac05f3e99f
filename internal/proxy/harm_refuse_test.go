package proxy_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/catalog"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
)

// A server may recognise prefetches by their mark and refuse them. Whatever form its refusal has,
// clients' calls are answered as always.
func TestHarmRefused(t *testing.T) {
	t.Parallel()
	const takes = 400 * time.Millisecond
	refusals := map[string]reply{
		"in text":        {result: complained("no prefetching, please")},
		"cut off":        {cut: true},
		"with an error":  {fault: `{"code":-32000,"message":"no prefetching, please"}`},
		"not understood": {fault: `{"code":-32602,"message":"Invalid params"}`},
	}
	for _, status := range []int{400, 401, 403, 404, 500, 503} {
		refusals[fmt.Sprint("with status ", status)] = reply{status: status}
	}
	for name, refusal := range refusals {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				f := newFoe(func(v *visit) reply {
					if v.early {
						return refusal
					}
					v.sleeps(takes)
					return reply{result: v.told()}
				})
				d := beset(t, f, defaults(t, listing(t)...))
				g := d.enter()
				for i, a := range g.browses(0, soak(4), 3*time.Second) {
					if a.how() != "fetched" || a.took != takes {
						t.Errorf("call %d: %s after %v: %s", i, a.how(), a.took, a.Raw)
					}
				}
				if len(early(f.ledger())) == 0 {
					t.Error("nothing was prefetched")
				}
			})
		})
	}
}

// If a process crashes because of a prefetch, all its other calls fail and it is unavailable for a
// while. So one crash bars the tool.
func TestHarmDies(t *testing.T) {
	t.Parallel()
	var deaths atomic.Int64
	up := mortal(t, func(v jsonrpc.Message) bool {
		dies := tool(v) == "get" && strings.Contains(string(v.Params), `"mcpschedd/purpose":"prefetch"`)
		if dies {
			deaths.Add(1)
		}
		return dies
	})
	rules := listing(t)
	for i := range rules {
		rules[i].Pattern = strings.Replace(rules[i].Pattern, "foe", "one", 1)
	}
	o := stored(t, rules, up)
	o.Enrichment = defaults(t).Enrichment
	s := start(t, o)
	c := connect(t, s, handshake)
	c.call("list", `{}`)
	until(t, s, "dead", func(st proxy.Stats) bool { return deaths.Load() > 0 && st.Store.Flights == 0 })
	for range 3 {
		c.begin("write", `{}`).wait() // without it, the same list would be delivered again, and have no follow-ups
		c.begin("list", `{}`).wait()
		time.Sleep(50 * time.Millisecond) // time for a prefetch
	}
	if n := deaths.Load(); n > 1 {
		t.Errorf("the process crashed because of %d prefetches", n)
	}
}

// A server that answers a prefetch with what cannot be read has not ended.
func TestHarmUnreadable(t *testing.T) {
	t.Parallel()
	rules, log := listing(t), new(logged)
	for i := range rules {
		rules[i].Pattern = strings.Replace(rules[i].Pattern, "foe", "one", 1)
	}
	up := child(t, mcptest.Options{Name: "one", Tools: hinted("list", "get", "write"), Results: map[string]string{"list": said(`{"things":[{"n":1}]}`), "get": `{"content":[}`}})
	up.Exclusive = true
	o := stored(t, rules, up)
	o.Enrichment, o.Log = defaults(t).Enrichment, slog.New(slog.NewTextHandler(log, nil))
	s := start(t, o)
	c := connect(t, s, handshake)
	c.call("list", `{}`)
	until(t, s, "answered", func(st proxy.Stats) bool { return st.Store.Prefetch.Wasted["error"] == 1 })
	s.Close()
	if log.count("server ended") > 0 || log.count("not an MCP message") == 0 {
		t.Errorf("the log says:\n%s", &log.text)
	}
}

// A process that ends because a reload removes it has not crashed.
func TestRemovedDuringAPrefetch(t *testing.T) {
	t.Parallel()
	asker, log := newAsker(), new(logged)
	defer close(asker.ask)
	o := asker.options(t)
	o.Log = slog.New(slog.NewTextHandler(log, nil))
	s := start(t, o)
	c := connect(t, s, handshake)
	c.call("list", `{}`)
	until(t, s, "under way", func(proxy.Stats) bool { return asker.seen.of("ask!") == 1 })
	without := o
	without.Upstreams = nil
	s.Apply(without)
	s.Close()
	if log.count("server ended during a prefetch") > 0 {
		t.Errorf("the log says that it crashed:\n%s", &log.text)
	}
}

// mortal is a process that crashes on some calls.
func mortal(t *testing.T, dies func(jsonrpc.Message) bool) catalog.Upstream {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var life net.Conn // closing it ends the process
	srv := mcptest.New(mcptest.Options{
		Name: "one", Tools: hinted("list", "get", "write"),
		Results: map[string]string{"list": said(`{"things":[{"n":1}]}`), "get": said("here"), "write": said("done")},
		Answer: func(_ context.Context, m jsonrpc.Message) []byte {
			if dies(m) {
				mu.Lock()
				defer mu.Unlock()
				life.Close()
			}
			return nil
		},
	})
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			life = conn
			mu.Unlock()
			serving.Go(func() { srv.Serve(conn) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		serving.Wait()
	})
	up := child(t, mcptest.Options{Name: "one", Relay: ln.Addr().String()})
	up.Exclusive = true
	return up
}
