package record

import (
	"cmp"
	"os"
	"strings"
	"time"
)

// Trace starts the trace of a tools/call when it arrives, given the W3C trace context of its
// request, if any. It returns the trace context for the upstream request, empty if the client's
// own is passed on, and a function to call with the event of the call's end, or nil.
type Trace func(traceparent, tracestate, tool string, at time.Time) (parent, state string, end func(*Event))

// ExportRequested reports whether the environment requests an OTLP export.
func ExportRequested() bool { return isRequested("TRACES") || isRequested("METRICS") }

// isRequested reports whether the environment requests the export of a signal. The SDK reads the
// other variables (protocol, headers, certificates, time-outs, sampler, intervals, resource).
func isRequested(signal string) bool {
	endpoint := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	return endpoint != "" && os.Getenv("OTEL_"+signal+"_EXPORTER") != "none" && !strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true")
}
