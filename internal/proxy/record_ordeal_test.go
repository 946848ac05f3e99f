package proxy_test

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/record"
)

// account keeps the recorded events of an ordeal, and compares them with what happened.
type account struct {
	asked atomic.Int64 // tools/call requests from clients, without the proxy's own tools
	lost  atomic.Int64 // calls of clients that may have disconnected before the proxy read them

	mu    sync.Mutex
	all   []record.Event
	tally *record.Tally
}

// kept sends the proxy's events to the account, unless the test has set another function.
func (a *account) kept(o proxy.Options) proxy.Options {
	if o.Record.OnEvent != nil {
		return o
	}
	a.tally = record.NewTally()
	o.Record.OnEvent = func(e record.Event) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.all = append(a.all, e)
		a.tally.Add(&e)
	}
	return o
}

// note counts a client's request.
func (a *account) note(method, params string) {
	if method != "tools/call" {
		return
	}
	for _, own := range []string{"execute_tool_plan", "plan__", "mcpschedd_"} {
		if strings.Contains(params, `"name":"`+own) {
			return
		}
	}
	a.asked.Add(1)
}

// audit compares the whole record with the state of the store and the server after the proxy has closed.
func (d *ordeal) audit() {
	a := &d.account
	if a.tally == nil {
		return
	}
	type name struct {
		session string
		seq     int64
	}
	calls, prefetches := map[name]bool{}, map[name]bool{}
	var clients, sent int64
	var failed int64
	var cut int64 // cancelled requests, which may not have arrived
	for i := range a.all {
		e := &a.all[i]
		of := name{e.Session, e.Seq}
		if e.Upstream == "foe" || e.Upstream == "bar" { // a test may have other servers; see besideBar
			sent += int64(e.Sent)
		}
		switch e.Kind {
		case record.Call:
			if e.Disposition == record.Failed {
				cut += int64(e.Sent)
			}
			if calls[of] || prefetches[of] {
				d.t.Errorf("record: call %v has two events", of)
			}
			calls[of] = true
			if e.Plan == 0 {
				clients++
			}
			if d.t.Failed() {
				continue
			}
			switch e.Disposition {
			case record.Failed:
				failed++ // its flight may still be sent later, for other calls
			case record.Hit, record.Joined, record.Fetched:
			default:
				d.t.Errorf("record: call %v has the disposition %q", of, e.Disposition)
			}
			if e.HiddenMS < 0 || e.HiddenMS > 0 && e.Disposition != record.Hit && e.Disposition != record.Joined {
				d.t.Errorf("record: %+v has hidden time without a hit or join", *e)
			}
		case record.Prefetch:
			if e.Fate == record.Wasted {
				cut += int64(e.Sent)
			}
			if calls[of] || prefetches[of] {
				d.t.Errorf("record: prefetch %v has two events", of)
			}
			prefetches[of] = true
			if (e.Fate == record.Wasted) != (e.Cause != "") || e.Fate == "" || (e.UsedBy != 0) != (e.Fate != record.Wasted) {
				d.t.Errorf("record: prefetch %+v has a contradictory fate", *e)
			}
		}
	}
	asked, lost := a.asked.Load(), a.lost.Load()
	if clients > asked || clients < asked-lost {
		d.t.Errorf("record: %d calls, clients made %d, of which %d may not have arrived", clients, asked, lost)
	}
	st := d.proxy.Stats()
	if int64(len(prefetches)) != st.Prefetch.Issued {
		d.t.Errorf("record: %d prefetches, %d were issued", len(prefetches), st.Prefetch.Issued)
	}
	totals := a.tally.Stats(d.began).Totals
	if totals.Prefetch.Used != st.Prefetch.Used || totals.Prefetch.Late != st.Prefetch.Late {
		d.t.Errorf("record: %d prefetches used, %d late; the store counts %d and %d", totals.Prefetch.Used, totals.Prefetch.Late, st.Prefetch.Used, st.Prefetch.Late)
	}
	if totals.Calls != totals.Hit+totals.Joined+totals.Fetched+totals.Failed {
		d.t.Errorf("record: %+v: the dispositions do not make up the calls", totals.Figures)
	}
	d.foe.mu.Lock()
	visits := d.foe.came
	d.foe.mu.Unlock()
	upstreams := a.tally.Stats(d.began).Upstreams
	if added := upstreams["foe"].UpstreamCalls + upstreams["bar"].UpstreamCalls; sent != added || sent < visits-failed || sent > visits+cut {
		d.t.Errorf("record: %d requests were sent, %d counted per upstream, %d arrived, %d may have been cut off", sent, added, visits, cut)
	}
	if err := usesAgree(a.all); err != nil {
		d.t.Errorf("record: %v", err)
	}
}

// usesAgree returns the contradictions between the events of calls and of prefetches. The first
// use of a prefetch names the prefetch, which names the call, and every used prefetch has such a
// call.
func usesAgree(all []record.Event) error {
	type use struct {
		prefetchOf string
		prefetch   int64
		callOf     string
		call       int64
	}
	said := make(map[use]int) // 1: in the call's event, 2: in the prefetch's, 3: in both
	for i := range all {
		switch e := &all[i]; {
		case e.Kind == record.Call && e.UseOf > 0:
			if e.Disposition != record.Hit && e.Disposition != record.Joined {
				return fmt.Errorf("call %s/%d was %s, and says that it is the first use of a prefetch", e.Session, e.Seq, e.Disposition)
			}
			said[use{cmp.Or(e.UseOfSession, e.Session), e.UseOf, e.Session, e.Seq}] += 1
		case e.Kind == record.Prefetch && (e.Fate == record.Used || e.Fate == record.Late):
			said[use{e.Session, e.Seq, cmp.Or(e.BySession, e.Session), e.UsedBy}] += 2
		}
	}
	for u, by := range said {
		if by != 3 {
			return fmt.Errorf("the use of prefetch %s/%d by call %s/%d is said by %d of call (1) and prefetch (2)", u.prefetchOf, u.prefetch, u.callOf, u.call, by)
		}
	}
	return nil
}

// of returns the recorded events of a kind so far.
func (a *account) of(kind record.Kind) (all []record.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.all {
		if e.Kind == kind {
			all = append(all, e)
		}
	}
	return all
}

// told returns the events of a kind after all work is done.
func (d *ordeal) told(kind record.Kind) []record.Event {
	synctest.Wait()
	d.proxy.Report() // records everything outstanding
	return d.account.of(kind)
}

// A tools/call that is refused before any request to an upstream is recorded as one failed call.
func TestRefusedCallsAreRecorded(t *testing.T) {
	for _, test := range []struct{ name, line, tool string }{
		{"an id that is in use", `{"jsonrpc":"2.0","id":900,"method":"tools/call","params":{"name":"get","arguments":{}}}`, "get"},
		{"no name", `{"jsonrpc":"2.0","id":901,"method":"tools/call","params":{"arguments":{"page":1}}}`, ""},
		{"a name that is no string", `{"jsonrpc":"2.0","id":902,"method":"tools/call","params":{"name":5}}`, ""},
		{"two names", `{"jsonrpc":"2.0","id":903,"method":"tools/call","params":{"name":"get","Name":"list"}}`, "get"},
		{"a tool that nobody may call", `{"jsonrpc":"2.0","id":904,"method":"tools/call","params":{"name":"write"}}`, "write"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				o := defaults(t, listing(t)...)
				o.Upstreams[0].Allows = func(tool string) bool { return tool != "write" }
				d := beset(t, newFoe(taking(time.Second)), o)
				g := d.enter()
				d.account.asked.Add(2)
				g.send(`{"jsonrpc":"2.0","id":900,"method":"tools/call","params":{"name":"list","arguments":{"page":1}}}`)
				g.send(test.line)
				synctest.Wait()
				calls := d.told(record.Call)
				if len(calls) != 1 {
					t.Fatalf("got %d calls while the first is under way, want the other one: %+v", len(calls), calls)
				}
				if e := calls[0]; e.Disposition != record.Failed || e.Error != "refused" || e.Tool != test.tool || e.Sent != 0 {
					t.Errorf("got %+v, want %q failed with the error refused", e, test.tool)
				}
				time.Sleep(2 * time.Second)
				calls = d.told(record.Call)
				if len(calls) != 2 || calls[1].Tool != "list" || calls[1].Disposition != record.Fetched {
					t.Errorf("got %+v, want list fetched after it", calls)
				}
				if calls[0].Seq == calls[1].Seq {
					t.Error("both have the same number")
				}
			})
		})
	}
}

// tracer is a tracing backend: it starts a span for each call.
type tracer struct {
	mu    sync.Mutex
	spans []*traced
}

// traced is one call as the tracer received it.
type traced struct {
	parent, tool string
	ends         []record.Event
}

func (r *tracer) begin(parent, _, tool string, _ time.Time) (string, string, func(*record.Event)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &traced{parent: parent, tool: tool}
	r.spans = append(r.spans, s)
	return traceparent(len(r.spans)), "", func(e *record.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		s.ends = append(s.ends, *e)
	}
}

// traceparent returns that of the n-th span.
func traceparent(n int) string { return fmt.Sprintf("00-%032x-%016x-01", 1, n) }

// traceContexts returns the trace contexts of the calls that reached a server, in order.
func traceContexts(t *testing.T, server *mcptest.Server) (all []string) {
	t.Helper()
	for _, line := range server.Seen() {
		m, err := jsonrpc.Parse([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		if tool(m) != "" {
			parent, _ := jsonrpc.String(jsonrpc.Get(jsonrpc.Get(m.Params, "_meta"), "traceparent"))
			all = append(all, parent)
		}
	}
	return all
}

// A prefetch has the trace of the call that it follows or, without a tracer, the client's trace.
func TestTraceGoesOnWithPrefetches(t *testing.T) {
	const client = "00-cccccccccccccccccccccccccccccccc-dddddddddddddddd-01"
	for name, want := range map[string]string{"a tracer": traceparent(1), "none": client} {
		t.Run(name, func(t *testing.T) {
			server, up := remote(t, mcptest.Options{Name: "one", Tools: tools("list", "echo"), Results: map[string]string{"list": items}})
			o := prefetching(t, mcptest.Options{Name: "one"})
			o.Upstreams[0].Spec, o.Upstreams[0].Fingerprint = up.Spec, up.Fingerprint
			if want != client {
				o.Trace = new(tracer).begin
			}
			s := start(t, o)
			c := connect(t, s, handshake)
			c.request("tools/call", string(jsonrpc.Set([]byte(toolCall("list", "{}")), "_meta", []byte(`{"traceparent":"`+client+`"}`))))
			until(t, s, "two prefetches", settled(2))
			if got := traceContexts(t, server); len(got) != 3 || got[1] != want || got[2] != want {
				t.Errorf("got %q, want three requests of %s", got, want)
			}
		})
	}
}

// A server that cannot wait for its end writes what has happened until then, harm and levels too.
func TestSaveAllWritesTheLastEvents(t *testing.T) {
	o := options()
	o.Record.Dir = t.TempDir()
	s := start(t, o)
	proxy.RefuseByHost(s, "api.example")
	s.SaveAll()
	written := make(map[record.Kind]int)
	err := record.Read(t.Context(), []string{o.Record.Dir}, func(e *record.Event) { written[e.Kind]++ }, func(p record.Problem) { t.Error(p) })
	if err != nil || written[record.Harm] != 1 || written[record.Level] != 1 || written[record.End] != 1 {
		t.Errorf("got %v, %v, want the harm, the level that it cost, and the end", written, err)
	}
}
