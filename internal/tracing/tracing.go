// Package tracing tells an OpenTelemetry collector of calls, as spans, and of the
// figures, as metrics.
//
// The one idea: it is the official SDK, switched on and set by the standard variables
// alone, and the proxy need not know whether it is on. Every method works on a nil
// [Tracer] as nothing:
//
//	t, err := tracing.Start(ctx, tracing.Options{Version: version, Stats: stats, Log: log})
//	defer t.Close(ctx)
//
//	span := t.Call(traceparent, tracestate, "github__list_issues", time.Now())
//	… // to the server goes span.Traceparent(), unless it is ""
//	span.End(&event)
//
// A span of kind SERVER is one tools/call of a client, one of kind CLIENT is a
// prefetch: told of when it is known what became of it, as a child of the call whose
// answer made it likely, and linked to the call that was given what it fetched. Names
// follow the semantic conventions for MCP and for generative AI where they have one,
// and begin with mcpschedd elsewhere. The spans come from the same events as all else,
// the metrics are read off the same figures.
//
// A collector that is away, slow or refuses costs a call nothing: spans wait in a queue
// of bounded length, what does not fit is dropped, and the log hears of it once a
// minute at most. Arguments and results never leave in a span. gRPC is left out; so is
// baggage, which travels in _meta as it came.
package tracing

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"mcpschedd/internal/telemetry"
)

// name is the service's, unless OTEL_SERVICE_NAME is set, and the scope's.
const name = "mcpschedd"

// closing is how long the last export may take.
const closing = 2 * time.Second

// Options are what a Tracer tells of.
type Options struct {
	Env     func(string) string    // says which signals are on; default os.Getenv. The SDK itself reads the environment of the process
	Version string                 // the program's
	Stats   func() telemetry.Stats // read once for each export of metrics; default: no metrics of them
	Log     *slog.Logger           // default: none
}

// Tracer tells of calls and figures. A nil one does nothing, at no cost.
type Tracer struct {
	tracer   trace.Tracer            // nil: no traces
	duration metric.Float64Histogram // of mcp.server.operation.duration; nil: no metrics
	recent   recent                  // which call has which span

	shutdown []func(context.Context) error
	stop     chan struct{} // closed: exports are cut short
	stopped  sync.Once
	warn     *warner
}

// Start begins to export what the variables ask for: OTEL_EXPORTER_OTLP_ENDPOINT, or
// that of a signal alone, must be set. It returns nil, nil if nothing is asked for. What
// is asked for and cannot be done is warned of, and left out; the process's environment
// is read once. It does not try to reach the collector.
func Start(ctx context.Context, o Options) (*Tracer, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Env == nil {
		o.Env = os.Getenv
	}
	on, problems := asked(o.Env)
	for _, p := range problems {
		o.Log.Warn("not exported over OTLP", "why", p)
	}
	if !on.traces && !on.metrics {
		return nil, nil
	}
	// By themselves both would write to stderr, in a form of their own.
	own := &warner{log: o.Log}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { own.warn("opentelemetry", err) }))
	otel.SetLogger(logr.FromSlogHandler(o.Log.Handler()))

	var spans sdktrace.SpanExporter
	var figures sdkmetric.Exporter
	var errTraces, errMetrics error
	if on.traces {
		spans, errTraces = otlptracehttp.New(ctx)
	}
	if on.metrics {
		figures, errMetrics = otlpmetrichttp.New(ctx)
	}
	if err := errors.Join(errTraces, errMetrics); err != nil {
		return nil, err
	}
	return start(ctx, o, spans, figures)
}

// start begins to export to these; a nil one is for a signal that is off.
func start(ctx context.Context, o Options, spans sdktrace.SpanExporter, figures sdkmetric.Exporter) (*Tracer, error) {
	of, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(
			attribute.String("service.name", name),
			attribute.String("service.version", o.Version),
			attribute.String("service.instance.id", rand.Text()), // without it the counters of several processes would be taken for one
		),
		resource.WithFromEnv()) // last, so that it wins
	t := &Tracer{stop: make(chan struct{}), warn: &warner{log: o.Log}}
	if err != nil { // a part of the resource is missing, and the rest holds
		t.warn.warn("opentelemetry", err)
	}
	if spans != nil {
		p := sdktrace.NewTracerProvider(sdktrace.WithResource(of), sdktrace.WithBatcher(&spanExporter{spans, t.stop, t.warn}))
		t.tracer = p.Tracer(name, trace.WithInstrumentationVersion(o.Version))
		t.shutdown = append(t.shutdown, p.Shutdown)
	}
	if figures != nil {
		reader := sdkmetric.NewPeriodicReader(&metricExporter{figures, t.stop, t.warn}, sdkmetric.WithCardinalityLimitSelector(cardinality))
		p := sdkmetric.NewMeterProvider(sdkmetric.WithResource(of), sdkmetric.WithReader(reader))
		t.shutdown = append(t.shutdown, p.Shutdown)
		if err := t.measure(p.Meter(name, metric.WithInstrumentationVersion(o.Version)), o.Stats); err != nil {
			t.Close(ctx)
			return nil, err
		}
	}
	return t, nil
}

// Close exports what is left and ends the exports, within two seconds, also if ctx has
// ended. A second one does nothing.
func (t *Tracer) Close(ctx context.Context) { t.closeWithin(ctx, closing) }

func (t *Tracer) closeWithin(ctx context.Context, limit time.Duration) {
	if t == nil {
		return
	}
	t.stopped.Do(func() {
		t.tell(t.recent.rest())
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		defer cancel()
		var all sync.WaitGroup
		for _, shutdown := range t.shutdown {
			all.Go(func() {
				if err := shutdown(ctx); err != nil {
					t.warn.warn("last export", err)
				}
			})
		}
		all.Wait()
		close(t.stop)
	})
}
