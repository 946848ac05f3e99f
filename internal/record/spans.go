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
	otelmetric "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Names of the semantic conventions for MCP and generative AI, which are still in
// development: so they stand here, and not in a version of a package.
const (
	methodName    = attribute.Key("mcp.method.name")
	sessionID     = attribute.Key("mcp.session.id")
	toolName      = attribute.Key("gen_ai.tool.name")
	operationName = attribute.Key("gen_ai.operation.name")
	errorType     = attribute.Key("error.type")

	method   = "tools/call"
	toolFail = "tool_error" // the answer says isError
)

// Trace traces calls; nil if nothing is exported.
func (t *OTLP) Trace() Trace {
	if t == nil {
		return nil
	}
	return t.trace
}

// trace begins the span of one tools/call. The client's trace context becomes its parent;
// what is not well-formed (W3C Trace Context) counts as not given.
func (t *OTLP) trace(traceparent, tracestate, tool string, at time.Time) (parent, state string, end func(*Event)) {
	tool = cut(tool, longest)
	if t.tracer == nil {
		return "", "", func(e *Event) { t.measure(e, nil, tool) }
	}
	ctx := context.Background()
	if traceparent != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent, "tracestate": tracestate})
	}
	_, span := t.tracer.Start(ctx, method+" "+tool, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(at), called(tool))
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), span), carrier)
	return carrier["traceparent"], span.SpanContext().TraceState().String(), func(e *Event) { t.end(span, e, tool) }
}

// called says that a span is a call of a tool.
func called(tool string) trace.SpanStartEventOption {
	return trace.WithAttributes(methodName.String(method), operationName.String("execute_tool"), toolName.String(tool))
}

// end ends the span of a call with its event.
func (t *OTLP) end(span trace.Span, e *Event, tool string) {
	t.measure(e, span, tool)
	if span.IsRecording() {
		if e.Upstream == "" && e.Kind == Call {
			span.SetName(method) // no such tool: the name may be anything
		}
		span.SetAttributes(attributes(e)...)
		mark(span, failure(e))
	}
	if e.Seq != 0 {
		t.spans.Add(spanKey{e.Session, e.Seq}, span.SpanContext())
	}
	span.End(trace.WithTimestamp(ended(e)))
}

// Prefetch exports a prefetch whose fate is known, after the calls that it belongs to have
// ended.
func (t *OTLP) Prefetch(e *Event) {
	if t == nil || t.tracer == nil {
		return
	}
	tool := cut(e.Tool, longest)
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(e.At), called(tool),
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
			mark(span, toolFail)
		}
	}
	span.End(trace.WithTimestamp(ended(e)))
}

// measure counts a request that was answered, which a plan's step is not.
func (t *OTLP) measure(e *Event, span trace.Span, tool string) {
	if t.duration == nil || e.Step != "" {
		return
	}
	of := []attribute.KeyValue{methodName.String(method), operationName.String("execute_tool")}
	if e.Upstream != "" || e.Kind == Plan {
		of = append(of, toolName.String(tool))
	}
	if failure := failure(e); failure != "" {
		of = append(of, errorType.String(failure))
	}
	ctx := context.Background()
	if span != nil {
		ctx = trace.ContextWithSpan(ctx, span) // as an example of how long it takes
	}
	t.duration.Record(ctx, e.LatencyMS/1000, otelmetric.WithAttributes(of...))
}

// ended is when an event was over.
func ended(e *Event) time.Time {
	return e.At.Add(time.Duration(e.LatencyMS * float64(time.Millisecond)))
}

// failure returns the kind of error that a call ended with. A call that its client withdrew
// is none.
func failure(e *Event) string {
	switch {
	case e.IsError:
		return toolFail
	case e.Disposition != Failed || e.Error == "cancelled":
		return ""
	case e.Error == "":
		return "_OTHER" // the conventions' word for it
	}
	return cut(e.Error, longest)
}

func mark(span trace.Span, failure string) {
	if failure != "" {
		span.SetAttributes(errorType.String(failure))
		span.SetStatus(codes.Error, "")
	}
}

// spanFields are the fields of an event that a span has, as attributes that are named as in a
// line of the log, unless a span tag says otherwise; "-": it has none.
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

// attributes describe a call, a prefetch or a plan; what is zero is left out, as in the
// event.
func attributes(e *Event) (all []attribute.KeyValue) {
	if e.Session != "" {
		all = append(all, sessionID.String(cut(e.Session, longest)))
	}
	if e.Upstream != "" {
		all = append(all, attribute.String("mcpschedd.tool", cut(e.Upstream+"/"+e.Tool, longest)))
	}
	of := reflect.ValueOf(e).Elem()
	for i, key := range spanFields {
		switch v := of.Field(i); {
		case v.IsZero():
		case v.CanInt():
			all = append(all, key.Int64(v.Int()))
		case v.CanFloat():
			all = append(all, key.Float64(v.Float()))
		case v.Kind() == reflect.Bool:
			all = append(all, key.Bool(true))
		case v.Kind() == reflect.String:
			all = append(all, key.String(cut(v.String(), longest)))
		}
	}
	return all
}
