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

// trace begins the call's span.
func (r *callRecord) trace(begin Trace, params *revision.Params, tool string) {
	parent, _ := jsonrpc.String(params.Meta.Get("traceparent"))
	state, _ := jsonrpc.String(params.Meta.Get("tracestate"))
	r.span.parent, r.span.state, r.span.end = begin(parent, state, tool, r.at)
}

// traced are the params of a call with the trace context that goes upstream. r is nil if
// the call is not recorded.
func (r *callRecord) traced(params *revision.Params) *revision.Params {
	if r == nil || r.span.parent == "" {
		return params
	}
	meta := jsonrpc.Set(params.Meta.Raw(), "traceparent", jsonrpc.AppendString(nil, r.span.parent))
	if r.span.state != "" {
		meta = jsonrpc.Set(meta, "tracestate", jsonrpc.AppendString(nil, r.span.state))
	}
	return indexed(jsonrpc.Set(params.Raw(), "_meta", meta))
}
