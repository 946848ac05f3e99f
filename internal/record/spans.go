//go:build !lean

package record

import (
	"cmp"
	"context"
	"reflect"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"mcpschedd/internal/excerpt"
)

// method is the name of a span for an unknown tool, and the first word of the other names.
const method = "tools/call"

// callKey identifies a call.
type callKey struct {
	session string
	seq     int64
}

// Trace returns the function that traces calls, or nil if no traces are exported.
func (t *OTLP) Trace() Trace {
	if t == nil || t.tracer == nil {
		return nil
	}
	return t.trace
}

// trace starts the span of one tools/call. The client's trace context becomes its parent; one
// that is not well-formed (W3C Trace Context) is ignored.
func (t *OTLP) trace(traceparent, tracestate, tool string, at time.Time) (parent, state string, end func(*Event)) {
	ctx := context.Background()
	if traceparent != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent, "tracestate": tracestate})
	}
	span := t.start(ctx, tool, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(at))
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), span), carrier)
	return carrier["traceparent"], span.SpanContext().TraceState().String(), func(e *Event) {
		if e.Upstream == "" && e.Kind == Call {
			span.SetName(method) // no such tool, so the client chose the name freely
		}
		if e.Seq != 0 {
			t.spans.Add(callKey{e.Session, e.Seq}, span.SpanContext())
		}
		endSpan(span, e)
	}
}

// Prefetch exports a prefetch once its fate is known. The spans of the calls that it refers to
// must have ended.
func (t *OTLP) Prefetch(e *Event) {
	if t == nil || t.tracer == nil {
		return
	}
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(e.At),
		trace.WithAttributes(attribute.Bool("mcpschedd.prefetch", true)),
	}
	if user, ok := t.spans.Get(callKey{cmp.Or(e.BySession, e.Session), e.UsedBy}); ok {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: user}))
	}
	after, _ := t.spans.Get(callKey{e.Session, e.After})
	endSpan(t.start(trace.ContextWithSpanContext(context.Background(), after), e.Tool, options...), e)
}

// start starts the span of a call. Names follow the semantic conventions for MCP and generative
// AI, which are still in development.
func (t *OTLP) start(ctx context.Context, tool string, options ...trace.SpanStartOption) trace.Span {
	tool = excerpt.Shorten(tool, maxName)
	options = append(options, trace.WithAttributes(
		attribute.String("mcp.method.name", method),
		attribute.String("gen_ai.operation.name", "execute_tool"),
		attribute.String("gen_ai.tool.name", tool)))
	_, span := t.tracer.Start(ctx, method+" "+tool, options...)
	return span
}

// endSpan ends the span of a call with its event.
func endSpan(span trace.Span, e *Event) {
	if span.IsRecording() {
		span.SetAttributes(attributes(e)...)
		if failure := failure(e); failure != "" {
			span.SetAttributes(attribute.String("error.type", failure))
			span.SetStatus(codes.Error, "")
		}
	}
	span.End(trace.WithTimestamp(e.At.Add(time.Duration(e.LatencyMS * float64(time.Millisecond)))))
}

// failure returns the error type of a call, or "" if it did not fail. A call that its client
// cancelled did not fail.
func failure(e *Event) string {
	switch {
	case e.IsError || e.Cause == "error":
		return "tool_error"
	case e.Disposition != Failed || e.Error == "cancelled":
		return ""
	}
	return cmp.Or(excerpt.Shorten(e.Error, maxName), "_OTHER") // the fallback of the semantic conventions
}

// attributes returns the attributes of a call, prefetch or plan: the fields of its event, as in
// the log without zero values.
func attributes(e *Event) (all []attribute.KeyValue) {
	if e.Session != "" {
		all = append(all, attribute.String("mcp.session.id", excerpt.Shorten(e.Session, maxName)))
	}
	if e.Upstream != "" {
		all = append(all, attribute.String("mcpschedd.tool", excerpt.Shorten(e.Upstream+"/"+e.Tool, maxName)))
	}
	for field, v := range reflect.ValueOf(e).Elem().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		key := attribute.Key("mcpschedd." + name)
		switch {
		case field.Tag.Get("span") == "-" || v.IsZero():
		case v.CanInt():
			all = append(all, key.Int64(v.Int()))
		case v.CanFloat():
			all = append(all, key.Float64(v.Float()))
		case v.Kind() == reflect.Bool:
			all = append(all, key.Bool(true))
		case v.Kind() == reflect.String:
			all = append(all, key.String(excerpt.Shorten(v.String(), maxName)))
		}
	}
	return all
}
