package record

import (
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"
)

// OTLPOptions are what is told to an OpenTelemetry collector.
type OTLPOptions struct {
	Env     func(string) string // says which signals are on. The SDK itself reads the environment of the process
	Version string              // the program's
	Stats   func() Stats        // read once for each export of metrics; nil: there are none
	Log     *slog.Logger
}

// Trace is given a tools/call when it arrives, with the W3C trace context of its request
// ("": it has none). It returns that of the request upstream ("": what the client sent goes
// on), and a function for the event of the call's end, or nil.
type Trace func(traceparent, tracestate, tool string, at time.Time) (parent, state string, end func(*Event))

// signals are what is exported.
type signals struct{ traces, metrics bool }

// ExportRequested reports whether the environment asks for an export over OTLP, or for one that
// cannot be.
func ExportRequested(env func(string) string) bool {
	on, problems := askedSignals(env)
	return on != signals{} || problems != nil
}

// askedSignals reads what the environment asks for. The rest of the variables (headers,
// certificates, compression, time-outs, sampler, limits, intervals, resource) is the SDK's
// to read.
func askedSignals(env func(string) string) (on signals, problems []string) {
	if strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") {
		return signals{}, nil
	}
	var traces, metrics string
	on.traces, traces = askedSignal(env, "TRACES")
	on.metrics, metrics = askedSignal(env, "METRICS")
	if traces != "" {
		problems = append(problems, "traces: "+traces)
	}
	if metrics != "" {
		problems = append(problems, "metrics: "+metrics)
	}
	return on, problems
}

// askedSignal reads whether one is asked for, and why it cannot be exported.
func askedSignal(env func(string) string, name string) (on bool, problem string) {
	key, endpoint := firstSet(env, "OTEL_EXPORTER_OTLP_"+name+"_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	exporter := "OTEL_" + name + "_EXPORTER"
	switch value := env(exporter); {
	case endpoint == "" || value == "none":
		return false, ""
	case value != "" && value != "otlp":
		return false, fmt.Sprintf("%s: want otlp or none, have %q", exporter, value)
	}
	if u, err := url.Parse(endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return false, key + ": want a URL such as http://127.0.0.1:4318" // without what it is: a password may be part of it
	}
	switch key, protocol := firstSet(env, "OTEL_EXPORTER_OTLP_"+name+"_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); protocol {
	case "", "http/protobuf", "http/json":
		return true, ""
	default:
		return false, fmt.Sprintf("%s: want http/protobuf or http/json, have %q; collectors take both at port 4318", key, protocol)
	}
}

// firstSet returns the first of these variables that is set, and its value.
func firstSet(env func(string) string, keys ...string) (key, value string) {
	for _, key := range keys {
		if value := strings.TrimSpace(env(key)); value != "" {
			return key, value
		}
	}
	return "", ""
}
