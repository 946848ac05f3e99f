//go:build lean

package record

import (
	"context"
	"net/http"
)

// Exports says whether this program has the libraries of Prometheus and OpenTelemetry.
const Exports = false

const without = "this program was built without it (-tags lean), and mcpschedd-full is not beside it"

// Metrics says that there are none.
func Metrics(func() Stats, string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "Prometheus: "+without, http.StatusNotImplemented)
	})
}

// OTLP is not part of this program.
type OTLP struct{}

// StartOTLP warns if the environment asks for what this program was built without.
func StartOTLP(_ context.Context, o OTLPOptions) (*OTLP, error) {
	if ExportRequested(o.Env) {
		o.Log.Warn("not exported over OTLP", "why", without)
	}
	return nil, nil
}

// Trace is nil: nothing is traced.
func (t *OTLP) Trace() Trace { return nil }

// Prefetch does nothing.
func (t *OTLP) Prefetch(*Event) {}

// Close does nothing.
func (t *OTLP) Close(context.Context) {}
