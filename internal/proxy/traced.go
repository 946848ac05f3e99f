package proxy

import (
	"time"

	"mcpschedd/internal/events"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// Trace is told of a tools/call when it arrives, with the W3C trace context of its
// request ("": it has none), and returns that of the request upstream ("": what the
// client sent goes on), and a function that is to hear how the call ended, or nil.
type Trace func(traceparent, tracestate, tool string, at time.Time) (parent, state string, end func(*events.Event))

// span is one call as a tracing system sees it.
type span struct {
	parent, state string
	end           func(*events.Event)
}

// trace begins the call's span, if anything is traced.
func (x *request) trace() {
	begin := x.s.srv.policy.Load().Trace
	if begin == nil {
		return
	}
	parent, _ := jsonrpc.String(x.params.Meta.Get("traceparent"))
	state, _ := jsonrpc.String(x.params.Meta.Get("tracestate"))
	x.record.span.parent, x.record.span.state, x.record.span.end = begin(parent, state, x.tool, x.record.at)
}

// traced are the params with the trace context that goes upstream.
func (x *request) traced() *revision.Params {
	if x.record == nil || x.record.span.parent == "" {
		return x.params
	}
	span := &x.record.span
	meta := jsonrpc.Set(x.params.Meta.Raw(), "traceparent", jsonrpc.AppendString(nil, span.parent))
	if span.state != "" {
		meta = jsonrpc.Set(meta, "tracestate", jsonrpc.AppendString(nil, span.state))
	}
	return indexed(jsonrpc.Set(x.params.Raw(), "_meta", meta))
}
