package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// ordeal is a proxy between clients and a foe, in one synctest bubble. Connections are pipes in
// memory, and time passes only when all goroutines block.
type ordeal struct {
	t      *testing.T
	foe    *foe
	proxy  *proxy.Server
	began  time.Time
	front  *mcptest.Pipes
	web    *http.Client // for clients over HTTP
	guests []*guest
	leave  func() // disconnects the clients

	account account // recorded events
}

// reaches returns a dial function that uses one function for one address and another for all others.
func reaches(address string, one, others upstream.DialFunc) upstream.DialFunc {
	return func(ctx context.Context, network, at string) (net.Conn, error) {
		if at == address {
			return one(ctx, network, at)
		}
		return others(ctx, network, at)
	}
}

// beset returns a proxy in front of a foe, with the defaults of the configuration. When the test
// ends, the proxy is closed and checked for leaks.
func beset(t *testing.T, f *foe, o proxy.Options) *ordeal {
	t.Helper()
	d := &ordeal{t: t, foe: f, began: time.Now(), front: mcptest.NewPipes()}
	back := mcptest.NewPipes()
	if o.Dial == nil { // a test that sets Dial has another server too
		o.Dial = back.Dial
	} else {
		o.Dial = reaches(host+":80", back.Dial, o.Dial)
	}
	d.proxy = proxy.New(d.account.kept(o), nil)
	behind := &http.Server{Handler: f}
	ended := make(chan error, 2)
	go func() { ended <- behind.Serve(back) }()
	ctx, stop := context.WithCancel(context.Background())
	go func() { ended <- d.proxy.HTTP().Serve(ctx, d.front) }()
	transport := &http.Transport{DialContext: d.front.Dial, MaxIdleConnsPerHost: 1000}
	d.web = &http.Client{Transport: transport}
	d.leave = func() {
		for _, g := range d.guests {
			g.leave()
		}
		stop()
		transport.CloseIdleConnections()
		synctest.Wait()
	}
	t.Cleanup(func() {
		d.leave()
		d.look()
		d.proxy.Close()
		behind.Close()
		d.audit()
		for range 2 {
			if err := <-ended; err != nil && !errors.Is(err, http.ErrServerClosed) {
				t.Errorf("serve: %v", err)
			}
		}
	})
	return d
}

// look checks that nothing is left of the sessions, immediately after all have ended.
func (d *ordeal) look() {
	d.t.Helper()
	for what, n := range proxy.Kept(d.proxy) {
		if n != 0 {
			d.t.Errorf("left: %d %s", n, what)
		}
	}
	s := d.proxy.Stats()
	if s.Store.Flights != 0 || s.Prefetch.Scheduler.UnderWay != 0 || s.Sessions != 0 {
		d.t.Errorf("left: %d flights, %d slots taken, %d sessions", s.Store.Flights, s.Prefetch.Scheduler.UnderWay, s.Sessions)
	}
	for _, h := range s.Hosts {
		if h.InFlight != 0 || h.Prefetches != 0 || h.Waiting != 0 || h.WaitingPrefetches != 0 {
			d.t.Errorf("left at a host: %+v", h)
		}
	}
	var wasted int64
	for _, n := range s.Prefetch.Wasted {
		wasted += n
	}
	if left := s.Prefetch.Issued - s.Prefetch.Used - wasted; left < 0 || left > int64(s.Store.Entries) { // the cached prefetches of a shared principal stay
		d.t.Errorf("%d prefetches were issued, %d used and %d wasted, %d answers are stored", s.Prefetch.Issued, s.Prefetch.Used, wasted, s.Store.Entries)
	}
	if made := len(early(d.foe.ledger())); int64(made) > s.Prefetch.Issued {
		d.t.Errorf("%d prefetches came to the server, %d were issued", made, s.Prefetch.Issued)
	}
	if n := d.foe.there(); n != 0 {
		d.t.Errorf("%d calls are open at the server and were not cancelled", n)
	}
}

// host is the host of the foe, for its limits.
const host = "foe.test"

// defaults returns the options for a configuration that names only the foe and these rules for its tools.
func defaults(t testing.TB, rules ...valuemodel.Rule) proxy.Options {
	t.Helper()
	up := catalog.Upstream{
		Fingerprint: "foe", Model: valuemodel.Upstream{Name: "foe", URL: "http://" + host + "/mcp"},
		Spec: upstream.Spec{Name: "foe", URL: "http://" + host + "/mcp", StartTimeout: 30 * time.Second, MaxMessage: 1 << 20},
	}
	return proxy.Options{
		Upstreams: []catalog.Upstream{up}, Models: modelled(t, rules...),
		Fixed: proxy.Fixed{StartupWait: 1500 * time.Millisecond, DrainTimeout: 5 * time.Second},
		Dedup: dedup.Options{MaxBytes: 256 << 20, WriteSettle: time.Minute, Settle: 2 * time.Second},
		Enrichment: speculate.Rules{
			Mode: "on", Delivery: "silent", MaxAge: 10 * time.Second, PerSession: 3, Total: 16, Budget: 8000, MinProbability: 0.3, InlineFrom: 0.8,
			Waste: 50 * time.Millisecond, SecondWorth: 0.01, ShadowLabels: 5, Learn: true,
		},
	}
}

// withoutPrefetch returns o with prefetching off.
func withoutPrefetch(o proxy.Options) proxy.Options {
	o.Enrichment.Mode = "off"
	return o
}

// listing returns rules for a tool list that only reads, with get of its first items as a
// follow-up.
func listing(t testing.TB) []valuemodel.Rule {
	t.Helper()
	return []valuemodel.Rule{reading("foe/get", 0), {
		Pattern: "foe/list", Source: "test", Layer: valuemodel.Layer{
			Class: valuemodel.ReadOnly,
			FollowUps: []valuemodel.FollowUp{{
				Tool: "get", Probability: 0.9, Max: 3,
				Args: map[string]valuemodel.Binding{"n": bound(t, "$result.things[*].n")},
			}},
		},
	}}
}

// page and thing return arguments of list and get.
func page(n int) string     { return fmt.Sprintf(`{"page":%d}`, n) }
func thing(n, i int) string { return fmt.Sprintf(`{"n":%d%d}`, n, i+1) }

// guest is a client. It records the questions that it gets and how long its responses took.
type guest struct {
	*wire
	o      *ordeal
	leave  func()
	breaks bool // it may close its end while the proxy writes to it
}

// stranger returns a client on stdio that has not sent anything yet. If only is not "", the client
// sees only that upstream.
func (d *ordeal) stranger(only string) *guest {
	d.t.Helper()
	in, toProxy := io.Pipe()
	fromProxy, out := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- d.proxy.ServeStdio(context.Background(), in, out, only)
		in.Close()
		out.Close()
	}()
	g := &guest{o: d, wire: newWire(d.t, &d.account, toProxy, fromProxy)}
	g.leave = func() {
		toProxy.Close()
		if err := <-served; err != nil && !(g.breaks && errors.Is(err, io.ErrClosedPipe)) {
			d.t.Errorf("stdio ended: %v", err)
		}
		<-g.gone
	}
	d.guests = append(d.guests, g)
	return g
}

// enter opens a session on stdio.
func (d *ordeal) enter() *guest {
	d.t.Helper()
	g := d.stranger("")
	g.request("initialize", `{"protocolVersion":"`+handshake+`","capabilities":`+able+`,"clientInfo":{"name":"guest","version":"1"}}`)
	g.note("notifications/initialized", "{}")
	g.request("tools/list", "{}")
	return g
}
