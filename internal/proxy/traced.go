package proxy

import (
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/record"
	"mcpschedd/internal/revision"
)

// span is one call as a tracing system sees it.
type span struct {
	parent, state string
	end           func(*record.Event)
}

// trace begins the call's span.
func (r *callRecord) trace(begin record.Trace, params *revision.Params, tool string) {
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
