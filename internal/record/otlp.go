package record

import (
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
	_, endpoint := variable(signal, "ENDPOINT")
	return endpoint != "" && os.Getenv("OTEL_"+signal+"_EXPORTER") != "none" && !strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true")
}

// variable returns the variable that sets something of a signal, and its value without the space around it,
// as the SDK reads it: the signal's own variable, or else that of all signals.
func variable(signal, name string) (key, value string) {
	key = "OTEL_EXPORTER_OTLP_" + signal + "_" + name
	if value = strings.TrimSpace(os.Getenv(key)); value == "" {
		key = "OTEL_EXPORTER_OTLP_" + name
		value = strings.TrimSpace(os.Getenv(key))
	}
	return key, value
}
