//go:build !lean

package record

import (
	"context"
	"log/slog"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// StartExport is StartOTLP with the given exporters.
func StartExport(ctx context.Context, version string, log *slog.Logger, spans sdktrace.SpanExporter, figures sdkmetric.Exporter) *OTLP {
	return startExport(ctx, version, nil, log, spans, figures)
}

// WaitFor sets how long Close waits for the last export.
func (t *OTLP) WaitFor(d time.Duration) { t.timeout = d }
