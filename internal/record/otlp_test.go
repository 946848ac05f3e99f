//go:build !lean

package record_test

import (
	"context"
	"encoding/hex"
	"errors"
	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	collectmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collecttraces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/record"
)

// tracedCall is the result of tracing one call.
type tracedCall struct {
	parent, state string
	end           func(*record.Event)
}

func traced(o *record.OTLP, traceparent, tracestate, tool string, at time.Time) (c tracedCall) {
	c.parent, c.state, c.end = o.Trace()(traceparent, tracestate, tool, at)
	return c
}

// anyCall returns the event of some call.
func anyCall() *record.Event { return &record.Event{Kind: record.Call, At: time.Now(), Upstream: "u"} }

// setEnv sets the variables key, value, … for the test.
func setEnv(t *testing.T, pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		t.Setenv(pairs[i], pairs[i+1])
	}
}

func TestStartNothingAsked(t *testing.T) {
	const endpoint, at = "OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318"
	for _, env := range [][]string{{}, {endpoint, at, "OTEL_SDK_DISABLED", "TRUE"}, {endpoint, at, "OTEL_TRACES_EXPORTER", "none", "OTEL_METRICS_EXPORTER", "none"}, {"OTEL_TRACES_EXPORTER", "otlp"}} {
		t.Run(strings.Join(env, " "), func(t *testing.T) {
			var log logLines
			setEnv(t, env...)
			got, err := record.StartOTLP(t.Context(), "", nil, log.logger())
			if got != nil || err != nil || log.len() != 0 || record.ExportRequested() {
				t.Fatalf("got %v, %v, %q; want nothing", got, err, log.all())
			}
		})
	}
}

// What the SDK would ignore, or send to another place, is logged once for each signal. Of an endpoint only the
// name is logged, as it may hold a password.
func TestStartMistakes(t *testing.T) {
	const endpoint, protocol, url = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL", "http://127.0.0.1:1"
	for _, c := range []struct {
		env     []string
		want    []string
		exports bool
	}{
		{[]string{endpoint, "127.0.0.1:4318"}, []string{
			endpoint + ": want a URL such as http://127.0.0.1:4318; traces are not exported",
			endpoint + ": want a URL such as http://127.0.0.1:4318; metrics are not exported"}, false},
		{[]string{endpoint, "localhost:4318", "OTEL_TRACES_EXPORTER", "none"}, []string{
			endpoint + ": want a URL such as http://127.0.0.1:4318; metrics are not exported"}, false},
		{[]string{endpoint, url, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http:///v1/traces"}, []string{
			"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: want a URL such as http://127.0.0.1:4318; traces are not exported"}, true},
		{[]string{endpoint, url, protocol, "http/json"}, []string{
			protocol + `: want http/protobuf for metrics, have \"http/json\"; http/protobuf is sent`}, true},
		{[]string{endpoint, url, protocol, "http/json", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/protobuf"}, nil, true},
		{[]string{endpoint, url, protocol, "grpc"}, []string{
			protocol + `: want http/protobuf or http/json for traces, have \"grpc\"; http/protobuf is sent`,
			protocol + `: want http/protobuf for metrics, have \"grpc\"; http/protobuf is sent`}, true},
	} {
		t.Run(strings.Join(c.env, " "), func(t *testing.T) {
			var log logLines
			setEnv(t, c.env...)
			got, err := record.StartOTLP(t.Context(), "", figuresOf, log.logger())
			if err != nil || (got != nil) != c.exports || log.len() != len(c.want) {
				t.Errorf("got %v, %v and %s; want %d lines", got, err, log.all(), len(c.want))
			}
			for _, line := range c.want {
				if !strings.Contains(log.all(), "level=WARN msg=\""+line+"\"\n") {
					t.Errorf("got %s, want %s", log.all(), line)
				}
			}
			got.Close(t.Context())
		})
	}
}

// logLines returns the lines of a log.
type logLines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logLines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logLines) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logLines) len() int { return strings.Count(l.all(), "\n") }

// failing is an exporter that always fails.
type failing struct{ text string }

func (f failing) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error {
	return errors.New(f.text)
}
func (failing) Shutdown(context.Context) error { return nil }

// hanging is an exporter that blocks until its context is done.
type hanging struct{ *tracetest.NoopExporter }

func (hanging) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	<-ctx.Done()
	return ctx.Err()
}

// A failing collector is logged once a minute.
func TestOneWarningAMinute(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log logLines
		tr := record.StartExport(t.Context(), "", log.logger(), failing{"503\n" + strings.Repeat("long page ", 1000)}, nil)
		for range 59 { // one export every 5 s
			traced(tr, "", "", "x", time.Now()).end(anyCall())
			time.Sleep(time.Second)
		}
		if log.len() != 1 || len(log.all()) > 700 {
			t.Errorf("got %d lines: %.900s, want one short one", log.len(), log.all())
		}
		time.Sleep(2 * time.Minute)
		traced(tr, "", "", "x", time.Now()).end(anyCall())
		time.Sleep(10 * time.Second)
		if log.len() != 2 {
			t.Errorf("got %d lines: %s, want a second line", log.len(), log.all())
		}
		tr.Close(t.Context())
	})
}

// A collector that hangs does not delay calls, and delays the shutdown by at most two seconds.
func TestHangingCollector(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log logLines
		tr := record.StartExport(t.Context(), "", log.logger(), hanging{}, nil)
		begin := time.Now()
		for range 10_000 { // more than fit into the queue
			traced(tr, "", "", "x", time.Now()).end(&record.Event{Kind: record.Call, At: time.Now()})
		}
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("calls waited %v for the collector, want no wait", waited)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel() // the context has ended, as after a signal
		tr.Close(cancelled)
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("got %v until the end, want 2s", took)
		}
		tr.Close(cancelled)
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("got %v until the second end, want no more", took)
		}
		time.Sleep(10 * time.Minute) // the SDK's own limits end pending exports
		if log.len() == 0 || log.len() > 11 {
			t.Errorf("got %s, want a warning a minute at most", log.all())
		}
	})
}

const (
	clientTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientSpan  = "00f067aa0ba902b7"
	clientSays  = "00-" + clientTrace + "-" + clientSpan + "-01"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// spansOf runs a function and returns the spans that it exported, in order.
func spansOf(t *testing.T, run func(tr *record.OTLP)) tracetest.SpanStubs {
	t.Helper()
	memory := new(kept)
	tr := record.StartExport(t.Context(), "1.2.3", slog.New(slog.DiscardHandler), memory, nil)
	run(tr)
	tr.Close(t.Context())
	return tracetest.SpanStubsFromReadOnlySpans(memory.spans)
}

// kept is an exporter that keeps spans in memory, also after its shutdown, unlike the SDK's own.
type kept struct {
	*tracetest.NoopExporter
	spans []sdktrace.ReadOnlySpan
}

func (k *kept) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	k.spans = append(k.spans, spans...)
	return nil
}

func values(s tracetest.SpanStub) map[string]any {
	all := make(map[string]any)
	for _, a := range s.Attributes {
		all[string(a.Key)] = a.Value.AsInterface()
	}
	return all
}

func TestCall(t *testing.T) {
	var up string
	e := record.Event{
		Kind: record.Call, At: noon, Session: "1f00c2", Seq: 7, Upstream: "github", Tool: "list_issues", Class: "read_only",
		Disposition: record.Joined, LatencyMS: 12.5, HiddenMS: 300, Prefetched: true, UseOf: 5, Bytes: 4000, Turn: 3,
		ArgsHash: "secret", Arguments: []byte("secret"), ResultHash: "secret", RawArguments: []byte("secret"),
	}
	spans := spansOf(t, func(tr *record.OTLP) {
		span := traced(tr, clientSays, "vendor=x", "github__list_issues", noon)
		up = span.parent
		if got, want := span.state, "vendor=x"; got != want {
			t.Errorf("tracestate: got %q, want %q", got, want)
		}
		span.end(&e)
	})
	if len(spans) != 1 {
		t.Fatalf("got %d spans, want 1", len(spans))
	}
	s := spans[0]
	if want := "00-" + clientTrace + "-" + s.SpanContext.SpanID().String() + "-01"; up != want {
		t.Errorf("the upstream got %q, want %q", up, want)
	}
	if s.Parent.SpanID().String() != clientSpan || !s.Parent.IsRemote() {
		t.Errorf("got parent %v, want the client's", s.Parent)
	}
	if s.Name != "tools/call github__list_issues" || s.SpanKind != trace.SpanKindServer || s.Status.Code != codes.Unset {
		t.Errorf("got %q, %v, %v", s.Name, s.SpanKind, s.Status)
	}
	if !s.StartTime.Equal(noon) || s.EndTime.Sub(noon) != 12500*time.Microsecond {
		t.Errorf("got %v to %v, want 12.5 ms from %v", s.StartTime, s.EndTime, noon)
	}
	want := map[string]any{
		"mcp.method.name": "tools/call", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "github__list_issues", "mcp.session.id": "1f00c2",
		"mcpschedd.seq": int64(7), "mcpschedd.upstream": "github", "mcpschedd.tool": "github/list_issues", "mcpschedd.class": "read_only",
		"mcpschedd.disposition": "joined", "mcpschedd.hidden_ms": 300.0, "mcpschedd.prefetched": true, "mcpschedd.use_of": int64(5),
		"mcpschedd.bytes": int64(4000), "mcpschedd.turn": int64(3),
	}
	if d := cmp.Diff(want, values(s)); d != "" { // includes no secret
		t.Error(d)
	}
}

func TestCallStatus(t *testing.T) {
	for _, c := range []struct {
		name  string
		event record.Event
		code  codes.Code
		kind  any // error.type
		span  string
	}{
		{"fine", record.Event{Upstream: "a", Disposition: record.Fetched}, codes.Unset, nil, "tools/call x"},
		{"the tool's error", record.Event{Upstream: "a", Disposition: record.Fetched, IsError: true}, codes.Error, "tool_error", "tools/call x"},
		{"timeout", record.Event{Upstream: "a", Disposition: record.Failed, Error: "timeout"}, codes.Error, "timeout", "tools/call x"},
		{"withdrawn", record.Event{Upstream: "a", Disposition: record.Failed, Error: "cancelled"}, codes.Unset, nil, "tools/call x"},
		{"for no known reason", record.Event{Upstream: "a", Disposition: record.Failed}, codes.Error, "_OTHER", "tools/call x"},
		{"no such tool", record.Event{Disposition: record.Failed, Error: "refused"}, codes.Error, "refused", "tools/call"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.event.Kind, c.event.At = record.Call, noon
			spans := spansOf(t, func(tr *record.OTLP) { traced(tr, "", "", "x", noon).end(&c.event) })
			if len(spans) != 1 {
				t.Fatalf("got %d spans, want 1", len(spans))
			}
			if s := spans[0]; s.Status.Code != c.code || values(s)["error.type"] != c.kind || s.Name != c.span {
				t.Errorf("got %v, %v, %q; want %v, %v, %q", s.Status, values(s)["error.type"], s.Name, c.code, c.kind, c.span)
			}
		})
	}
}

// The spans of a plan's steps are children of the plan's span.
func TestPlan(t *testing.T) {
	spans := spansOf(t, func(tr *record.OTLP) {
		plan := traced(tr, clientSays, "", "execute_tool_plan", noon)
		step := traced(tr, plan.parent, plan.state, "github/get_issue", noon)
		step.end(&record.Event{Kind: record.Call, At: noon, Session: "s", Seq: 1, Upstream: "github", Tool: "get_issue", Plan: 1, Step: "a"})
		plan.end(&record.Event{Kind: record.Plan, At: noon, Session: "s", Plan: 1, Steps: 1, Depth: 1, LatencyMS: 5})
	})
	if len(spans) != 2 || spans[0].Parent.SpanID() != spans[1].SpanContext.SpanID() || spans[1].Parent.SpanID().String() != clientSpan {
		t.Fatalf("got %v, want client > plan > step", spans)
	}
	if v := values(spans[1]); spans[1].Name != "tools/call execute_tool_plan" || v["mcpschedd.steps"] != int64(1) || v["mcpschedd.depth"] != int64(1) {
		t.Errorf("got %q %v", spans[1].Name, v)
	}
}

func callSpan(tr *record.OTLP, session string, seq int64) {
	traced(tr, "", "", "x", noon).end(&record.Event{Kind: record.Call, At: noon, Session: session, Seq: seq, Upstream: "u", Tool: "x", Disposition: record.Fetched})
}

// spanOf returns the span of a call or prefetch.
func spanOf(t *testing.T, spans tracetest.SpanStubs, session string, seq int64) tracetest.SpanStub {
	t.Helper()
	for _, s := range spans {
		if v := values(s); v["mcp.session.id"] == session && v["mcpschedd.seq"] == seq {
			return s
		}
	}
	t.Fatalf("no span for %s %d in %v", session, seq, spans)
	return tracetest.SpanStub{}
}

// A prefetch's span is a child of the call that triggered it, and links to the call that used it.
func TestPrefetch(t *testing.T) {
	prefetch := record.Event{
		Kind: record.Prefetch, At: noon.Add(time.Second), Session: "s", Seq: 2, Upstream: "u", Tool: "y", LatencyMS: 40,
		Fate: record.Used, UsedBy: 3, After: 1, PredictedP: 0.8, Edge: "x -> y", Sent: 1,
	}
	elsewhere := prefetch
	elsewhere.BySession = "other"
	for _, c := range []struct {
		name  string
		event record.Event
		run   func(tr *record.OTLP, e *record.Event)
		user  string // session of the call that used it
	}{
		{"the call first", prefetch, func(tr *record.OTLP, e *record.Event) { callSpan(tr, "s", 1); callSpan(tr, "s", 3); tr.Prefetch(e) }, "s"},
		{"of another session", elsewhere, func(tr *record.OTLP, e *record.Event) {
			callSpan(tr, "s", 1)
			callSpan(tr, "s", 3)
			callSpan(tr, "other", 3)
			tr.Prefetch(e)
		}, "other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spans := spansOf(t, func(tr *record.OTLP) { c.run(tr, &c.event) })
			p, after, by := spanOf(t, spans, "s", 2), spanOf(t, spans, "s", 1), spanOf(t, spans, c.user, 3)
			if p.Parent.SpanID() != after.SpanContext.SpanID() || p.SpanContext.TraceID() != after.SpanContext.TraceID() {
				t.Errorf("got parent %v, want %v", p.Parent, after.SpanContext)
			}
			if len(p.Links) != 1 || !p.Links[0].SpanContext.Equal(by.SpanContext) {
				t.Errorf("got links %v, want %v", p.Links, by.SpanContext)
			}
			if p.Name != "tools/call y" || p.SpanKind != trace.SpanKindClient || !p.StartTime.Equal(c.event.At) || p.EndTime.Sub(p.StartTime) != 40*time.Millisecond {
				t.Errorf("got %q %v from %v to %v", p.Name, p.SpanKind, p.StartTime, p.EndTime)
			}
			if v := values(p); v["mcpschedd.prefetch"] != true || v["mcpschedd.fate"] != "used" || v["mcpschedd.predicted_p"] != 0.8 {
				t.Errorf("got %v", v)
			}
		})
	}
}

// A prefetch is exported without a link if its call has not ended.
func TestPrefetchWaitsInVain(t *testing.T) {
	spans := spansOf(t, func(tr *record.OTLP) {
		callSpan(tr, "s", 1)
		tr.Prefetch(&record.Event{Kind: record.Prefetch, At: noon, Session: "s", Seq: 2, After: 1, Fate: record.Used, UsedBy: 3})
		tr.Prefetch(&record.Event{Kind: record.Prefetch, At: noon, Session: "s", Seq: 4, Fate: record.Wasted, Cause: "error"})
	})
	if p := spanOf(t, spans, "s", 2); len(p.Links) != 0 || p.Parent.SpanID() != spanOf(t, spans, "s", 1).SpanContext.SpanID() {
		t.Errorf("got links %v, parent %v", p.Links, p.Parent)
	}
	if p := spanOf(t, spans, "s", 4); p.Status.Code != codes.Error || p.Parent.IsValid() {
		t.Errorf("got %v under %v, want an error under nothing", p.Status, p.Parent)
	}
}

// collector is an OTLP receiver over HTTP.
type collector struct {
	mu       sync.Mutex
	requests int
	header   http.Header // of the last request
	resource map[string]string
	spans    map[string]*traces.Span // name → its last span
	metrics  map[string]*metrics.Metric
	bad      []string // requests that could not be parsed
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	c.header = r.Header
	body, err := io.ReadAll(r.Body)
	if err == nil && r.Header.Get("Content-Type") != "application/x-protobuf" {
		c.bad = append(c.bad, r.Header.Get("Content-Type"))
	}
	switch {
	case err != nil:
	case r.URL.Path == "/v1/traces":
		var req collecttraces.ExportTraceServiceRequest
		err = proto.Unmarshal(body, &req)
		for _, of := range req.ResourceSpans {
			c.resource = texts(of.Resource.Attributes)
			for _, scope := range of.ScopeSpans {
				for _, s := range scope.Spans {
					c.spans[s.Name] = s
				}
			}
		}
	case r.URL.Path == "/v1/metrics":
		var req collectmetrics.ExportMetricsServiceRequest
		err = proto.Unmarshal(body, &req)
		for _, of := range req.ResourceMetrics {
			for _, scope := range of.ScopeMetrics {
				for _, m := range scope.Metrics {
					c.metrics[m.Name] = m
				}
			}
		}
	default:
		c.bad = append(c.bad, r.URL.Path)
	}
	if err != nil {
		c.bad = append(c.bad, err.Error())
	}
}

func texts(attributes []*common.KeyValue) map[string]string {
	all := make(map[string]string)
	for _, a := range attributes {
		all[a.Key] = a.Value.GetStringValue()
	}
	return all
}

// collect starts an export to a real collector. The SDK reads the process's environment, so such
// tests cannot run in parallel.
func collect(t *testing.T, env ...string) (*record.OTLP, *collector) {
	t.Helper()
	c := &collector{spans: map[string]*traces.Span{}, metrics: map[string]*metrics.Metric{}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	setEnv(t, env...)
	tr, err := record.StartOTLP(t.Context(), "1.2.3", figuresOf, slog.New(slog.DiscardHandler))
	if err != nil || tr == nil {
		t.Fatalf("got %v, %v", tr, err)
	}
	tr.WaitFor(time.Minute) // long enough for any machine
	return tr, c
}

func figuresOf() record.Stats {
	part := record.Figures{Calls: 10, Hit: 4, Joined: 3, Fetched: 2, Failed: 1, HiddenMS: 1500, HiddenByPrefetch: 1000, WaitedMS: 250}
	part.Prefetch = record.PrefetchFigures{Issued: 6, Used: 3, Late: 1, Compared: 1, Wasted: map[string]int64{"expired": 2}}
	return record.Stats{
		Sessions: 2, Open: 1, Totals: record.Totals{Figures: part},
		Tools: map[string]record.Figures{"github/list_issues": part},
		Hosts: map[string]record.Host{"api.github.com": {Level: 3}},
	}
}

// A real collector receives spans with the ids that were returned, and the figures.
func TestCollector(t *testing.T) {
	tr, c := collect(t, "OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test", "OTEL_EXPORTER_OTLP_HEADERS", "x-key=k")
	span := traced(tr, clientSays, "", "github__list_issues", noon)
	up := span.parent
	span.end(&record.Event{Kind: record.Call, At: noon, Session: "s", Seq: 1, Upstream: "github", Tool: "list_issues", Disposition: record.Hit, LatencyMS: 2})
	tr.Prefetch(&record.Event{Kind: record.Prefetch, At: noon, Session: "s", Seq: 2, After: 1, Upstream: "github", Tool: "get_issue", Fate: record.Wasted, Cause: "expired", LatencyMS: 40})
	tr.Close(t.Context())

	if len(c.bad) != 0 || c.requests != 2 || c.header.Get("X-Key") != "k" {
		t.Fatalf("got %d requests, bad %q, headers %v", c.requests, c.bad, c.header)
	}
	if r := c.resource; r["service.name"] != "mcpschedd" || r["service.version"] != "1.2.3" || r["service.instance.id"] == "" || r["deployment.environment.name"] != "test" {
		t.Errorf("got resource %v", r)
	}
	server, client := c.spans["tools/call github__list_issues"], c.spans["tools/call get_issue"]
	if server == nil || client == nil {
		t.Fatalf("got spans %v, want two", c.spans)
	}
	if hex.EncodeToString(server.TraceId) != clientTrace || hex.EncodeToString(server.ParentSpanId) != clientSpan ||
		up != "00-"+clientTrace+"-"+hex.EncodeToString(server.SpanId)+"-01" {
		t.Errorf("got %v, the upstream got %s; want the client's trace and parent", server, up)
	}
	if hex.EncodeToString(client.TraceId) != clientTrace || string(client.ParentSpanId) != string(server.SpanId) {
		t.Errorf("got %v, want it as a child of the call that it follows", client)
	}
	if server.EndTimeUnixNano-server.StartTimeUnixNano != 2e6 || server.StartTimeUnixNano != uint64(noon.UnixNano()) {
		t.Errorf("got %d to %d", server.StartTimeUnixNano, server.EndTimeUnixNano)
	}
	received(t, c, "mcpschedd_served_stored_total", "tool=list_issues,upstream=github", 4)
	received(t, c, "mcpschedd_prefetch_wasted_total", "cause=expired,tool=list_issues,upstream=github", 2)
	received(t, c, "mcpschedd_host_level", "host=api.github.com", 3)
}

// received compares a value with that of the collector.
func received(t *testing.T, c *collector, name, of string, want float64) {
	t.Helper()
	m := c.metrics[name]
	points := m.GetSum().GetDataPoints()
	if m.GetGauge() != nil {
		points = m.GetGauge().DataPoints
	} else if !m.GetSum().GetIsMonotonic() {
		t.Errorf("%s is not a counter: %v", name, m)
	}
	var all []string
	for _, p := range points {
		var labels []string
		for _, a := range p.Attributes { // the SDK sorts them
			labels = append(labels, a.Key+"="+a.Value.GetStringValue())
		}
		if got := strings.Join(labels, ","); got == of {
			if p.GetAsDouble() != want {
				t.Errorf("%s{%s}: got %v, want %v", name, of, p.GetAsDouble(), want)
			}
			return
		} else {
			all = append(all, got)
		}
	}
	t.Errorf("%s: no %s among %q", name, of, all)
}

// Traces can be switched off without metrics. Then the client's own trace context is passed on.
func TestMetricsAlone(t *testing.T) {
	tr, c := collect(t, "OTEL_TRACES_EXPORTER", "none")
	if tr.Trace() != nil {
		t.Error("spans are exported")
	}
	tr.Prefetch(&record.Event{Kind: record.Prefetch, At: noon})
	tr.Close(t.Context())
	if len(c.spans) != 0 || c.metrics["mcpschedd_calls_total"] == nil {
		t.Errorf("got %v, %v; want only metrics", c.spans, c.metrics)
	}
}

// A collector that is unreachable or refuses causes a single warning.
func TestCollectorRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		server func() string
	}{
		{"404, as a page", func() string { return refusing(t, http.StatusNotFound) }},
		{"down", func() string { s := httptest.NewServer(nil); s.Close(); return s.URL }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log logLines
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.server())
			tr, err := record.StartOTLP(t.Context(), "", figuresOf, log.logger())
			if err != nil {
				t.Fatal(err)
			}
			for range 3_000 {
				traced(tr, "", "", "x", noon).end(&record.Event{Kind: record.Call, At: noon})
			}
			tr.Close(t.Context())
			if log.len() != 1 || !strings.Contains(log.all(), "not exported over OTLP") {
				t.Errorf("got %s, want one warning", log.all())
			}
		})
	}
}

// refusing is a collector that answers with a status and a long page.
func refusing(t *testing.T, status int) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, strings.Repeat("<p>no</p>\n", 10_000))
	}))
	t.Cleanup(s.Close)
	return s.URL
}
