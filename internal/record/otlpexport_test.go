//go:build !lean

package record

import (
	"context"
	"log/slog"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// StartExport is StartOTLP with these exporters.
func StartExport(ctx context.Context, o OTLPOptions, spans sdktrace.SpanExporter, figures sdkmetric.Exporter) (*OTLP, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return startExport(ctx, o, spans, figures)
}

// ParseSignals calls parseSignals.
func ParseSignals(env func(string) string) (traces, metrics bool, problems []string) {
	on, problems := parseSignals(env)
	return on.traces, on.metrics, problems
}
