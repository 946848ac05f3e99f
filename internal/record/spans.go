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
)

// Names of the semantic conventions for MCP and generative AI. These are still in development,
// so the names are defined here and not taken from a version of a package.
const (
	methodName    = attribute.Key("mcp.method.name")
	sessionID     = attribute.Key("mcp.session.id")
	toolName      = attribute.Key("gen_ai.tool.name")
	operationName = attribute.Key("gen_ai.operation.name")
	errorType     = attribute.Key("error.type")

	method   = "tools/call"
	toolFail = "tool_error" // the answer has isError set
)

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
	tool = truncate(tool, maxName)
	ctx := context.Background()
	if traceparent != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent, "tracestate": tracestate})
	}
	_, span := t.tracer.Start(ctx, method+" "+tool, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(at), toolAttributes(tool))
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), span), carrier)
	return carrier["traceparent"], span.SpanContext().TraceState().String(), func(e *Event) { t.end(span, e) }
}

// toolAttributes returns the attributes of a tool call's span.
func toolAttributes(tool string) trace.SpanStartEventOption {
	return trace.WithAttributes(methodName.String(method), operationName.String("execute_tool"), toolName.String(tool))
}

// end ends the span of a call with its event.
func (t *OTLP) end(span trace.Span, e *Event) {
	if span.IsRecording() {
		if e.Upstream == "" && e.Kind == Call {
			span.SetName(method) // no such tool, so the client chose the name freely
		}
		span.SetAttributes(attributes(e)...)
		markError(span, failure(e))
	}
	if e.Seq != 0 {
		t.spans.Add(spanKey{e.Session, e.Seq}, span.SpanContext())
	}
	span.End(trace.WithTimestamp(e.endTime()))
}

// Prefetch exports a prefetch whose fate is known. The spans of the calls that it refers to
// must have ended.
func (t *OTLP) Prefetch(e *Event) {
	if t == nil || t.tracer == nil {
		return
	}
	tool := truncate(e.Tool, maxName)
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(e.At), toolAttributes(tool),
		trace.WithAttributes(attribute.Bool("mcpschedd.prefetch", true))}
	by := spanKey{e.Session, e.UsedBy}
	if e.BySession != "" {
		by.session = e.BySession
	}
	if user, ok := t.spans.Get(by); ok {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: user}))
	}
	after, _ := t.spans.Get(spanKey{e.Session, e.After})
	_, span := t.tracer.Start(trace.ContextWithSpanContext(context.Background(), after), method+" "+tool, options...)
	if span.IsRecording() {
		span.SetAttributes(attributes(e)...)
		if e.IsError || e.Cause == "error" {
			markError(span, toolFail)
		}
	}
	span.End(trace.WithTimestamp(e.endTime()))
}

// failure returns the error type of a call, or "" if it did not fail. A call that its client
// cancelled did not fail.
func failure(e *Event) string {
	switch {
	case e.IsError:
		return toolFail
	case e.Disposition != Failed || e.Error == "cancelled":
		return ""
	case e.Error == "":
		return "_OTHER" // fallback value of the semantic conventions
	}
	return truncate(e.Error, maxName)
}

func markError(span trace.Span, failure string) {
	if failure != "" {
		span.SetAttributes(errorType.String(failure))
		span.SetStatus(codes.Error, "")
	}
}

// spanFields maps the index of an Event field to its span attribute. The attribute has the
// field's JSON name, or that of the span tag; "-" means no attribute.
var spanFields = func() map[int]attribute.Key {
	all := make(map[int]attribute.Key)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Event]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name = cmp.Or(f.Tag.Get("span"), name); name != "-" {
			all[f.Index[0]] = attribute.Key("mcpschedd." + name)
		}
	}
	return all
}()

// attributes returns the attributes of a call, prefetch or plan. As in the log, zero fields are
// left out.
func attributes(e *Event) (all []attribute.KeyValue) {
	if e.Session != "" {
		all = append(all, sessionID.String(truncate(e.Session, maxName)))
	}
	if e.Upstream != "" {
		all = append(all, attribute.String("mcpschedd.tool", truncate(e.Upstream+"/"+e.Tool, maxName)))
	}
	event := reflect.ValueOf(e).Elem()
	for i, key := range spanFields {
		switch v := event.Field(i); {
		case v.IsZero():
		case v.CanInt():
			all = append(all, key.Int64(v.Int()))
		case v.CanFloat():
			all = append(all, key.Float64(v.Float()))
		case v.Kind() == reflect.Bool:
			all = append(all, key.Bool(true))
		case v.Kind() == reflect.String:
			all = append(all, key.String(truncate(v.String(), maxName)))
		}
	}
	return all
}
