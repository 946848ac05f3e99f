package tracing_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"mcpschedd/internal/events"
	"mcpschedd/internal/tracing"
)

const (
	clientTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientSpan  = "00f067aa0ba902b7"
	clientSays  = "00-" + clientTrace + "-" + clientSpan + "-01"
)

var at = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// told runs something and returns the spans that it told of, in order.
func told(t *testing.T, run func(tr *tracing.Tracer)) tracetest.SpanStubs {
	t.Helper()
	memory := new(kept)
	tr, err := tracing.StartWith(t.Context(), tracing.Options{Version: "1.2.3"}, memory, nil)
	if err != nil {
		t.Fatal(err)
	}
	run(tr)
	tr.Close(t.Context())
	return tracetest.SpanStubsFromReadOnlySpans(memory.spans)
}

// kept is the spans that were exported; unlike the SDK's own it keeps them when it is
// shut down.
type kept struct {
	*tracetest.NoopExporter
	spans []sdktrace.ReadOnlySpan
}

func (k *kept) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	k.spans = append(k.spans, spans...)
	return nil
}

func values(s tracetest.SpanStub) map[string]any {
	all := make(map[string]any)
	for _, a := range s.Attributes {
		all[string(a.Key)] = a.Value.AsInterface()
	}
	return all
}

func TestCall(t *testing.T) {
	var up string
	e := events.Event{
		Kind: events.Call, At: at, Session: "1f00c2", Seq: 7, Upstream: "github", Tool: "list_issues", Class: "read_only",
		Disposition: events.Joined, LatencyMS: 12.5, HiddenMS: 300, Prefetched: true, UseOf: 5, Bytes: 4000, Turn: 3,
		ArgsHash: "secret", Arguments: "secret", ResultHash: "secret", RawArguments: []byte("secret"),
	}
	spans := told(t, func(tr *tracing.Tracer) {
		span := tr.Call(clientSays, "vendor=x", "github__list_issues", at)
		up = span.Traceparent()
		if got, want := span.Tracestate(), "vendor=x"; got != want {
			t.Errorf("tracestate: got %q, want %q", got, want)
		}
		span.End(&e)
	})
	if len(spans) != 1 {
		t.Fatalf("got %d spans, want 1", len(spans))
	}
	s := spans[0]
	if want := "00-" + clientTrace + "-" + s.SpanContext.SpanID().String() + "-01"; up != want {
		t.Errorf("the upstream was told %q, want %q", up, want)
	}
	if s.Parent.SpanID().String() != clientSpan || !s.Parent.IsRemote() {
		t.Errorf("got parent %v, want the client's", s.Parent)
	}
	if s.Name != "tools/call github__list_issues" || s.SpanKind != trace.SpanKindServer || s.Status.Code != codes.Unset {
		t.Errorf("got %q, %v, %v", s.Name, s.SpanKind, s.Status)
	}
	if !s.StartTime.Equal(at) || s.EndTime.Sub(at) != 12500*time.Microsecond {
		t.Errorf("got %v to %v, want 12.5 ms from %v", s.StartTime, s.EndTime, at)
	}
	want := map[string]any{
		"mcp.method.name": "tools/call", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "github__list_issues", "mcp.session.id": "1f00c2",
		"mcpschedd.seq": int64(7), "mcpschedd.upstream": "github", "mcpschedd.tool": "github/list_issues", "mcpschedd.class": "read_only",
		"mcpschedd.disposition": "joined", "mcpschedd.hidden_ms": 300.0, "mcpschedd.prefetched": true, "mcpschedd.use_of": int64(5),
		"mcpschedd.result_bytes": int64(4000), "mcpschedd.turn": int64(3),
	}
	if d := cmp.Diff(want, values(s)); d != "" { // and so nothing secret
		t.Error(d)
	}
}

func TestCallStatus(t *testing.T) {
	for _, c := range []struct {
		name  string
		event events.Event
		code  codes.Code
		kind  any // of error
		span  string
	}{
		{"fine", events.Event{Upstream: "a", Disposition: events.Fetched}, codes.Unset, nil, "tools/call x"},
		{"the tool's error", events.Event{Upstream: "a", Disposition: events.Fetched, IsError: true}, codes.Error, "tool_error", "tools/call x"},
		{"timeout", events.Event{Upstream: "a", Disposition: events.Failed, Error: "timeout"}, codes.Error, "timeout", "tools/call x"},
		{"withdrawn", events.Event{Upstream: "a", Disposition: events.Failed, Error: "cancelled"}, codes.Unset, nil, "tools/call x"},
		{"for no known reason", events.Event{Upstream: "a", Disposition: events.Failed}, codes.Error, "_OTHER", "tools/call x"},
		{"no such tool", events.Event{Disposition: events.Failed, Error: "refused"}, codes.Error, "refused", "tools/call"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.event.Kind, c.event.At = events.Call, at
			spans := told(t, func(tr *tracing.Tracer) { tr.Call("", "", "x", at).End(&c.event) })
			if len(spans) != 1 {
				t.Fatalf("got %d spans, want 1", len(spans))
			}
			if s := spans[0]; s.Status.Code != c.code || values(s)["error.type"] != c.kind || s.Name != c.span {
				t.Errorf("got %v, %v, %q; want %v, %v, %q", s.Status, values(s)["error.type"], s.Name, c.code, c.kind, c.span)
			}
		})
	}
}

// What is not well-formed counts as not given.
func TestMalformedParent(t *testing.T) {
	for _, given := range []string{
		"", "x", "00-0", "00-" + clientTrace + "-" + clientSpan, // no flags
		"00-00000000000000000000000000000000-" + clientSpan + "-01",
		"00-" + clientTrace + "-0000000000000000-01",
		"ff-" + clientTrace + "-" + clientSpan + "-01",
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-" + clientSpan + "-01",
		clientSays + "-more", clientSays + "\n", "00-" + clientTrace + "-" + clientSpan + "-zz",
	} {
		spans := told(t, func(tr *tracing.Tracer) {
			span := tr.Call(given, "vendor=x", "x", at)
			if up := span.Traceparent(); up == given || len(up) != len(clientSays) || span.Tracestate() != "" {
				t.Errorf("%q: the upstream was told %q, %q; want a trace of our own", given, up, span.Tracestate())
			}
			span.End(nil)
		})
		if len(spans) != 1 || spans[0].Parent.IsValid() {
			t.Errorf("%q: got %v, want one span without a parent", given, spans)
		}
	}
	spans := told(t, func(tr *tracing.Tracer) {
		span := tr.Call(clientSays, "\x00=,,=", "x", at)
		if span.Tracestate() != "" {
			t.Errorf("got tracestate %q, want none", span.Tracestate())
		}
		span.End(nil)
	})
	if len(spans) != 1 || spans[0].Parent.SpanID().String() != clientSpan {
		t.Errorf("malformed tracestate: got %v, want the client's parent all the same", spans)
	}
}

// What the client does not sample is passed on as not sampled, and not told of.
func TestNotSampled(t *testing.T) {
	spans := told(t, func(tr *tracing.Tracer) {
		span := tr.Call("00-"+clientTrace+"-"+clientSpan+"-00", "", "x", at)
		if got := span.Traceparent(); got[:36] != "00-"+clientTrace+"-" || got[52:] != "-00" {
			t.Errorf("got %q, want the client's trace, not sampled", got)
		}
		span.End(&events.Event{Kind: events.Call, At: at, Session: "s", Seq: 1})
		tr.Prefetch(&events.Event{Kind: events.Prefetch, At: at, Session: "s", Seq: 2, After: 1, Fate: events.Wasted}) // what follows from it neither
	})
	if len(spans) != 0 {
		t.Errorf("got %v, want no spans", spans)
	}
}

// A plan's steps are its children.
func TestPlan(t *testing.T) {
	spans := told(t, func(tr *tracing.Tracer) {
		plan := tr.Call(clientSays, "", "execute_tool_plan", at)
		step := tr.Call(plan.Traceparent(), plan.Tracestate(), "github/get_issue", at)
		step.End(&events.Event{Kind: events.Call, At: at, Session: "s", Seq: 1, Upstream: "github", Tool: "get_issue", Plan: 1, Step: "a"})
		plan.End(&events.Event{Kind: events.Plan, At: at, Session: "s", Plan: 1, Steps: 1, Depth: 1, LatencyMS: 5})
	})
	if len(spans) != 2 || spans[0].Parent.SpanID() != spans[1].SpanContext.SpanID() || spans[1].Parent.SpanID().String() != clientSpan {
		t.Fatalf("got %v, want client > plan > step", spans)
	}
	if v := values(spans[1]); spans[1].Name != "tools/call execute_tool_plan" || v["mcpschedd.steps"] != int64(1) || v["mcpschedd.depth"] != int64(1) {
		t.Errorf("got %q %v", spans[1].Name, v)
	}
}
