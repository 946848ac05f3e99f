package tracing_test

import (
	"fmt"
	"testing"
	"time"

	"mcpschedd/internal/events"
	"mcpschedd/internal/telemetry"
	"mcpschedd/internal/tracing"
)

// All of one export is read off the same figures, and every tool among them is told
// of: the bound on names is theirs, and the SDK's of 2,000 would hide the rest.
func TestManyTools(t *testing.T) {
	const tools = 520 // times four dispositions
	read := 0
	tr, c := collect(t, tracing.Options{Stats: func() telemetry.Stats {
		read++
		s := telemetry.Stats{Tools: make(map[string]telemetry.Part)}
		for i := range tools {
			s.Tools[fmt.Sprint("u/", i)] = telemetry.Part{Fetched: 1}
		}
		return s
	}})
	tr.CloseWithin(t.Context(), time.Minute)
	if read != 1 {
		t.Errorf("the figures were read %d times, want once", read)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := 0.0
	for _, p := range c.metrics["mcpschedd.calls"].GetSum().GetDataPoints() {
		calls += p.GetAsDouble()
	}
	if n := len(c.metrics["mcpschedd.calls"].GetSum().GetDataPoints()); n != 4*tools || calls != tools {
		t.Errorf("got %v calls in %d values, want %d in %d", calls, n, tools, 4*tools)
	}
}

// The histogram is of requests: a plan is one, its steps are none.
func TestDuration(t *testing.T) {
	tr, c := collect(t, tracing.Options{}, "OTEL_TRACES_EXPORTER", "none")
	tr.Call("", "", "u/x", at).End(&events.Event{Kind: events.Call, At: at, Upstream: "u", Tool: "x", Plan: 1, Step: "a", LatencyMS: 1000})
	tr.Call("", "", "plan", at).End(&events.Event{Kind: events.Plan, At: at, LatencyMS: 2000})
	tr.Call("", "", "nobody's", at).End(&events.Event{Kind: events.Call, At: at, Disposition: events.Failed, Error: "refused", LatencyMS: 4000})
	tr.CloseWithin(t.Context(), time.Minute)
	got := make(map[string]float64)
	for _, p := range c.metrics["mcp.server.operation.duration"].GetHistogram().GetDataPoints() {
		of := texts(p.Attributes)
		got[of["gen_ai.tool.name"]+"|"+of["error.type"]] += p.GetSum()
	}
	if len(got) != 2 || got["plan|"] != 2 || got["|refused"] != 4 {
		t.Errorf("got %v, want the plan's 2 s and, under no name, 4 s", got)
	}
	if c.metrics["mcpschedd.calls"] != nil {
		t.Error("got figures without any to read")
	}
}
