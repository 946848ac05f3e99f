package record

import (
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"
)

// OTLPOptions configure the export to an OpenTelemetry collector.
type OTLPOptions struct {
	Version string       // version of the program
	Stats   func() Stats // called once for each export of metrics; nil exports none of its figures
	Log     *slog.Logger
}

// Trace starts the trace of a tools/call when it arrives, given the W3C trace context of its
// request, if any. It returns the trace context for the upstream request, empty if the client's
// own is passed on, and a function to call with the event of the call's end, or nil.
type Trace func(traceparent, tracestate, tool string, at time.Time) (parent, state string, end func(*Event))

// signals says which OpenTelemetry signals are exported.
type signals struct{ traces, metrics bool }

// ExportRequested reports whether the environment requests an OTLP export, supported or not.
func ExportRequested() bool {
	on, problems := parseSignals()
	return on != signals{} || problems != nil
}

// parseSignals returns the signals that the environment turns on, and the requests that cannot
// be met. The SDK reads the other variables (headers, certificates, compression, time-outs,
// sampler, limits, intervals, resource).
func parseSignals() (on signals, problems []string) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return signals{}, nil
	}
	read := func(name string) bool {
		on, problem := parseSignal(strings.ToUpper(name))
		if problem != "" {
			problems = append(problems, name+": "+problem)
		}
		return on
	}
	on.traces, on.metrics = read("traces"), read("metrics")
	return on, problems
}

// parseSignal reports whether a signal is to be exported, or why it cannot be.
func parseSignal(name string) (on bool, problem string) {
	key, endpoint := firstSet("OTEL_EXPORTER_OTLP_"+name+"_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	exporter := "OTEL_" + name + "_EXPORTER"
	switch value := os.Getenv(exporter); {
	case endpoint == "" || value == "none":
		return false, ""
	case value != "" && value != "otlp":
		return false, fmt.Sprintf("%s: want otlp or none, have %q", exporter, value)
	}
	if u, err := url.Parse(endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return false, key + ": want a URL such as http://127.0.0.1:4318" // the value is left out, as it may contain a password
	}
	switch key, protocol := firstSet("OTEL_EXPORTER_OTLP_"+name+"_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); protocol {
	case "", "http/protobuf", "http/json":
		return true, ""
	default:
		return false, fmt.Sprintf("%s: want http/protobuf or http/json, have %q; collectors take both at port 4318", key, protocol)
	}
}

// firstSet returns the first of the variables that is set, and its value.
func firstSet(keys ...string) (key, value string) {
	for _, key := range keys {
		if value := strings.TrimSpace(os.Getenv(key)); value != "" {
			return key, value
		}
	}
	return "", ""
}
