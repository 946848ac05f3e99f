package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/record"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/valuemodel"
)

// A session that is ending takes no server that a reload adds.
func TestReloadWhileASessionEnds(t *testing.T) {
	ending, end := make(chan struct{}), make(chan struct{})
	srv := mcptest.New(mcptest.Options{Name: "one"})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			close(ending)
			<-end
		}
		srv.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	_, one := remote(t, mcptest.Options{Name: "one"})
	one.Spec.URL, one.Fingerprint = web.URL, web.URL
	_, two := remote(t, mcptest.Options{Name: "two"})
	s := start(t, options(one))
	c := connect(t, s, handshake)
	ended := make(chan struct{})
	go func() {
		c.hangUp()
		close(ended)
	}()
	await(t, ending)
	s.Apply(options(one, two))
	if got := s.Report().Running[0].Upstreams[1].State; got != "idle" {
		t.Errorf("got the new server %s, want it unused", got)
	}
	close(end)
	await(t, ended)
}

// A session is told that the lists have changed when a reload removes a server, and its level is told to one that a
// reload adds.
func TestReloadChangesServers(t *testing.T) {
	_, one := remote(t, mcptest.Options{Name: "one"})
	srv, two := remote(t, mcptest.Options{Name: "two"})
	s := start(t, options(one, two))
	c := connect(t, s, handshake)
	c.request("logging/setLevel", `{"level":"debug"}`)
	s.Apply(options(one))
	c.next("notifications/tools/list_changed")
	before := len(srv.Seen())
	s.Apply(options(one, two))
	mcptest.Eventually(t, "the new server is told the level", func() bool {
		return slices.ContainsFunc(srv.Seen()[before:], func(line string) bool { return strings.Contains(line, `"level":"debug"`) })
	})
}

// A reload replaces the whole policy while calls are running. No call is lost, and none is
// classified half by the old and half by the new policy. One policy caches what the other
// classifies as a write; a mixture of both would serve wrong answers.
func TestReloadUnderLoad(t *testing.T) {
	up := child(t, mcptest.Options{Name: "one"})
	reads := stored(t, []valuemodel.Rule{reading("one/echo", time.Hour)}, up)
	writes := stored(t, []valuemodel.Rule{{Pattern: "one/echo", Source: "test", Layer: valuemodel.Layer{
		Class: valuemodel.MutatesExternal, Cost: valuemodel.Cost{Freshness: time.Hour},
	}}}, up)
	writes.Limits = map[string]limit.Rule{"*": {Concurrency: 8}}
	s := start(t, reads)
	var clients []*caller
	for range 3 { // odd, so that rounds in step with the reloads see both policies
		c := connect(t, s, handshake)
		c.tools() // the tools have been listed
		c.call("echo", `{}`)
		clients = append(clients, c)
	}
	calls := slice(200, 2500)
	next, reloads := make(chan struct{}), 0
	var reloading sync.WaitGroup
	reloading.Go(func() {
		for range next {
			s.Apply([]proxy.Options{writes, reads}[reloads%2])
			reloads++
		}
	})
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() {
			for first := 0; first < calls; first += 25 {
				next <- struct{}{} // so that some of the following calls come before the reload, and some after
				var open []pending
				for n := range 25 {
					open = append(open, c.begin("echo", fmt.Sprintf(`{"client":%d,"n":%d}`, i, (first+n)%5)))
				}
				for n, p := range open {
					if got, want := string(p.wait().Result), fmt.Sprintf(`"n":%d}`, (first+n)%5); !strings.Contains(got, want) {
						t.Errorf("got %s, want the answer to %s", got, want)
					}
				}
			}
		})
	}
	all.Wait()
	close(next)
	reloading.Wait()
	for _, now := range []struct {
		policy proxy.Options
		second string
	}{{reads, "hit"}, {writes, "fetched"}} {
		s.Apply(now.policy)
		clients[0].call("echo", `{}`)
		if how := disposition(t, clients[0].call("echo", `{}`)); how != now.second {
			t.Errorf("the second of two equal calls, when the reloads are over: got %s, want %s", how, now.second)
		}
	}
	totals := s.Report().Totals
	if want := int64(len(clients)*(calls+1) + 4); totals.Calls != want || totals.Hit+totals.Joined+totals.Fetched != want || totals.Errors != 0 {
		t.Errorf("got totals %+v, want %d calls, each answered once", totals, want)
	}
	if want := len(clients) * calls / 25; reloads != want {
		t.Errorf("got %d reloads, want %d", reloads, want)
	}
}

// tool returns the name in a tools/call, or "" for other messages.
func tool(m jsonrpc.Message) string {
	if m.Method != "tools/call" {
		return ""
	}
	return jsonrpc.Text(m.Params, "name")
}

// slowWriter is a server with a tool w, which writes when the test releases it, and a tool r,
// which reads.
type slowWriter struct {
	sent, release chan struct{}
	version       atomic.Int64
}

func newSlowWriter() *slowWriter {
	return &slowWriter{sent: make(chan struct{}), release: make(chan struct{})}
}

func (s *slowWriter) answer(ctx context.Context, m jsonrpc.Message) []byte {
	switch tool(m) {
	case "w":
		close(s.sent)
		heldUntil(ctx, s.release)
		s.version.Add(1)
		return []byte(`{"content":[]}`)
	case "r":
		return fmt.Appendf(nil, `{"content":[{"type":"text","text":"v%d"}]}`, s.version.Load())
	}
	return nil
}

// checkWrite checks that the open call w counts as a write until its end and at its end.
func (s *slowWriter) checkWrite(t *testing.T, c *caller, w pending) {
	t.Helper()
	c.call("r", `{}`)
	if how := disposition(t, c.call("r", `{}`)); how != "fetched" {
		t.Errorf("while it writes: got %s, want fetched, or answers may be stale", how)
	}
	close(s.release)
	w.wait()
	if got := c.call("r", `{}`); !strings.Contains(got, "v1") {
		t.Errorf("after it: got %s, a stale answer", got)
	}
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

// The policy is reloaded between the routing of a call and its registration with the store. The
// new policy classifies the call, as the reload has not seen its write.
func TestReloadWhileACallArrives(t *testing.T) {
	server := newSlowWriter()
	_, one := remote(t, mcptest.Options{Name: "one", Answer: server.answer})
	writing := stored(t, []valuemodel.Rule{reading("one/r", time.Hour), writesAll("one/w")}, one)
	o := stored(t, []valuemodel.Rule{reading("one/r", time.Hour), reading("one/w", 0)}, one)
	var s *proxy.Server
	o.Trace = func(_, _, tool string, _ time.Time) (parent, state string, end func(*record.Event)) {
		if tool == "w" { // routed, but not classified
			s.Apply(writing)
		}
		return "", "", nil
	}
	s = start(t, o)
	c := connect(t, s, handshake)
	w := c.begin("w", `{}`)
	await(t, server.sent)
	server.checkWrite(t, c, w)
}

// The span of a call ends, also if the call is refused because its handle is not known.
func TestSpanOfARefusedHandle(t *testing.T) {
	_, one := remote(t, mcptest.Options{Name: "one"})
	o := options(one)
	var began, ended atomic.Int64
	o.Trace = func(_, _, _ string, _ time.Time) (parent, state string, end func(*record.Event)) {
		began.Add(1)
		return "", "", func(*record.Event) { ended.Add(1) }
	}
	s := start(t, o)
	c := connect(t, s, stateless)
	c.refused("tools/call", `{"name":"echo","requestState":"?"}`)
	if began.Load() != 1 || ended.Load() != 1 {
		t.Errorf("%d spans began and %d ended, want 1", began.Load(), ended.Load())
	}
	if totals := s.Report().Totals; totals.Calls != 1 || totals.Failed != 1 {
		t.Errorf("recorded %+v, want one refused call", totals)
	}
}

// trustedProcess returns a trusted process with a tool r that reads, and options of a proxy in
// front of it.
func trustedProcess(t *testing.T, o mcptest.Options) (*mcptest.Server, proxy.Options) {
	server := mcptest.New(o)
	out := stored(t, []valuemodel.Rule{reading("one/r", time.Hour)}, child(t, mcptest.Options{Name: "one", Relay: relay(t, server)}))
	out.Upstreams[0].Model.Trust = true
	return server, out
}

// A write is classified before its server has given its name in the handshake.
func TestNameThatComesLate(t *testing.T) {
	server, greet := newSlowWriter(), make(chan struct{})
	_, o := trustedProcess(t, mcptest.Options{Name: "github-mcp-server", Answer: func(ctx context.Context, m jsonrpc.Message) []byte {
		if m.Method == "initialize" || m.Method == "server/discover" {
			heldUntil(ctx, greet)
		}
		return server.answer(ctx, m)
	}})
	o.StartupWait = time.Millisecond
	c := connect(t, start(t, o), handshake)
	w := c.begin("w", `{}`)
	c.request("ping", "") // the write has been classified
	close(greet)
	await(t, server.sent)
	server.checkWrite(t, c, w)
}

// A tool that is not listed any more is classified by its last annotations. If it is then listed
// as a write, its open calls count as writes.
func TestListedAgain(t *testing.T) {
	t.Parallel()
	server := newSlowWriter()
	var hints atomic.Value // annotations of w; "" if it is not listed
	hints.Store(`{"readOnlyHint":true}`)
	srv, o := trustedProcess(t, mcptest.Options{Name: "x", Answer: func(ctx context.Context, m jsonrpc.Message) []byte {
		switch hint := hints.Load().(string); {
		case m.Method == "tools/list" && hint == "":
			return []byte(`{"tools":[{"name":"r","inputSchema":{"type":"object"}}]}`)
		case m.Method == "tools/list":
			return []byte(`{"tools":[{"name":"r","inputSchema":{"type":"object"}},{"name":"w","inputSchema":{"type":"object"},"annotations":` + hint + `}]}`)
		case tool(m) == "w" && !strings.Contains(string(m.Params), "hold"):
			return []byte(`{"content":[]}`)
		}
		return server.answer(ctx, m)
	}})
	s := start(t, o)
	c := connect(t, s, handshake)
	c.call("w", `{}`)
	list := func(hint string) {
		t.Helper()
		hints.Store(hint)
		srv.Announce("notifications/tools/list_changed", "{}")
		mcptest.Eventually(t, "in the list as it is now", func() bool { return strings.Contains(c.tools(), "w") == (hint != "") })
	}
	list("")
	o.Models = modelled(t, reading("one/r", time.Hour), reading("one/q", time.Hour))
	s.Apply(o)
	w := c.begin("w", `{"hold":1}`)
	await(t, server.sent)
	list(`{"readOnlyHint":false}`)
	c.call("w", `{}`) // now a write
	server.checkWrite(t, c, w)
}

// A reload that connects to a server again is no change of its lists if they are the same.
func TestReloadWithTheSameLists(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFoe(nil)
		f.first = func(http.ResponseWriter, jsonrpc.Message) bool {
			time.Sleep(100 * time.Millisecond)
			return false
		}
		o := withoutPrefetch(defaults(t))
		d := beset(t, f, o)
		g := d.enter()
		time.Sleep(time.Minute)
		o.Upstreams = slices.Clone(o.Upstreams)
		o.Upstreams[0].Fingerprint += "2"
		d.proxy.Apply(o)
		time.Sleep(time.Minute)
		if got := g.notices("notifications/tools/list_changed"); len(got) > 0 {
			t.Errorf("got %d notifications", len(got))
		}
	})
}

// A reload that changes an upstream lets its running calls finish within drain_timeout. Later calls go to
// the new connection at once, and no answer is served from the cache while a write runs on the old one.
func TestReloadLetsCallsFinish(t *testing.T) {
	for _, tt := range []struct {
		takes, took time.Duration
		how, why    string
	}{
		{3 * time.Second, 3 * time.Second, "fetched", `"text":"write `},
		{time.Hour, 5 * time.Second, "failed", "outcome unknown: the call may have run; server"},
	} {
		bubble.Test(t, func(t *testing.T) {
			f := newFoe(delaying(func(v *visit) bool { return v.tool == "write" }, tt.takes))
			o := withoutPrefetch(defaults(t, reading("foe/get", time.Hour)))
			d := beset(t, f, o)
			g := d.enter()
			w := g.begin("write", `{}`)
			synctest.Wait()
			o.Upstreams = slices.Clone(o.Upstreams)
			o.Upstreams[0].Fingerprint += "2"
			began := time.Now()
			d.proxy.Apply(o)
			for range 2 {
				if a := g.call("get", `{}`); a.how() != "fetched" || time.Since(began) > 0 {
					t.Errorf("a call after the reload: %s after %v, want fetched at once", a.how(), time.Since(began))
				}
			}
			if a := w.wait(); a.how() != tt.how || a.took != tt.took || !strings.Contains(string(a.Result), tt.why) {
				t.Errorf("the running call: %s after %v: %s", a.how(), a.took, a.Result)
			}
			visits := f.ledger()
			if visits[0].session == visits[1].session {
				t.Error("the call after the reload went to the old connection")
			}
		})
	}
}

// A write that runs on the old server counts while another server under the same name has answers, although
// the two servers' own names say that they have no domain in common.
func TestReloadToAnotherServer(t *testing.T) {
	server := newSlowWriter()
	_, o := trustedProcess(t, mcptest.Options{Name: "github-mcp-server", Answer: server.answer})
	_, next := trustedProcess(t, mcptest.Options{Name: "x", Answer: server.answer})
	s := start(t, next)
	c := connect(t, s, handshake)
	c.call("r", `{}`) // from now on the name of that server is known
	s.Apply(o)
	c.call("r", `{}`)
	w := c.begin("w", `{}`)
	await(t, server.sent)
	s.Apply(next)
	server.checkWrite(t, c, w)
}

// reported returns options with a server that reads local files, for a client that reports its
// edits.
func reported(t *testing.T, exclusive *atomic.Bool) proxy.Options {
	t.Helper()
	o := prefetching(t, mcptest.Options{Name: "one"})
	o.Upstreams[0].Exclusive = false
	o.Dedup.Settle = time.Hour
	o.LocalExclusive, o.Common = func(string, string) bool { return exclusive.Load() }, proxy.NewCommon(o)
	return o
}

// Files of this machine are prefetched only while they are exclusive. After an edit by the client,
// no earlier answer is served.
func TestReportedChanges(t *testing.T) {
	var exclusive atomic.Bool
	o := reported(t, &exclusive)
	s := start(t, o)
	c := connect(t, s, handshake)
	served := func(n, want, when string) {
		t.Helper()
		if how := disposition(t, c.call("echo", `{"n":`+n+`}`)); how != want {
			t.Errorf("%s: got %s, want %s", when, how, want)
		}
	}
	c.call("list", `{}`)
	proxy.Decided(s) // before it is exclusive
	exclusive.Store(true)
	c.call("list", `{}`)
	until(t, s, "two prefetches", settled(2))
	served("11", "hit", "an exclusive folder")
	edit := o.Common.BeginLocalWrite()
	served("12", "fetched", "during an edit")
	edit.End()
	served("12", "fetched", "after an edit")
	c.call("list", `{}`)
	proxy.Decided(s)
	c.hangUp()
	until(t, s, "two candidates declined before, and some just after an edit", func(st proxy.Stats) bool {
		return st.Prefetch.Issued == 2 && st.Prefetch.Declined["unsteady"] == 2 && st.Prefetch.Declined["settling"] > 0
	})
}

// When a user sends a prompt, prefetches for that client are discarded, and those for others are
// not.
func TestReportedPrompt(t *testing.T) {
	o := prefetching(t, mcptest.Options{Name: "one"})
	s := start(t, o)
	var clients []*caller
	var prompts []func(string)
	for range 2 {
		begun := make(chan func(string), 1)
		c := attachBy(t, handshake, func(in io.Reader, out io.Writer) error {
			return s.ServeConnected(context.Background(), in, out, proxy.Connected{Begun: func(prompted func(string)) { begun <- prompted }})
		})
		c.introduce()
		c.call("list", `{}`)
		clients, prompts = append(clients, c), append(prompts, <-begun)
	}
	until(t, s, "two prefetches of each", settled(4))
	prompts[0]("something else")
	for i, want := range []string{"fetched", "hit"} {
		if how := disposition(t, clients[i].call("echo", `{"n":11}`)); how != want {
			t.Errorf("client %d: got %s, want %s", i, how, want)
		}
	}
}

// A server lists more tools than there is memory for their claims. A read according to its provider's
// table is a write, as the server says, and its call is sent.
func TestMoreClaimsThanAreKept(t *testing.T) {
	t.Parallel()
	var all []string
	for i := range 8192 {
		all = append(all, fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, i))
	}
	all = append(all, `{"name":"get_me","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false}}`)
	_, up := remote(t, mcptest.Options{Name: "github-mcp-server", Tools: all, Results: map[string]string{"t0": said("done"), "get_me": said("me")}})
	o := stored(t, nil, up)
	o.Upstreams[0].Model.Trust, o.Enrichment = true, defaults(t).Enrichment
	s := start(t, o)
	c := connect(t, s, handshake)
	c.call("t0", `{}`)
	proxy.Decided(s) // it has looked for tools that may be prefetched
	c.call("get_me", `{}`)
}

// What is learned after a reload that changes an upstream's rules is shared with the replicas that have
// the new rules.
func TestReloadChangesTheKeyOfLearnedState(t *testing.T) {
	o := stored(t, nil, child(t, mcptest.Options{Name: "one"}))
	o.Enrichment, o.Upstreams[0].LearnedKey = defaults(t).Enrichment, "old"
	o.Common = proxy.NewCommon(o)
	keys := make(chan string, 100)
	o.Common.ConnectReplicas(proxy.Replicas{Learned: func(key func() string, _ speculate.Storage) speculate.Storage {
		return func(merge func(speculate.State) (speculate.State, error)) error {
			keys <- key()
			_, err := merge(speculate.State{})
			return err
		}
	}})
	s := start(t, o)
	t.Cleanup(o.Common.Close)
	c := connect(t, s, handshake)
	for _, want := range []string{"old", "new"} {
		o.Upstreams[0].LearnedKey = want
		s.Apply(o)
		c.call("echo", `{}`)
		proxy.Decided(s)
		got := ""
		for len(keys) > 0 {
			got = <-keys
		}
		if got != want {
			t.Errorf("stored under %q, want %q", got, want)
		}
	}
}
