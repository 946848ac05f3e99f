package tracing_test

import (
	"fmt"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"mcpschedd/internal/events"
	"mcpschedd/internal/tracing"
)

func call(tr *tracing.Tracer, session string, seq int64) {
	tr.Call("", "", "x", at).End(&events.Event{Kind: events.Call, At: at, Session: session, Seq: seq, Upstream: "u", Tool: "x", Disposition: events.Fetched})
}

// span returns the one of a call or prefetch.
func span(t *testing.T, spans tracetest.SpanStubs, session string, seq int64) tracetest.SpanStub {
	t.Helper()
	for _, s := range spans {
		if v := values(s); v["mcp.session.id"] == session && v["mcpschedd.seq"] == seq {
			return s
		}
	}
	t.Fatalf("no span for %s %d in %v", session, seq, spans)
	return tracetest.SpanStub{}
}

// A prefetch hangs on the call that made it likely and links to the one that used it,
// in whatever order they become known.
func TestPrefetch(t *testing.T) {
	prefetch := events.Event{
		Kind: events.Prefetch, At: at.Add(time.Second), Session: "s", Seq: 2, Upstream: "u", Tool: "y", LatencyMS: 40,
		Fate: events.Used, UsedBy: 3, After: 1, PredictedP: 0.8, Edge: "x -> y", Sent: 1,
	}
	elsewhere := prefetch
	elsewhere.BySession = "other"
	for _, c := range []struct {
		name  string
		event events.Event
		run   func(tr *tracing.Tracer, e *events.Event)
		user  string // session of the call that used it
	}{
		{"the call first", prefetch, func(tr *tracing.Tracer, e *events.Event) { call(tr, "s", 1); call(tr, "s", 3); tr.Prefetch(e) }, "s"},
		{"the prefetch first", prefetch, func(tr *tracing.Tracer, e *events.Event) { call(tr, "s", 1); tr.Prefetch(e); call(tr, "s", 3) }, "s"},
		{"of another session", elsewhere, func(tr *tracing.Tracer, e *events.Event) {
			call(tr, "s", 1)
			call(tr, "s", 3)
			tr.Prefetch(e)
			call(tr, "other", 3)
		}, "other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spans := told(t, func(tr *tracing.Tracer) { c.run(tr, &c.event) })
			p, after, by := span(t, spans, "s", 2), span(t, spans, "s", 1), span(t, spans, c.user, 3)
			if p.Parent.SpanID() != after.SpanContext.SpanID() || p.SpanContext.TraceID() != after.SpanContext.TraceID() {
				t.Errorf("got parent %v, want %v", p.Parent, after.SpanContext)
			}
			if len(p.Links) != 1 || !p.Links[0].SpanContext.Equal(by.SpanContext) {
				t.Errorf("got links %v, want %v", p.Links, by.SpanContext)
			}
			if p.Name != "tools/call y" || p.SpanKind != trace.SpanKindClient || !p.StartTime.Equal(c.event.At) || p.EndTime.Sub(p.StartTime) != 40*time.Millisecond {
				t.Errorf("got %q %v from %v to %v", p.Name, p.SpanKind, p.StartTime, p.EndTime)
			}
			if v := values(p); v["mcpschedd.prefetch"] != true || v["mcpschedd.fate"] != "used" || v["mcpschedd.predicted_p"] != 0.8 {
				t.Errorf("got %v", v)
			}
		})
	}
}

// One whose call is never told of is told of at the end, without a link.
func TestPrefetchWaitsInVain(t *testing.T) {
	spans := told(t, func(tr *tracing.Tracer) {
		call(tr, "s", 1)
		tr.Prefetch(&events.Event{Kind: events.Prefetch, At: at, Session: "s", Seq: 2, After: 1, Fate: events.Used, UsedBy: 3})
		tr.Prefetch(&events.Event{Kind: events.Prefetch, At: at, Session: "s", Seq: 4, Fate: events.Wasted, Cause: "error"})
	})
	if p := span(t, spans, "s", 2); len(p.Links) != 0 || p.Parent.SpanID() != span(t, spans, "s", 1).SpanContext.SpanID() {
		t.Errorf("got links %v, parent %v", p.Links, p.Parent)
	}
	if p := span(t, spans, "s", 4); p.Status.Code != codes.Error || p.Parent.IsValid() {
		t.Errorf("got %v under %v, want an error under nothing", p.Status, p.Parent)
	}
}

// What is remembered is bounded, and all is told of once.
func TestRemembered(t *testing.T) {
	const calls, prefetches = tracing.KeepCalls + 500, tracing.KeepWaiting + 300
	tr, err := tracing.StartWith(t.Context(), tracing.Options{}, tracetest.NewNoopExporter(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close(t.Context())
	for i := range int64(calls) {
		call(tr, "s", i+1)
	}
	for i := range int64(prefetches) {
		tr.Prefetch(&events.Event{Kind: events.Prefetch, Session: "p", Seq: i + 1, UsedBy: i + 1, BySession: fmt.Sprint("never", i)})
	}
	if calls, waiting := tr.Recalled(); calls != tracing.KeepCalls || waiting != tracing.KeepWaiting {
		t.Errorf("got %d calls and %d prefetches remembered, want %d and %d", calls, waiting, tracing.KeepCalls, tracing.KeepWaiting)
	}
}
