package proxy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// token is the token of the HTTP front. All clients that send it are one principal.
const token = "open sesame"

// arena is a proxy with its clients and three upstreams that share one world, in one bubble:
//
//	A  over HTTP, with an upstream session for each client session
//	B  one upstream session for all, with answers scoped to each client session
//	C  one upstream session for all, which are one principal
type arena struct {
	tally
	t       *testing.T
	goal    int // number of operations to reach
	world   *world
	options proxy.Options // initial configuration
	proxy   *proxy.Server
	front   *httpClient
	seats   []*seat // the last one makes the calls of events
	servers map[string]*mcptest.Server
	backs   map[string]*mcptest.Pipes // by address
	ending  []func()                  // functions that end the clients on stdio
	close   func()                    // closes everything
	suspect int                       // how often to repeat a history; 0 before the first fault

	mu      sync.Mutex
	doubted []doubted
	conns   []net.Conn // to A
	rules   int        // index of the rules in force
}

// doubted is a cached answer that a session got after it had sent a write that had not landed by
// then.
type doubted struct {
	who   string
	op    op
	told  told
	how   string
	write *write
}

// The first seats, on stdio, send bursts; the others, over HTTP, send one request at a time.
const (
	bursting = 5
	single   = 4
)

func newArena(t *testing.T) *arena {
	a := &arena{t: t, world: newWorld(), servers: make(map[string]*mcptest.Server), backs: make(map[string]*mcptest.Pipes)}
	a.options = proxy.Options{
		Fixed: proxy.Fixed{
			NameStyle: "always", StartupWait: patience, DrainTimeout: patience, HTTP: front.HTTPOptions{Token: token},
			Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				return a.backs[address].Dial(ctx, network, address)
			},
		},
		Upstreams: []catalog.Upstream{a.upstream("A", false), a.upstream("B", true), a.upstream("C", true)},
		Dedup:     dedup.Options{MaxBytes: 16 << 10, WriteSettle: settling, Settle: 2 * time.Millisecond},
	}
	a.options.Upstreams[2].SharedIdentity = true
	a.options.Enrichment.MaxAge = 10 * time.Second
	a.options.Enrichment.Mode = "on" // no tool has follow-ups here, but the events prefetch
	for i := range a.options.Upstreams {
		a.options.Upstreams[i].Exclusive = true
	}
	a.proxy = proxy.New(a.ruled(0), nil)
	at, serving := mcptest.NewPipes(), make(chan error, 1)
	web := &http.Server{Handler: a.proxy.HTTP()}
	go func() { serving <- web.Serve(at) }()
	a.front = &httpClient{mcptest.WebClient{T: t, URL: "http://localhost", Client: &http.Client{Transport: &http.Transport{DialContext: at.Dial, MaxIdleConnsPerHost: 100}}}}
	for i, era := range [bursting]string{handshake, handshake, stateless, handshake, handshake} {
		a.pipes(fmt.Sprintf("stdio %d", i), era)
	}
	for i := range 2 {
		a.web(fmt.Sprintf("http %d", i), handshake)
	}
	for range 2 {
		a.web("stateless", stateless)
	}
	a.pipes("events", handshake)
	a.close = sync.OnceFunc(func() {
		for _, end := range append(a.ending, a.proxy.Close, a.front.Client.CloseIdleConnections) {
			end()
		}
		web.Close()
		<-serving
	})
	t.Cleanup(a.close) // registered last, so that it runs before the upstreams are closed
	return a
}

// settle closes everything once no request is in flight, and compares the store's counters with
// what the clients observed.
func (a *arena) settle() {
	store := func() dedup.Stats { return a.proxy.Stats().Store }
	for _, s := range a.seats {
		if s.ordered {
			s.catchUp()
		}
	}
	mcptest.Eventually(a.t, "nothing is under way", func() bool { s := store(); return s.Flights == 0 && s.UnderWay == 0 })
	a.close()
	s := store()
	if s.Entries != 0 || s.Bytes != 0 || s.Flights != 0 || s.UnderWay != 0 {
		a.t.Errorf("the closed store holds %d answers of %d bytes, %d flights, %d passages", s.Entries, s.Bytes, s.Flights, s.UnderWay)
	}
	var wasted int64
	for _, n := range s.Prefetch.Wasted {
		wasted += n
	}
	if s.Prefetch.Issued != int64(a.of("prefetch")) || s.Prefetch.Issued != s.Prefetch.Used+wasted {
		a.t.Errorf("%d prefetches: the store counts %d issued, %d used and %d wasted", a.of("prefetch"), s.Prefetch.Issued, s.Prefetch.Used, wasted)
	}
	a.more("hit by a prefetch, or joined", int(s.Prefetch.Used))
	a.more("backed off", int(a.proxy.Report().Totals.BackOffs))
	a.more("evicted", int(s.Prefetch.Wasted["evicted"]))
	a.more("found stale", int(s.Prefetch.Wasted["invalidated"]))
}

// upstream returns one of the three upstreams, on pipes. Each client session has connections of
// its own to A. The arena records these, and the context of a request names its session.
func (a *arena) upstream(name string, shared bool) catalog.Upstream {
	s, back := a.world.server(name), mcptest.NewPipes()
	a.servers[name], a.backs[name+".test:80"] = s, back
	handler := s.Handler()
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !shared {
			r = r.WithContext(context.WithValue(r.Context(), homeKey{}, r.Header.Get("Mcp-Session-Id")))
		}
		handler.ServeHTTP(w, r)
	})}
	if !shared {
		web.ConnState = a.noteConn
	}
	serving := make(chan error, 1)
	go func() { serving <- web.Serve(back) }()
	a.t.Cleanup(func() {
		web.Close()
		<-serving
	})
	url := "http://" + name + ".test/mcp"
	return catalog.Upstream{
		Fingerprint: name, Model: valuemodel.Upstream{Name: name, URL: url},
		Spec: upstream.Spec{Name: name, URL: url, Shared: shared, StartTimeout: patience, MaxMessage: 8 << 20},
	}
}

// noteConn records a connection to A.
func (a *arena) noteConn(conn net.Conn, state http.ConnState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch state {
	case http.StateNew:
		a.conns = append(a.conns, conn)
	case http.StateClosed, http.StateHijacked:
		a.conns = slices.DeleteFunc(a.conns, func(c net.Conn) bool { return c == conn })
	}
}

// ruled returns the configuration under one of the operator's rules. Each rule describes the world
// correctly, or more cautiously than needed.
func (a *arena) ruled(nth int) proxy.Options {
	o := a.options
	o.Upstreams = slices.Clone(o.Upstreams)
	domain := "world"
	reads, edges := valuemodel.ReadOnly, true
	switch nth {
	case 1:
		reads = valuemodel.Indeterminate
	case 2:
		domain = "earth"
	case 3:
		edges = false
	case 4:
		o.Limits = map[string]limit.Rule{"*": {Concurrency: 4}}
	case 5:
		o.Upstreams[2].Fingerprint += " again" // forces a new connection
	case 6:
		o.Dedup.MaxBytes = 4 << 10
	}
	for i := range o.Upstreams {
		o.Upstreams[i].Model.Domain = domain
	}
	o.Models = modelled(a.t, rules(reads, edges)...)
	return o
}

// rules classify the tools. write_hinted and write_unknown are left out.
func rules(read valuemodel.Class, edges bool) []valuemodel.Rule {
	match := []string{"register"}
	layers := map[string]valuemodel.Layer{
		"*/read":       {Class: read, Cost: valuemodel.Cost{Freshness: time.Minute}},
		"*/look":       {Class: valuemodel.ReadOnly},
		"*/poll":       {Class: valuemodel.ReadOnly, FailFastAfter: 2},
		"*/read_all":   {Class: valuemodel.ReadOnly, Cost: valuemodel.Cost{Freshness: time.Minute}},
		"*/write":      {Class: valuemodel.MutatesExternal},
		"*/write_task": {Class: valuemodel.MutatesExternal},
		"*/write_edge": {Class: valuemodel.MutatesExternal, InvalidatesOnly: &edges, Invalidates: []valuemodel.Edge{
			{Tool: "*/read", Match: match}, {Tool: "*/look", Match: match}, {Tool: "*/poll", Match: match}, {Tool: "*/read_all"},
		}},
	}
	var out []valuemodel.Rule
	for _, pattern := range slices.Sorted(maps.Keys(layers)) {
		out = append(out, valuemodel.Rule{Pattern: pattern, Source: "rules", Layer: layers[pattern]})
	}
	return out
}

// judge checks the answer to a read.
func (a *arena) judge(s *seat, q *asked, m jsonrpc.Message) {
	high := a.world.look()
	raw := jsonrpc.Get(m.Result, "structuredContent")
	if raw == nil {
		return // a refused read, which is only counted
	}
	var t told
	if err := json.Unmarshal(raw, &t); err != nil {
		a.world.blame("%s: %v", raw, err)
		return
	}
	how := q.outcome(m)
	if t.Up != q.up || t.Tool != q.tool || t.Register != q.register {
		a.world.blame("answer to another call: %s asked %#v and got %s, %s", s.who, q.op, raw, how)
	}
	if t.Up != "C" && t.Who != s.who && (t.Who != "" || how == "fetched") {
		a.world.blame("answer of another principal: %s asked %#v and got %s, %s", s.who, q.op, raw, how)
	}
	for r := range registers {
		if r != q.register && q.tool != "read_all" {
			continue
		}
		if t.Versions[r] < q.low[r] || t.Versions[r] > high[r] {
			a.world.blame("stale answer: %s asked %#v and got %s, %s; register %d was at %d before and at %d after", s.who, q.op, raw, how, r, q.low[r], high[r])
		}
	}
	if how == "fetched" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range q.earlier {
		if n.register == q.register || q.tool == "read_all" {
			a.doubted = append(a.doubted, doubted{s.who, q.op, t, how, n})
		}
	}
}

// reconsider checks cached answers against earlier writes of their own sessions that landed only
// later: an answer must not be served while such a write is pending.
func (a *arena) reconsider() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range a.doubted {
		if at := a.world.landedAt(d.write); d.told.Versions[d.write.register] < at {
			a.world.blame("stale answer: %s asked %#v and got %+v, %s; its own earlier write of register %d made version %d", d.who, d.op, d.told, d.how, d.write.register, at)
		}
	}
	a.doubted = nil
}

// run plays a history and returns the faults it caused.
func (a *arena) run(h history) []string {
	var all sync.WaitGroup
	for i, script := range h.scripts {
		all.Go(func() { a.seats[i].play(script) })
	}
	all.Go(func() {
		for _, e := range h.events {
			time.Sleep(e.pause)
			a.cause(e)
		}
	})
	all.Wait()
	time.Sleep(settling) // until all writes of unknown outcome have landed
	a.reconsider()
	a.world.forget()
	return a.world.blamed()
}

// cause triggers an event.
func (a *arena) cause(e event) {
	control := a.seats[len(a.seats)-1]
	switch e.what {
	case "prefetch":
		begun, why := proxy.Prefetch(a.proxy, e.nth, e.op.up, e.op.tool, `{"register":`+e.op.argument()+`}`)
		if !begun {
			a.count("not prefetched: " + why)
			return
		}
	case "kill":
		a.mu.Lock()
		if len(a.conns) > 0 {
			a.conns[e.nth%len(a.conns)].Close()
		}
		a.mu.Unlock()
	case "forget":
		a.servers["B"].Forget()
		a.servers["C"].Forget()
	case "announce":
		a.servers["B"].Announce("notifications/resources/updated", `{"uri":"B://a"}`)
	case "reload":
		a.rules = (a.rules + 1 + e.nth%6) % 7
		a.proxy.Apply(a.ruled(a.rules))
		a.count(fmt.Sprintf("rules %d", a.rules))
	case "roots":
		control.pass("notifications/roots/list_changed", struct{}{})
	case "abandon": // over HTTP there is no late reply, so the proxy never learns the outcome
		control.play([][]op{{
			{tool: "write", up: []string{"B", "C"}[e.nth%2], before: 4 * millisecond, after: 10 * millisecond, fate: withdrawn, cancel: 2 * millisecond},
		}, {
			{tool: "read", up: "B"}, {tool: "read", up: "C"}, {tool: "read", up: "B", wait: true},
		}})
	case "timeout": // the write lands after the proxy has given it up
		o := a.ruled(a.rules)
		o.Upstreams[0].Timeout = 20 * millisecond
		a.proxy.Apply(o)
		control.play([][]op{{
			{tool: "write", up: "A", before: 30 * millisecond, after: 5 * millisecond, fate: lands},
			{tool: "read", up: "C", wait: true}, {tool: "read", up: "A"},
		}})
		a.proxy.Apply(a.ruled(a.rules))
	}
	a.count(e.what)
	a.count("operations")
}
