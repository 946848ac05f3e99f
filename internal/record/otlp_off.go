//go:build nootlp

package record

import (
	"context"
	"os"
)

// OTLP is not part of this program.
type OTLP struct{}

// StartOTLP warns if the environment asks for what this program was built without.
func StartOTLP(_ context.Context, o OTLPOptions) (*OTLP, error) {
	if o.Env == nil {
		o.Env = os.Getenv
	}
	if on, problems := askedSignals(o.Env); o.Log != nil && (on != signals{} || problems != nil) {
		o.Log.Warn("not exported over OTLP", "why", "this program was built without it (-tags nootlp)")
	}
	return nil, nil
}

// Trace is nil: nothing is traced.
func (t *OTLP) Trace() Trace { return nil }

// Prefetch does nothing.
func (t *OTLP) Prefetch(*Event) {}

// Close does nothing.
func (t *OTLP) Close(context.Context) {}
