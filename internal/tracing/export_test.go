package tracing

import (
	"context"
	"log/slog"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// StartWith is Start with these exporters.
func StartWith(ctx context.Context, o Options, spans sdktrace.SpanExporter, figures sdkmetric.Exporter) (*Tracer, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return start(ctx, o, spans, figures)
}

// CloseWithin is Close on a machine of any speed.
func (t *Tracer) CloseWithin(ctx context.Context, limit time.Duration) { t.closeWithin(ctx, limit) }

// Asked is what is read of the environment.
func Asked(env func(string) string) (traces, metrics bool, problems []string) {
	on, problems := asked(env)
	return on.traces, on.metrics, problems
}

// Recalled is how many calls and how many waiting prefetches are remembered.
func (t *Tracer) Recalled() (calls, waiting int) {
	return len(t.recent.spans), len(t.recent.waiting)
}

const (
	KeepCalls   = keepCalls
	KeepWaiting = keepWaiting
)
