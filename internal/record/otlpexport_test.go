//go:build !lean

package record

import (
	"context"
	"log/slog"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// StartExport is StartOTLP with these exporters.
func StartExport(ctx context.Context, o OTLPOptions, spans sdktrace.SpanExporter, figures sdkmetric.Exporter) *OTLP {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return startExport(ctx, o, spans, figures)
}

// WaitFor sets how long Close waits for the last export.
func (t *OTLP) WaitFor(d time.Duration) { t.timeout = d }
