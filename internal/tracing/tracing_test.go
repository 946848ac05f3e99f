package tracing_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"mcpschedd/internal/events"
	"mcpschedd/internal/telemetry"
	"mcpschedd/internal/tracing"
)

// TestMain takes the variables away that whoever runs the tests may have set.
func TestMain(m *testing.M) {
	for _, v := range os.Environ() {
		if key, _, _ := strings.Cut(v, "="); strings.HasPrefix(key, "OTEL_") {
			os.Unsetenv(key)
		}
	}
	os.Exit(m.Run())
}

func environment(pairs ...string) func(string) string {
	return func(key string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == key {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestAsked(t *testing.T) {
	const endpoint, at = "OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318"
	for _, c := range []struct {
		name            string
		env             []string
		traces, metrics bool
		problems        []string // what each names
	}{
		{name: "nothing"},
		{name: "both", env: []string{endpoint, at}, traces: true, metrics: true},
		{name: "empty is not set", env: []string{endpoint, " "}},
		{name: "https", env: []string{endpoint, "https://collector.example/otlp"}, traces: true, metrics: true},
		{name: "traces alone", env: []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", at}, traces: true},
		{name: "metrics alone", env: []string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", at}, metrics: true},
		{name: "switched off", env: []string{endpoint, at, "OTEL_SDK_DISABLED", "TRUE"}},
		{name: "not switched off", env: []string{endpoint, at, "OTEL_SDK_DISABLED", "1"}, traces: true, metrics: true},
		{name: "no traces", env: []string{endpoint, at, "OTEL_TRACES_EXPORTER", "none"}, metrics: true},
		{name: "no metrics", env: []string{endpoint, at, "OTEL_METRICS_EXPORTER", "none"}, traces: true},
		{name: "exporter without endpoint", env: []string{"OTEL_TRACES_EXPORTER", "otlp"}},
		{name: "another exporter", env: []string{endpoint, at, "OTEL_METRICS_EXPORTER", "prometheus"}, traces: true, problems: []string{"OTEL_METRICS_EXPORTER"}},
		{name: "grpc", env: []string{endpoint, at, "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"},
			problems: []string{`OTEL_EXPORTER_OTLP_PROTOCOL: want http/protobuf or http/json, have "grpc"`, "OTEL_EXPORTER_OTLP_PROTOCOL"}},
		{name: "grpc for one", env: []string{endpoint, at, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc", "OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"}, metrics: true,
			problems: []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"}},
		{name: "no scheme", env: []string{endpoint, "localhost:4318"}, problems: []string{endpoint, endpoint}},
		{name: "no host", env: []string{endpoint, "http://"}, problems: []string{endpoint, endpoint}},
		{name: "not a URL", env: []string{endpoint, "http://user:secret@[x"}, problems: []string{endpoint, endpoint}},
	} {
		t.Run(c.name, func(t *testing.T) {
			traces, metrics, problems := tracing.Asked(environment(c.env...))
			if traces != c.traces || metrics != c.metrics || len(problems) != len(c.problems) {
				t.Fatalf("got traces %v, metrics %v, %q; want %v, %v, %q", traces, metrics, problems, c.traces, c.metrics, c.problems)
			}
			for i, p := range problems {
				if !strings.Contains(p, c.problems[i]) || strings.Contains(p, "secret") {
					t.Errorf("got %q, want it to name %s and no password", p, c.problems[i])
				}
			}
		})
	}
}

func TestStartNothingAsked(t *testing.T) {
	var log lines
	got, err := tracing.Start(t.Context(), tracing.Options{Env: environment(), Log: log.logger()})
	if got != nil || err != nil || log.len() != 0 {
		t.Fatalf("got %v, %v, %q; want nothing", got, err, log.all())
	}
	got, err = tracing.Start(t.Context(), tracing.Options{Log: log.logger(), Env: environment(
		"OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")})
	if got != nil || err != nil || log.len() != 2 {
		t.Fatalf("got %v, %v, %q; want a warning for each signal", got, err, log.all())
	}
}

// A nil Tracer is nothing, and costs nothing.
func TestNil(t *testing.T) {
	var none *tracing.Tracer
	e := events.Event{Kind: events.Call, Tool: "x"}
	at := time.Now()
	if n := testing.AllocsPerRun(100, func() {
		span := none.Call("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "a=b", "x", at)
		if span.Traceparent() != "" || span.Tracestate() != "" {
			t.Error("got a traceparent, want none")
		}
		span.End(&e)
		span.End(nil)
		none.Prefetch(&e)
		none.Close(context.Background())
	}); n != 0 {
		t.Errorf("got %v allocations, want none", n)
	}
}

// lines is a log as it was written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *lines) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) len() int { return strings.Count(l.all(), "\n") }

// failing refuses everything.
type failing struct{ text string }

func (f failing) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error {
	return errors.New(f.text)
}
func (failing) Shutdown(context.Context) error { return nil }

// hanging takes nothing, and returns only when it is told to.
type hanging struct{ *tracetest.NoopExporter }

func (hanging) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	<-ctx.Done()
	return ctx.Err()
}

// hangingFigures is the same for metrics.
type hangingFigures struct{}

func (hangingFigures) Temporality(sdkmetric.InstrumentKind) metricdata.Temporality {
	return metricdata.CumulativeTemporality
}
func (hangingFigures) Aggregation(k sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(k)
}
func (hangingFigures) Export(ctx context.Context, _ *metricdata.ResourceMetrics) error {
	<-ctx.Done()
	return ctx.Err()
}
func (hangingFigures) ForceFlush(context.Context) error { return nil }
func (hangingFigures) Shutdown(context.Context) error   { return nil }

// A collector that refuses is spoken of once a minute, with how often it was not.
func TestOneWarningAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		tr, err := tracing.StartWith(t.Context(), tracing.Options{Log: log.logger()}, failing{"503\n" + strings.Repeat("long page ", 1000)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 59 { // an export every 5 s
			tr.Call("", "", "x", time.Now()).End(nil)
			time.Sleep(time.Second)
		}
		if log.len() != 1 || len(log.all()) > 700 {
			t.Errorf("got %d lines: %.900s, want one short one", log.len(), log.all())
		}
		time.Sleep(2 * time.Minute)
		tr.Call("", "", "x", time.Now()).End(nil)
		time.Sleep(10 * time.Second)
		if log.len() != 2 || !strings.Contains(log.all(), "not_said=1") {
			t.Errorf("got %d lines: %s, want a second one with what was not said", log.len(), log.all())
		}
		tr.Close(t.Context())
	})
}

// A collector that hangs holds up neither a call nor, for longer than two seconds, the
// end; and nothing goes on after it.
func TestHangingCollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		tr, err := tracing.StartWith(t.Context(), tracing.Options{Log: log.logger(), Stats: func() telemetry.Stats { return telemetry.Stats{} }},
			hanging{}, hangingFigures{})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		for range 10_000 { // more than fit into the queue
			tr.Call("", "", "x", time.Now()).End(&events.Event{Kind: events.Call, At: time.Now()})
		}
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("calls waited %v for the collector, want none of it", waited)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel() // as it is after a signal
		tr.Close(cancelled)
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("got %v until the end, want 2s", took)
		}
		tr.Close(cancelled)
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("got %v until the second end, want no more", took)
		}
		if log.len() != 1 {
			t.Errorf("got %s, want one warning", log.all())
		}
	})
}

func BenchmarkCallOff(b *testing.B) {
	var none *tracing.Tracer
	e := events.Event{Kind: events.Call, Tool: "x"}
	at := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		span := none.Call("", "", "x", at)
		_ = span.Traceparent()
		span.End(&e)
	}
}

func BenchmarkCallOn(b *testing.B) {
	tr, err := tracing.StartWith(b.Context(), tracing.Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil))}, tracetest.NewNoopExporter(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer tr.Close(b.Context())
	e := events.Event{Kind: events.Call, Session: "1f00c2", Seq: 1, Upstream: "github", Tool: "list_issues", Disposition: events.Fetched, LatencyMS: 12, Sent: 1, Bytes: 4000}
	at := time.Now()
	e.At = at
	b.ReportAllocs()
	for b.Loop() {
		span := tr.Call("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "", "github__list_issues", at)
		_ = span.Traceparent()
		span.End(&e)
	}
}
