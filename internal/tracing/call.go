package tracing

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"mcpschedd/internal/events"
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

// longestName (bytes) is how much of a name goes into a span: whoever calls or serves
// chooses it.
const longestName = 256

// Span is one call under way. The zero Span does nothing.
type Span struct {
	t    *Tracer
	span trace.Span // nil: no traces
	tool string     // as the client names it
}

// Call begins the span of one tools/call that arrived at this time for the tool as
// the client names it. The client's traceparent and tracestate become its parent; what
// is not well-formed (W3C Trace Context) counts as not given. Steps of a plan are begun
// with the plan's own [Span.Traceparent].
func (t *Tracer) Call(traceparent, tracestate, tool string, at time.Time) Span {
	if t == nil {
		return Span{}
	}
	s := Span{t: t, tool: cut(tool, longestName)}
	if t.tracer == nil {
		return s
	}
	_, s.span = t.tracer.Start(parent(traceparent, tracestate), method+" "+s.tool,
		trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(at),
		trace.WithAttributes(methodName.String(method), operationName.String("execute_tool"), toolName.String(s.tool)))
	return s
}

// parent returns a context with the sender's span, if it names one.
func parent(traceparent, tracestate string) context.Context {
	if traceparent == "" {
		return context.Background()
	}
	return propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": traceparent, "tracestate": tracestate})
}

// Traceparent is what the upstream is told in _meta as the call's parent. "": nothing
// is traced, and what the client sent goes on as it came.
func (s Span) Traceparent() string {
	if s.span == nil {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), s.span), carrier)
	return carrier["traceparent"]
}

// Tracestate goes with it; "": none, also where the client sent one that was not
// taken up.
func (s Span) Tracestate() string {
	if s.span == nil {
		return ""
	}
	return s.span.SpanContext().TraceState().String()
}

// End ends the span with what there is to say of it: the event of the call, or of the
// plan if it was for one. It ends when that says that it did. Without an event it ends
// now. A span that is not ended is never told of.
func (s Span) End(e *events.Event) {
	if s.t == nil {
		return
	}
	if e == nil {
		if s.span != nil {
			s.span.End()
		}
		return
	}
	failure := failed(e)
	s.measure(e, failure)
	if s.span == nil {
		return
	}
	if s.span.IsRecording() {
		if e.Upstream == "" && e.Kind == events.Call {
			s.span.SetName(method) // no such tool: the name is anything
		}
		s.span.SetAttributes(attributes(e)...)
		mark(s.span, failure)
	}
	s.span.End(trace.WithTimestamp(end(e)))
	if e.Kind == events.Call && e.Seq != 0 {
		s.t.tell(s.t.recent.call(one{e.Session, e.Seq}, s.span.SpanContext()))
	}
}

// measure counts a request that was answered, which a plan's step is not.
func (s Span) measure(e *events.Event, failure string) {
	if s.t.duration == nil || e.Step != "" {
		return
	}
	of := make([]attribute.KeyValue, 0, 4)
	of = append(of, methodName.String(method), operationName.String("execute_tool"))
	if e.Upstream != "" || e.Kind == events.Plan {
		of = append(of, toolName.String(s.tool))
	}
	if failure != "" {
		of = append(of, errorType.String(failure))
	}
	ctx := context.Background()
	if s.span != nil {
		ctx = trace.ContextWithSpan(ctx, s.span) // as an example of how long it takes
	}
	s.t.duration.Record(ctx, e.LatencyMS/1000, metric.WithAttributes(of...))
}

// end is when an event was over.
func end(e *events.Event) time.Time {
	return e.At.Add(time.Duration(e.LatencyMS * float64(time.Millisecond)))
}

// failed returns the kind of error that a call ended with. A call that its client
// withdrew is none.
func failed(e *events.Event) string {
	switch {
	case e.IsError:
		return toolFail
	case e.Disposition != events.Failed || e.Error == "cancelled":
		return ""
	case e.Error == "":
		return "_OTHER" // the conventions' word for it
	}
	return cut(e.Error, longestName)
}

func mark(span trace.Span, failure string) {
	if failure != "" {
		span.SetAttributes(errorType.String(failure))
		span.SetStatus(codes.Error, "")
	}
}

// attributes are what a call, a prefetch or a plan is described by; what is zero is
// left out, as in the event.
func attributes(e *events.Event) []attribute.KeyValue {
	a := make(list, 0, 24)
	a.text(string(sessionID), e.Session)
	a.number("mcpschedd.seq", e.Seq)
	a.text("mcpschedd.upstream", e.Upstream)
	if e.Upstream != "" {
		a.text("mcpschedd.tool", e.Upstream+"/"+e.Tool)
	}
	a.text("mcpschedd.host", e.Host)
	a.text("mcpschedd.class", e.Class)
	a.text("mcpschedd.disposition", string(e.Disposition))
	a.text("mcpschedd.error", e.Error)
	a.flag("mcpschedd.prefetched", e.Prefetched)
	a.number("mcpschedd.use_of", e.UseOf)
	a.amount("mcpschedd.hidden_ms", e.HiddenMS)
	a.amount("mcpschedd.age_ms", e.AgeMS)
	a.amount("mcpschedd.upstream_ms", e.UpstreamMS)
	a.number("mcpschedd.upstream_requests", int64(e.Sent))
	a.number("mcpschedd.result_bytes", e.Bytes)
	a.number("mcpschedd.result_tokens", e.Tokens)
	a.amount("mcpschedd.predicted_p", e.PredictedP)
	a.number("mcpschedd.predicted_tokens", e.Predicted)
	a.number("mcpschedd.turn", int64(e.Turn))
	a.number("mcpschedd.plan", int64(e.Plan))
	a.text("mcpschedd.step", e.Step)
	a.flag("mcpschedd.reference", e.Reference)
	a.number("mcpschedd.bytes_not_resent", e.NotResent)
	a.number("mcpschedd.inlined", int64(e.Inlined))
	a.flag("mcpschedd.backed_off", e.BackedOff)
	a.text("mcpschedd.fate", string(e.Fate))
	a.text("mcpschedd.cause", e.Cause)
	a.number("mcpschedd.used_by", e.UsedBy)
	a.text("mcpschedd.edge", e.Edge)
	a.flag("mcpschedd.configured", e.Configured)
	a.number("mcpschedd.steps", int64(e.Steps))
	a.number("mcpschedd.steps_failed", int64(e.StepsBad))
	a.number("mcpschedd.depth", int64(e.Depth))
	a.flag("mcpschedd.cancelled", e.Cancelled)
	return a
}

// list gathers attributes that are not zero.
type list []attribute.KeyValue

func (l *list) text(key, value string) {
	if value != "" {
		*l = append(*l, attribute.String(key, cut(value, longestName)))
	}
}

func (l *list) number(key string, value int64) {
	if value != 0 {
		*l = append(*l, attribute.Int64(key, value))
	}
}

func (l *list) amount(key string, value float64) {
	if value != 0 {
		*l = append(*l, attribute.Float64(key, value))
	}
}

func (l *list) flag(key string, value bool) {
	if value {
		*l = append(*l, attribute.Bool(key, true))
	}
}

// cut returns at most n bytes of s, as UTF-8: one wrong byte in it would keep all that
// is exported with it from being encoded.
func cut(s string, n int) string {
	if len(s) > n {
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
