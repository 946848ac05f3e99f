package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"mcpschedd/internal/events"
)

// Prefetch tells of a prefetch of which it is known what became. Its span and that of
// the call that used it may come in any order.
func (t *Tracer) Prefetch(e *events.Event) {
	if t == nil || t.tracer == nil {
		return
	}
	t.tell(t.recent.prefetch(e))
}

// tell writes the spans of prefetches.
func (t *Tracer) tell(all []told) {
	for i := range all {
		p := &all[i]
		options := []trace.SpanStartOption{
			trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(p.At),
			trace.WithAttributes(methodName.String(method), operationName.String("execute_tool"),
				toolName.String(cut(p.Tool, longestName)), attribute.Bool("mcpschedd.prefetch", true)),
		}
		if p.used.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: p.used}))
		}
		ctx := trace.ContextWithSpanContext(context.Background(), p.after)
		_, span := t.tracer.Start(ctx, method+" "+cut(p.Tool, longestName), options...)
		if span.IsRecording() {
			span.SetAttributes(attributes(&p.Event)...)
			if p.IsError || p.Cause == "error" {
				mark(span, toolFail)
			}
		}
		span.End(trace.WithTimestamp(end(&p.Event)))
	}
}
