package valkey_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valkey"
	"mcpschedd/internal/valuemodel"
)

// service is an MCP server over HTTP with one value.
type service struct {
	url   string
	value atomic.Int64
	gets  atomic.Int64
	puts  atomic.Int64
	gate  atomic.Pointer[chan struct{}] // get blocks until it is closed; nil: get does not block
}

func newService(t *testing.T) *service {
	v := new(service)
	s := server.NewMCPServer("service", "1", server.WithToolCapabilities(true))
	s.AddTool(mcp.NewTool("get", mcp.WithNumber("n")), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		v.gets.Add(1)
		value := v.value.Load()
		if gate := v.gate.Load(); gate != nil {
			<-*gate
		}
		return mcp.NewToolResultText(fmt.Sprint(value)), nil
	})
	s.AddTool(mcp.NewTool("put"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		v.puts.Add(1)
		return mcp.NewToolResultText(fmt.Sprint(v.value.Add(1))), nil
	})
	s.AddTool(mcp.NewTool("busy"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultError("429 Too Many Requests: retry after 60 seconds"), nil
	})
	web := httptest.NewServer(server.NewStreamableHTTPServer(s))
	t.Cleanup(web.Close)
	v.url = web.URL + "/mcp"
	return v
}

const (
	shortLease  = 500 * time.Millisecond
	longLease   = 2 * time.Second // a store that takes a fifth of it counts as one that does not reply
	shortSettle = 100 * time.Millisecond
	patience    = time.Minute // a Sentinel that was stalled for two seconds does nothing for 30 s
)

// gateway is one replica of the proxy with a client.
type gateway struct {
	t *testing.T
	s *proxy.Server
	c *client.Client
}

func newGateway(t *testing.T, v *service, store string) *gateway {
	t.Helper()
	peers, err := valkey.New(valkey.Options{URL: "redis://" + store, Lease: longLease, WriteSettle: shortSettle})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(peers.Close)
	models, problems := valuemodel.Compile([]valuemodel.Rule{
		{Pattern: "service/get", Source: "test", Layer: valuemodel.Layer{Class: valuemodel.ReadOnly, Cost: valuemodel.Cost{Freshness: time.Hour}}},
		{Pattern: "service/put", Source: "test", Layer: valuemodel.Layer{Class: valuemodel.MutatesExternal}},
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	o := proxy.Options{
		Models: models, Fixed: proxy.Fixed{NameStyle: "never", StartupWait: patience},
		Dedup: dedup.Options{MaxBytes: 1 << 20, WriteSettle: shortSettle, Peers: peers},
		Upstreams: []catalog.Upstream{{
			Spec:        upstream.Spec{Name: "service", URL: v.url, Shared: true, StartTimeout: patience},
			Fingerprint: v.url, SharedIdentity: true, Model: valuemodel.Upstream{Name: "service", URL: v.url},
		}},
	}
	o.Common = proxy.NewCommon(o)
	t.Cleanup(o.Common.Close)
	o.Common.ConnectReplicas(proxy.Replicas{Figures: peers.Figures, Limits: peers.Take, PublishLimited: peers.PublishLimited})
	peers.WatchCount(o.Common.SetReplicas)
	peers.OnLimited(o.Common.Limited)
	s := proxy.New(o, nil)
	peers.PublishFigures(o.Common.Figures)
	web := httptest.NewServer(s.HTTP())
	t.Cleanup(web.Close)
	t.Cleanup(s.Close)
	c, err := client.NewStreamableHttpClient(web.URL + "/mcp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	begin := mcp.InitializeRequest{}
	begin.Params.ProtocolVersion = "2025-11-25"
	begin.Params.ClientInfo = mcp.Implementation{Name: "t", Version: "1"}
	if _, err := c.Initialize(ctx, begin); err != nil {
		t.Fatal(err)
	}
	return &gateway{t, s, c}
}

// call calls a tool; err is a protocol error or an error result.
func (g *gateway) call(tool string, n int) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r := mcp.CallToolRequest{}
	r.Params.Name = tool
	if tool == "get" {
		r.Params.Arguments = map[string]any{"n": n}
	}
	result, err := g.c.CallTool(ctx, r)
	if err != nil {
		return "", err
	}
	text := result.Content[0].(mcp.TextContent).Text
	if result.IsError {
		return "", fmt.Errorf("%s", text)
	}
	return text, nil
}

func (g *gateway) mustCall(tool string, n int) string {
	g.t.Helper()
	text, err := g.call(tool, n)
	if err != nil {
		g.t.Fatalf("%s: %v", tool, err)
	}
	return text
}

// sharing returns when the gateway serves a call from its cache.
func (g *gateway) sharing(v *service) {
	g.t.Helper()
	for began := time.Now(); time.Since(began) < patience; time.Sleep(20 * time.Millisecond) {
		g.mustCall("get", -1)
		before := v.gets.Load()
		if g.mustCall("get", -1); v.gets.Load() == before {
			return
		}
	}
	g.t.Fatal("no call was served from the cache")
}

func TestProxies(t *testing.T) {
	t.Parallel()
	store, v := startServer(t), newService(t)
	cable := newCable(t, store.addr)
	a, b, c := newGateway(t, v, store.addr), newGateway(t, v, cable.addr()), newGateway(t, v, store.addr)
	for _, g := range []*gateway{a, b, c} {
		g.sharing(v)
	}
	if got := a.mustCall("get", 1); got != "0" {
		t.Fatalf("got %s, want 0", got)
	}
	waitUntil(t, "the other replicas have the answer", func() bool {
		asked := v.gets.Load()
		return b.mustCall("get", 1) == "0" && c.mustCall("get", 1) == "0" && v.gets.Load() == asked
	})

	c.mustCall("put", 0)
	for i, g := range []*gateway{a, b, c} {
		if got := g.mustCall("get", 1); got != "1" {
			t.Errorf("replica %d after a write by another: got %s, want 1", i, got)
		}
	}

	cable.setCut(true)
	puts := v.puts.Load()
	if got := b.mustCall("get", 1); got != "1" {
		t.Errorf("a replica that is cut off: read %s, want 1", got)
	}
	if _, err := b.call("put", 0); err == nil || !strings.Contains(err.Error(), "other replicas") {
		t.Errorf("a write of a replica that is cut off: got %v, want an error that it cannot be announced", err)
	}
	if got := v.puts.Load(); got != puts {
		t.Errorf("the service got %d writes of a replica that is cut off", got-puts)
	}
	a.mustCall("put", 0)
	if got := b.mustCall("get", 1); got != "2" {
		t.Errorf("a replica that is cut off, after a write by another: read %s, want 2", got)
	}
	cable.setCut(false)
	waitUntil(t, "writes are sent again", func() bool { _, err := b.call("put", 0); return err == nil })
	if got := a.mustCall("get", 1); got != "3" {
		t.Errorf("after a write by a replica that is back: read %s, want 3", got)
	}

	var calls, changes int64
	for _, g := range []*gateway{a, b, c} {
		calls += g.s.Report().Totals.Calls
		changes += g.s.Report().Tools["service/put"].Calls
	}
	waitUntil(t, "any replica has the figures of all", func() bool {
		all := b.s.View().Stats
		return len(all.Replicas) == 3 && all.Totals.Calls == calls && all.Tools["service/put"].Calls == changes && len(all.Running) == 3 && all.Totals.LatencyMS.N == calls
	})
	cable.setCut(true)
	if alone := b.s.View().Stats; len(alone.Replicas) != 1 || alone.Totals.Calls != b.s.Report().Totals.Calls {
		t.Errorf("a replica that is cut off has the figures of %q", alone.Replicas)
	}
}

// TestOneFetch: if several replicas need the same answer, one of them fetches it for all.
func TestOneFetch(t *testing.T) {
	t.Parallel()
	store, v := startServer(t), newService(t)
	var gateways []*gateway
	for range 3 {
		g := newGateway(t, v, store.addr)
		g.sharing(v)
		gateways = append(gateways, g)
	}
	// A replica that reads its server's tools just then fetches for itself, so there are three tries.
	for n := 7; n < 10; n++ {
		gate := make(chan struct{})
		v.gate.Store(&gate)
		before := v.gets.Load()
		var calls sync.WaitGroup
		for _, g := range gateways {
			calls.Go(func() {
				if got := g.mustCall("get", n); got != "0" {
					t.Errorf("got %s, want 0", got)
				}
			})
		}
		waitUntil(t, "a replica fetches", func() bool { return v.gets.Load() > before })
		time.Sleep(100 * time.Millisecond) // time for the other replicas to send requests, which they must not
		v.gate.Store(nil)
		close(gate)
		calls.Wait()
		if v.gets.Load()-before == 1 {
			return
		}
	}
	t.Error("the service got more than one request for each answer")
}

func waitUntil(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("never: %s", what)
		}
	}
}

// TestCount: replicas are counted, and replicas that have stopped are not.
func TestCount(t *testing.T) {
	t.Parallel()
	at := startServer(t)
	var counts [3]atomic.Int64
	var all []*valkey.Store
	for i := range counts {
		s, err := valkey.New(valkey.Options{URL: "valkey://" + at.addr, Lease: shortLease, WriteSettle: shortSettle})
		if err != nil {
			t.Fatal(err)
		}
		s.WatchCount(func(n int, _ bool) { counts[i].Store(int64(n)) })
		all = append(all, s)
	}
	waitUntil(t, "each knows of three", func() bool { return counts[0].Load() == 3 && counts[1].Load() == 3 && counts[2].Load() == 3 })
	all[2].Close()
	waitUntil(t, "the others know of two", func() bool { return counts[0].Load() == 2 && counts[1].Load() == 2 })
	at.kill()
	all[1].Close()
	time.Sleep(2 * shortLease)
	if got := counts[0].Load(); got != 2 {
		t.Errorf("partitioned: %d replicas, want the last number, 2", got)
	}
	all[0].Close()
}
