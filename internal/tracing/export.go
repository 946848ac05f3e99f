package tracing

import (
	"context"
	"log/slog"
	"sync"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// often is how far apart two warnings are at least.
const often = time.Minute

// longest is how much of an error is logged: a collector may answer with any page.
const longest = 400

// warner says that something goes wrong, once a minute at most.
type warner struct {
	log *slog.Logger

	mu    sync.Mutex
	last  time.Time
	since int // failures not spoken of, since the last warning
}

func (w *warner) warn(what string, err error) {
	w.mu.Lock()
	now, unsaid := time.Now(), w.since
	if say := w.last.IsZero() || now.Sub(w.last) >= often; !say {
		w.since++
		w.mu.Unlock()
		return
	}
	w.last, w.since = now, 0
	w.mu.Unlock()
	w.log.Warn("not exported over OTLP", "what", what, "err", cut(err.Error(), longest), "not_said", unsaid)
}

// spanExporter is one that speaks of its failures itself, and can be cut short: the
// SDK's processor waits for the end of an export whatever its own deadline.
type spanExporter struct {
	sdktrace.SpanExporter
	stop <-chan struct{}
	*warner
}

func (e *spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := until(ctx, e.stop)
	defer cancel()
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.warn("traces", err)
	}
	return nil
}

// metricExporter is the same for metrics.
type metricExporter struct {
	sdkmetric.Exporter
	stop <-chan struct{}
	*warner
}

func (e *metricExporter) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	ctx, cancel := until(ctx, e.stop)
	defer cancel()
	if err := e.Exporter.Export(ctx, m); err != nil {
		e.warn("metrics", err)
	}
	return nil
}

// until returns a context that ends with ctx, or when stop is closed.
func until(ctx context.Context, stop <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
