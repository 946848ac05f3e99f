package proxy_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/call"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/record"
)

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

// Every request that a call makes upstream carries the call's span, including those that bring the
// client's replies.
func TestTraceGoesOnWithAnswers(t *testing.T) {
	server, up := remote(t, mcptest.Options{Name: "asks", Era: "stateless"})
	var r tracer
	o := options(up)
	o.Trace = r.begin
	c := connect(t, start(t, o), handshake)
	c.converse(`{"asks":[`+elicits+`],"rounds":2}`, tagged("me"))
	got := traceContexts(t, server)
	if len(got) != 3 || got[0] != traceparent(1) || got[1] != got[0] || got[2] != got[0] {
		t.Errorf("got %q, want three requests of the first span", got)
	}
}

// A prefetch belongs to the trace of the call whose answer caused it or, without a tracer, to the
// client's trace.
func TestTraceGoesOnWithPrefetches(t *testing.T) {
	const client = "00-cccccccccccccccccccccccccccccccc-dddddddddddddddd-01"
	for name, want := range map[string]string{"a tracer": traceparent(1), "none": client} {
		t.Run(name, func(t *testing.T) {
			mo := mcptest.Options{Name: "one", Results: map[string]string{"list": items}}
			for _, tool := range []string{"list", "echo"} {
				mo.Tools = append(mo.Tools, `{"name":"`+tool+`","inputSchema":{"type":"object"}}`)
			}
			server, up := remote(t, mo)
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

// The calls of a plan belong to the client's trace, and each has its own span.
func TestTraceGoesOnWithAPlan(t *testing.T) {
	server, up := remote(t, mcptest.Options{Name: "one"})
	var r tracer
	o := options(up)
	o.Trace, o.Plans.Enabled, o.Plans.Mutations = r.begin, true, "allow"
	c := connect(t, start(t, o), handshake)
	const client = "00-cccccccccccccccccccccccccccccccc-dddddddddddddddd-01"
	params := toolCall("execute_tool_plan", `{"steps":[{"id":"a","tool":"echo"},{"id":"b","tool":"echo","depends_on":["a"]}]}`)
	c.request("tools/call", string(jsonrpc.Set([]byte(params), "_meta", []byte(`{"traceparent":"`+client+`"}`))))
	if got := traceContexts(t, server); len(got) != 2 || got[0] != traceparent(1) || got[1] != traceparent(2) {
		t.Errorf("got %q, want a span for each step", got)
	}
	for _, s := range r.spans {
		if s.parent != client {
			t.Errorf("a step is told as part of %q, want %q", s.parent, client)
		}
	}
}

// A tracer is called once for every call, and once for its end with the recorded event; not for
// prefetches nor for requests that the proxy answers itself.
func TestTraceIsToldOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var r tracer
		o := defaults(t, listing(t)...)
		o.Trace, o.Plans.Enabled = r.begin, true
		d := beset(t, newFoe(func(v *visit) reply {
			v.sleeps(takes(v, 300*time.Millisecond))
			if v.tool == "write" {
				return reply{cut: true}
			}
			return reply{result: v.told()}
		}), o)
		g := d.enter()
		g.meanders(1, nil)
		g.call("execute_tool_plan", `{"steps":[{"id":"a","tool":"list","arguments":{"page":1}}]}`)
		g.request("resources/read", `{"uri":"mcpschedd://stats"}`)
		s := g.begin("get", thing(9, 0))
		s.cancel()
		other := d.stranger("") // sends a call of an unknown tool
		if a := other.request("tools/call", withMeta(`{"name":"get","requestState":"none"}`, able, "")); a.Error == nil {
			t.Errorf("got %s, want it refused", a.Raw)
		}
		other.leave()
		last := g.begin("list", page(9))
		go last.wait()
		g.leave() // while that call is running
		d.guests = nil
		calls := d.told(record.Call)
		if len(calls) != len(r.spans) {
			t.Errorf("told of %d calls, %d were recorded", len(r.spans), len(calls))
		}
		recorded := make(map[call.Number]record.Event)
		hows := make(map[record.Disposition]int)
		for _, e := range calls {
			recorded[call.Number{Session: e.Session, Seq: e.Seq}] = e
			hows[e.Disposition]++
		}
		if hows[record.Hit] == 0 || hows[record.Joined] == 0 || hows[record.Fetched] == 0 || hows[record.Failed] == 0 {
			t.Errorf("got %v, which shows too little", hows)
		}
		for i, s := range r.spans {
			if len(s.ends) != 1 {
				t.Errorf("call %d, of %s, has ended %d times", i, s.tool, len(s.ends))
				continue
			}
			end := s.ends[0]
			of := call.Number{Session: end.Session, Seq: end.Seq}
			e := recorded[of]
			if e.Tool != s.tool || e.Disposition != end.Disposition || e.LatencyMS != end.LatencyMS {
				t.Errorf("told of %+v, recorded is %+v", end, e)
			}
			delete(recorded, of)
		}
	})
}
