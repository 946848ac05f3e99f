package tracing

import (
	"fmt"
	"net/url"
	"strings"
)

// signals are what is exported.
type signals struct{ traces, metrics bool }

// asked reads what the environment asks for. The rest of the variables (headers,
// certificates, compression, time-outs, sampler, limits, intervals, resource) is the
// SDK's to read.
func asked(env func(string) string) (on signals, problems []string) {
	if strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") {
		return signals{}, nil
	}
	for _, s := range []struct {
		name string
		on   *bool
	}{{"TRACES", &on.traces}, {"METRICS", &on.metrics}} {
		var problem string
		if *s.on, problem = signal(env, s.name); problem != "" {
			problems = append(problems, strings.ToLower(s.name)+": "+problem)
		}
	}
	return on, problems
}

// signal reads what is asked for of one, and why it cannot be done.
func signal(env func(string) string, name string) (on bool, problem string) {
	key, endpoint := first(env, "OTEL_EXPORTER_OTLP_"+name+"_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	exporter := "OTEL_" + name + "_EXPORTER"
	switch value := env(exporter); {
	case endpoint == "" || value == "none":
		return false, ""
	case value != "" && value != "otlp":
		return false, fmt.Sprintf("%s: want otlp or none, have %q", exporter, value)
	}
	if u, err := url.Parse(endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return false, key + ": want a URL such as http://127.0.0.1:4318" // not what it is: a password may be part of it
	}
	switch key, protocol := first(env, "OTEL_EXPORTER_OTLP_"+name+"_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); protocol {
	case "", "http/protobuf", "http/json":
		return true, ""
	default:
		return false, fmt.Sprintf("%s: want http/protobuf or http/json, have %q; collectors take both at port 4318", key, protocol)
	}
}

// first returns the first of these variables that is set, and its value.
func first(env func(string) string, keys ...string) (key, value string) {
	for _, key := range keys {
		if value := strings.TrimSpace(env(key)); value != "" {
			return key, value
		}
	}
	return "", ""
}
