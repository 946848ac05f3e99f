//go:build lean

package record

import (
	"context"
	"log/slog"
	"net/http"
)

// Exports reports whether this program is linked with Prometheus and OpenTelemetry.
const Exports = false

const without = "this program was built without it (-tags lean), and mcpschedd-full is not beside it"

// Metrics returns a handler that answers 501, since Prometheus is not linked.
func Metrics(func() Stats, string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "Prometheus: "+without, http.StatusNotImplemented)
	})
}

// OTLP does nothing in this build.
type OTLP struct{}

// StartOTLP logs a warning if the environment requests an export.
func StartOTLP(_ context.Context, _ string, _ func() Stats, log *slog.Logger) (*OTLP, error) {
	if ExportRequested() {
		log.Warn("not exported over OTLP", "why", without)
	}
	return nil, nil
}

// Trace returns nil: nothing is traced.
func (t *OTLP) Trace() Trace { return nil }

// Prefetch does nothing.
func (t *OTLP) Prefetch(*Event) {}

// Close does nothing.
func (t *OTLP) Close(context.Context) {}
