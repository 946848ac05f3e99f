//go:build !lean

package record

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	otelmetric "go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
)

const (
	serviceName  = "mcpschedd"     // unless OTEL_SERVICE_NAME is set
	closingTime  = 2 * time.Second // how long the last export may take
	warnEvery    = time.Minute
	longestError = 400  // bytes that are logged: a collector may answer with any page
	keptSpans    = 4096 // of calls that ended last, for prefetches that belong to them
	durationName = "mcp.server.operation.duration"
	durationHelp = "How long requests took from their arrival to their answer."
)

// durationBounds (s) are those that the conventions recommend.
var durationBounds = []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}

// OTLP exports calls as spans, and the figures as metrics, to an OpenTelemetry collector: by
// the official SDK, switched on and set by the standard variables alone. A nil one does
// nothing.
//
// A span of kind SERVER is one tools/call of a client, one of kind CLIENT is a prefetch: it
// is exported when its fate is known, as a child of the call whose answer made it likely,
// and linked to the call that was given its answer. Names follow the semantic conventions
// for MCP and generative AI where they have one, and begin with mcpschedd elsewhere.
//
// A collector that is away, slow or refuses costs a call nothing: spans wait in a queue of
// bounded length, what does not fit is dropped, and the log hears of it once a minute at
// most. Arguments and results never leave in a span. gRPC and baggage are left out.
type OTLP struct {
	tracer   trace.Tracer                           // nil: no traces
	duration otelmetric.Float64Histogram            // nil: no metrics
	spans    *lru.Cache[spanKey, trace.SpanContext] // of the last calls
	shutdown []func(context.Context) error
	patience time.Duration // how long Close waits for the last export
	once     sync.Once
	warn     func(error)
}

// spanKey names a call.
type spanKey struct {
	session string
	seq     int64
}

// StartOTLP begins to export what the variables ask for: OTEL_EXPORTER_OTLP_ENDPOINT, or
// that of a signal alone, must be set. It returns nil, nil if nothing is asked for. What is
// asked for and cannot be done is warned of, and left out. It does not try to reach the
// collector.
func StartOTLP(ctx context.Context, o OTLPOptions) (*OTLP, error) {
	on, problems := askedSignals(o.Env)
	for _, p := range problems {
		o.Log.Warn("not exported over OTLP", "why", p)
	}
	if on == (signals{}) {
		return nil, nil
	}
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
	return startExport(ctx, o, spans, figures)
}

// startExport begins to export to these; a nil one is for a signal that is off.
func startExport(ctx context.Context, o OTLPOptions, spans sdktrace.SpanExporter, figures sdkmetric.Exporter) (*OTLP, error) {
	t := &OTLP{patience: closingTime, warn: warner(o.Log)}
	t.spans, _ = lru.New[spanKey, trace.SpanContext](keptSpans) // it fails for a size below 1
	// By themselves both would write to stderr, in a form of their own.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(t.warn))
	otel.SetLogger(logr.FromSlogHandler(o.Log.Handler()))
	of, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(
			attribute.String("service.name", serviceName),
			attribute.String("service.version", o.Version),
			attribute.String("service.instance.id", rand.Text()), // without it the counters of several processes would be taken for one
		),
		resource.WithFromEnv()) // last, so that it wins
	if err != nil { // a part of the resource is missing, and the rest holds
		t.warn(err)
	}
	if spans != nil {
		p := sdktrace.NewTracerProvider(sdktrace.WithResource(of), sdktrace.WithBatcher(spans))
		t.tracer = p.Tracer(serviceName, trace.WithInstrumentationVersion(o.Version))
		t.shutdown = append(t.shutdown, p.Shutdown)
	}
	if figures != nil {
		var options []sdkmetric.PeriodicReaderOption
		if o.Stats != nil {
			all := prometheus.NewRegistry()
			all.MustRegister(&collector{o.Stats, o.Version})
			options = append(options, sdkmetric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(all))))
		}
		p := sdkmetric.NewMeterProvider(sdkmetric.WithResource(of), sdkmetric.WithReader(sdkmetric.NewPeriodicReader(figures, options...)))
		t.shutdown = append(t.shutdown, p.Shutdown)
		t.duration, err = p.Meter(serviceName, otelmetric.WithInstrumentationVersion(o.Version)).Float64Histogram(durationName,
			otelmetric.WithUnit("s"), otelmetric.WithDescription(durationHelp), otelmetric.WithExplicitBucketBoundaries(durationBounds...))
		if err != nil {
			t.Close(ctx)
			return nil, err
		}
	}
	return t, nil
}

// Close exports what is left and ends the exports, within two seconds, also if ctx has
// ended. A second one does nothing.
func (t *OTLP) Close(ctx context.Context) {
	if t == nil {
		return
	}
	t.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.patience)
		defer cancel()
		var all sync.WaitGroup
		for _, shutdown := range t.shutdown {
			all.Go(func() {
				if err := shutdown(ctx); err != nil {
					t.warn(err)
				}
			})
		}
		all.Wait()
	})
}

// warner says that something goes wrong, once a minute at most.
func warner(log *slog.Logger) func(error) {
	now := rate.Sometimes{First: 1, Interval: warnEvery}
	return func(err error) {
		now.Do(func() { log.Warn("not exported over OTLP", "err", cut(err.Error(), longestError)) })
	}
}
