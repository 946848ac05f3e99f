//go:build !lean

package record

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
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
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"mcpschedd/internal/excerpt"
)

const (
	serviceName   = "mcpschedd"     // unless OTEL_SERVICE_NAME is set
	closeTimeout  = 2 * time.Second // for the last export
	warnEvery     = time.Minute
	maxErrorBytes = 400  // of an error that is logged: a collector may answer with a whole page
	maxSpans      = 4096 // most recent calls that a prefetch's span can refer to
)

// OTLP exports calls as spans and the figures of [Stats] as metrics to an OpenTelemetry
// collector. It uses the official SDK and is configured by the standard environment variables
// alone. A nil *OTLP does nothing.
//
// A span of kind SERVER is one tools/call of a client. A span of kind CLIENT is a prefetch: it
// is exported when its fate is known, as a child of the call with the answer that triggered it, and
// linked to the call that used its answer. Names follow the semantic conventions for MCP and
// generative AI where these define one, and begin with mcpschedd elsewhere.
//
// A collector that is unreachable, slow or refuses spans delays no call: spans wait in a
// bounded queue, further spans are dropped, and a warning is logged at most once a minute.
// Spans never contain arguments or results. gRPC and baggage are not supported.
type OTLP struct {
	tracer   trace.Tracer                           // nil if traces are off
	spans    *lru.Cache[callKey, trace.SpanContext] // most recent calls
	shutdown []func(context.Context) error
	timeout  time.Duration // how long Close waits for the last export
	warn     func(error)
}

// StartOTLP starts the exports that the environment requests: OTEL_EXPORTER_OTLP_ENDPOINT, or
// the endpoint of a single signal, must be set. It returns nil, nil if no export is requested or none is possible.
// It does not try to reach the collector. version is that of the program; stats is called once
// for each export of metrics.
func StartOTLP(ctx context.Context, version string, stats func() Stats, log *slog.Logger) (*OTLP, error) {
	if !ExportRequested() {
		return nil, nil
	}
	otel.SetLogger(logr.FromSlogHandler(log.Handler())) // by default the SDK writes to stderr in a format of its own
	var spans sdktrace.SpanExporter
	var figures sdkmetric.Exporter
	var errTraces, errMetrics error
	if isRequested("TRACES") && usable("TRACES", log, "http/protobuf", "http/json") {
		spans, errTraces = otlptracehttp.New(ctx)
	}
	if isRequested("METRICS") && usable("METRICS", log, "http/protobuf") {
		figures, errMetrics = otlpmetrichttp.New(ctx)
	}
	if err := errors.Join(errTraces, errMetrics); err != nil {
		return nil, err
	}
	if spans == nil && figures == nil {
		return nil, nil
	}
	return startExport(ctx, version, stats, log, spans, figures), nil
}

// usable reports whether a signal has a URL to be sent to. It logs what the SDK would ignore, which must not
// prevent the start, as the variables may be set for all programs. A URL may hold a password.
func usable(signal string, log *slog.Logger, protocols ...string) bool {
	key, text := variable(signal, "PROTOCOL")
	if text != "" && !slices.Contains(protocols, text) {
		log.Warn(fmt.Sprintf("%s: want %s for %s, have %q; http/protobuf is sent", key, strings.Join(protocols, " or "), strings.ToLower(signal), text))
	}
	key, text = variable(signal, "ENDPOINT")
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		log.Warn(fmt.Sprintf("%s: want a URL such as http://127.0.0.1:4318; %s are not exported", key, strings.ToLower(signal)))
		return false
	}
	return true
}

// startExport starts the export to the given exporters; nil for a signal that is off.
func startExport(ctx context.Context, version string, stats func() Stats, log *slog.Logger, spans sdktrace.SpanExporter, figures sdkmetric.Exporter) *OTLP {
	t := &OTLP{timeout: closeTimeout, warn: warner(log)}
	t.spans, _ = lru.New[callKey, trace.SpanContext](maxSpans) // fails only for a size below 1
	otel.SetErrorHandler(otel.ErrorHandlerFunc(t.warn))
	res, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(
			attribute.String("service.name", serviceName),
			attribute.String("service.version", version),
			attribute.String("service.instance.id", rand.Text()), // keeps the counters of several processes apart
		),
		resource.WithFromEnv()) // last, so that it takes precedence
	if err != nil { // the resource is incomplete but usable
		t.warn(err)
	}
	if spans != nil {
		p := sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithBatcher(spans))
		t.tracer = p.Tracer(serviceName, trace.WithInstrumentationVersion(version))
		t.shutdown = append(t.shutdown, p.Shutdown)
	}
	if figures != nil {
		all := prometheus.NewRegistry()
		all.MustRegister(&collector{stats, version})
		producer := bridge.NewMetricProducer(bridge.WithGatherer(all))
		reader := sdkmetric.NewPeriodicReader(figures, sdkmetric.WithProducer(producer))
		p := sdkmetric.NewMeterProvider(sdkmetric.WithResource(res), sdkmetric.WithReader(reader))
		t.shutdown = append(t.shutdown, p.Shutdown)
	}
	return t
}

// Close sends the remaining data and stops the exports, within two seconds, even if ctx is done.
func (t *OTLP) Close(ctx context.Context) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.timeout)
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
	t.shutdown = nil
}

// warner returns a function that logs errors, at most one a minute.
func warner(log *slog.Logger) func(error) {
	now := rate.Sometimes{First: 1, Interval: warnEvery}
	return func(err error) {
		now.Do(func() { log.Warn("not exported over OTLP", "err", excerpt.Shorten(err.Error(), maxErrorBytes)) })
	}
}
