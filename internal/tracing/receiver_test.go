package tracing_test

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collectmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collecttraces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"mcpschedd/internal/events"
	"mcpschedd/internal/telemetry"
	"mcpschedd/internal/tracing"
)

// collector is an OTLP receiver over HTTP.
type collector struct {
	mu       sync.Mutex
	requests int
	header   http.Header // of the last one
	resource map[string]string
	spans    map[string]*traces.Span // name → the last of that name
	metrics  map[string]*metrics.Metric
	bad      []string // requests that could not be read
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

// collect begins a Tracer with a real collector. The SDK reads the process's
// environment, so such tests cannot run beside each other.
func collect(t *testing.T, o tracing.Options, env ...string) (*tracing.Tracer, *collector) {
	t.Helper()
	c := &collector{spans: map[string]*traces.Span{}, metrics: map[string]*metrics.Metric{}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	for i := 0; i < len(env); i += 2 {
		t.Setenv(env[i], env[i+1])
	}
	tr, err := tracing.Start(t.Context(), o)
	if err != nil || tr == nil {
		t.Fatalf("got %v, %v", tr, err)
	}
	return tr, c
}

func figuresOf() telemetry.Stats {
	part := telemetry.Part{Calls: 10, ServedStored: 4, Joined: 3, Fetched: 2, Failed: 1, HiddenMS: 1500, HiddenByPrefetch: 1000, WaitedMS: 250}
	part.Prefetch = telemetry.PrefetchPart{Issued: 6, Used: 3, Late: 1, Compared: 1, Wasted: map[string]int64{"expired": 2}}
	return telemetry.Stats{
		Sessions: 2, Open: 1, Totals: telemetry.Totals{Part: part},
		Tools: map[string]telemetry.Part{"github/list_issues": part},
		Hosts: map[string]telemetry.Host{"api.github.com": {Level: 3}},
	}
}

// A real collector hears of spans with the ids that were given out, and of the figures.
func TestCollector(t *testing.T) {
	tr, c := collect(t, tracing.Options{Version: "1.2.3", Stats: figuresOf},
		"OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test", "OTEL_EXPORTER_OTLP_HEADERS", "x-key=k")
	span := tr.Call(clientSays, "", "github__list_issues", at)
	up := span.Traceparent()
	span.End(&events.Event{Kind: events.Call, At: at, Session: "s", Seq: 1, Upstream: "github", Tool: "list_issues", Disposition: events.Hit, LatencyMS: 2})
	tr.Prefetch(&events.Event{Kind: events.Prefetch, At: at, Session: "s", Seq: 2, After: 1, Upstream: "github", Tool: "get_issue", Fate: events.Wasted, Cause: "expired", LatencyMS: 40})
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
		t.Errorf("got %v, upstream was told %s; want the client's trace and parent", server, up)
	}
	if hex.EncodeToString(client.TraceId) != clientTrace || string(client.ParentSpanId) != string(server.SpanId) {
		t.Errorf("got %v, want it under the call that made it likely", client)
	}
	if server.EndTimeUnixNano-server.StartTimeUnixNano != 2e6 || server.StartTimeUnixNano != uint64(at.UnixNano()) {
		t.Errorf("got %d to %d", server.StartTimeUnixNano, server.EndTimeUnixNano)
	}
	heard(t, c, "mcpschedd.calls", "mcpschedd.disposition=hit,mcpschedd.tool=github/list_issues", 4)
	heard(t, c, "mcpschedd.calls", "mcpschedd.disposition=failed,mcpschedd.tool=github/list_issues", 1)
	heard(t, c, "mcpschedd.prefetches", "mcpschedd.fate=used,mcpschedd.tool=github/list_issues", 2)
	heard(t, c, "mcpschedd.prefetches", "mcpschedd.cause=expired,mcpschedd.fate=wasted,mcpschedd.tool=github/list_issues", 2)
	heard(t, c, "mcpschedd.hidden", "mcpschedd.by=prefetch,mcpschedd.tool=github/list_issues", 1)
	heard(t, c, "mcpschedd.hidden", "mcpschedd.by=repeat,mcpschedd.tool=github/list_issues", 0.5)
	heard(t, c, "mcpschedd.sessions.open", "", 1)
	heard(t, c, "mcpschedd.host.level", "mcpschedd.host=api.github.com", 3)
	if m := c.metrics["mcp.server.operation.duration"]; m == nil || m.Unit != "s" || len(m.GetHistogram().DataPoints) != 1 || m.GetHistogram().DataPoints[0].GetSum() != 0.002 {
		t.Errorf("got %v, want the one call of 2 ms", m)
	}
}

// heard compares one value that the collector has.
func heard(t *testing.T, c *collector, name, of string, want float64) {
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

// Names that are not UTF-8, or endless, would keep a whole batch from being encoded.
func TestOddNames(t *testing.T) {
	odd := "a\xff\xc3\x28\n\"" + strings.Repeat("é", 1_000)
	tr, c := collect(t, tracing.Options{Stats: func() telemetry.Stats {
		return telemetry.Stats{
			Tools: map[string]telemetry.Part{odd: {Calls: 1, Prefetch: telemetry.PrefetchPart{Wasted: map[string]int64{odd: 1}}}},
			Hosts: map[string]telemetry.Host{odd: {}}, Totals: telemetry.Totals{Declined: map[string]int64{odd: 1}},
		}
	}})
	e := events.Event{
		Kind: events.Call, At: at, Session: odd, Seq: 1, Upstream: odd, Tool: odd, Class: odd, Host: odd, Step: odd, Edge: odd,
		Error: odd, Cause: odd, Disposition: events.Failed,
	}
	tr.Call(odd, odd, odd, at).End(&e)
	tr.Call("", "", "fine", at).End(nil)
	e.Kind = events.Prefetch
	tr.Prefetch(&e)
	tr.Close(t.Context())
	if len(c.bad) != 0 || len(c.spans) != 3-1 || len(c.metrics) == 0 { // the odd ones have the same name
		t.Errorf("got bad %q, spans %v, %d metrics; want all of them", c.bad, c.spans, len(c.metrics))
	}
	for name := range c.spans {
		if len(name) > 300 {
			t.Errorf("got a name of %d bytes", len(name))
		}
	}
}

// The variables do what they say.
func TestVariables(t *testing.T) {
	t.Run("sampler", func(t *testing.T) {
		tr, c := collect(t, tracing.Options{}, "OTEL_TRACES_SAMPLER", "always_off", "OTEL_METRICS_EXPORTER", "none")
		span := tr.Call("", "", "x", at)
		if got := span.Traceparent(); !strings.HasSuffix(got, "-00") {
			t.Errorf("got %q, want it not sampled", got)
		}
		span.End(nil)
		tr.Close(t.Context())
		if len(c.spans) != 0 {
			t.Errorf("got %v, want none", c.spans)
		}
	})
	t.Run("name", func(t *testing.T) {
		tr, c := collect(t, tracing.Options{}, "OTEL_SERVICE_NAME", "mine")
		tr.Call("", "", "x", at).End(nil)
		tr.Close(t.Context())
		if got := c.resource["service.name"]; got != "mine" {
			t.Errorf("got %q, want mine", got)
		}
	})
	t.Run("metrics alone", func(t *testing.T) {
		tr, c := collect(t, tracing.Options{Stats: figuresOf}, "OTEL_TRACES_EXPORTER", "none")
		span := tr.Call(clientSays, "", "x", at)
		if got := span.Traceparent(); got != "" {
			t.Errorf("got %q, want what the client sent left alone", got)
		}
		span.End(&events.Event{Kind: events.Call, At: at, Upstream: "u", Seq: 1, LatencyMS: 1})
		tr.Prefetch(&events.Event{Kind: events.Prefetch, At: at})
		tr.Close(t.Context())
		if len(c.spans) != 0 || c.metrics["mcp.server.operation.duration"] == nil || c.metrics["mcpschedd.calls"] == nil {
			t.Errorf("got %v, %v; want the metrics alone", c.spans, c.metrics)
		}
	})
	t.Run("json", func(t *testing.T) {
		tr, c := collect(t, tracing.Options{}, "OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", "OTEL_METRICS_EXPORTER", "none")
		tr.Call("", "", "x", at).End(nil)
		tr.Close(t.Context())
		if c.requests != 1 || c.header.Get("Content-Type") != "application/json" {
			t.Errorf("got %d requests of %q, want one of application/json", c.requests, c.header.Get("Content-Type"))
		}
	})
}

// A collector that is not there, or refuses, is one warning and no more.
func TestCollectorRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		server func() string
	}{
		{"500", func() string { return refusing(t, http.StatusInternalServerError) }},
		{"401", func() string { return refusing(t, http.StatusUnauthorized) }},
		{"404, as a page", func() string { return refusing(t, http.StatusNotFound) }},
		{"429", func() string { return refusing(t, http.StatusTooManyRequests) }},
		{"down", func() string { s := httptest.NewServer(nil); s.Close(); return s.URL }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log lines
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.server())
			tr, err := tracing.Start(t.Context(), tracing.Options{Log: log.logger(), Stats: figuresOf})
			if err != nil {
				t.Fatal(err)
			}
			for range 3_000 {
				tr.Call("", "", "x", at).End(&events.Event{Kind: events.Call, At: at})
			}
			tr.Close(t.Context())
			if log.len() != 1 || !strings.Contains(log.all(), "not exported over OTLP") {
				t.Errorf("got %s, want one warning", log.all())
			}
		})
	}
}

// refusing is a collector that answers with this status and a long page.
func refusing(t *testing.T, status int) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, strings.Repeat("<p>no</p>\n", 10_000))
	}))
	t.Cleanup(s.Close)
	return s.URL
}
