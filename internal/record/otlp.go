package record

import (
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"
)

// OTLPOptions configure the export to an OpenTelemetry collector.
type OTLPOptions struct {
	Env     func(string) string // looks up the variables that turn signals on; the SDK reads the others from the process environment
	Version string              // version of the program
	Stats   func() Stats        // called once for each export of metrics; nil exports none of its figures
	Log     *slog.Logger
}

// Trace starts the trace of a tools/call when it arrives, given the W3C trace context of its
// request, if any. It returns the trace context for the upstream request, empty if the client's
// own is passed on, and a function to call with the event of the call's end, or nil.
type Trace func(traceparent, tracestate, tool string, at time.Time) (parent, state string, end func(*Event))

// signals says which OpenTelemetry signals are exported.
type signals struct{ traces, metrics bool }

// ExportRequested reports whether the environment requests an OTLP export, supported or not.
func ExportRequested(env func(string) string) bool {
	on, problems := parseSignals(env)
	return on != signals{} || problems != nil
}

// parseSignals returns the signals that the environment turns on, and the requests that cannot
// be met. The SDK reads the other variables (headers, certificates, compression, time-outs,
// sampler, limits, intervals, resource).
func parseSignals(env func(string) string) (on signals, problems []string) {
	if strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") {
		return signals{}, nil
	}
	var traces, metrics string
	on.traces, traces = parseSignal(env, "TRACES")
	on.metrics, metrics = parseSignal(env, "METRICS")
	if traces != "" {
		problems = append(problems, "traces: "+traces)
	}
	if metrics != "" {
		problems = append(problems, "metrics: "+metrics)
	}
	return on, problems
}

// parseSignal reports whether a signal is to be exported, or why it cannot be.
func parseSignal(env func(string) string, name string) (on bool, problem string) {
	key, endpoint := firstSet(env, "OTEL_EXPORTER_OTLP_"+name+"_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	exporter := "OTEL_" + name + "_EXPORTER"
	switch value := env(exporter); {
	case endpoint == "" || value == "none":
		return false, ""
	case value != "" && value != "otlp":
		return false, fmt.Sprintf("%s: want otlp or none, have %q", exporter, value)
	}
	if u, err := url.Parse(endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return false, key + ": want a URL such as http://127.0.0.1:4318" // the value is left out, as it may contain a password
	}
	switch key, protocol := firstSet(env, "OTEL_EXPORTER_OTLP_"+name+"_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); protocol {
	case "", "http/protobuf", "http/json":
		return true, ""
	default:
		return false, fmt.Sprintf("%s: want http/protobuf or http/json, have %q; collectors take both at port 4318", key, protocol)
	}
}

// firstSet returns the first of the variables that is set, and its value.
func firstSet(env func(string) string, keys ...string) (key, value string) {
	for _, key := range keys {
		if value := strings.TrimSpace(env(key)); value != "" {
			return key, value
		}
	}
	return "", ""
}
