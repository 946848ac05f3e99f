package proxy

import (
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/record"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/speculate"
)

// span is one call as a tracing system sees it.
type span struct {
	speculate.Trace // what its requests carry
	end             func(*record.Event)
}

// trace begins the call's span.
func (r *callRecord) trace(begin record.Trace, params *revision.Params, tool string) {
	given := carried(params)
	r.span.Parent, r.span.State, r.span.end = begin(given.Parent, given.State, tool, r.at)
}

// carried is the trace context that a client has given a call.
func carried(params *revision.Params) (t speculate.Trace) {
	t.Parent, _ = jsonrpc.String(params.Meta.Get("traceparent"))
	t.State, _ = jsonrpc.String(params.Meta.Get("tracestate"))
	return t
}

// context is what the prefetches carry that follow from the call: its own span, or what its
// client has given it.
func (r *callRecord) context(params *revision.Params) speculate.Trace {
	if r.span.Parent != "" {
		return r.span.Trace
	}
	return carried(params)
}

// traced are the params of a call with the trace context that goes upstream. r is nil if
// the call is not recorded.
func (r *callRecord) traced(params *revision.Params) *revision.Params {
	if r == nil || r.span.Parent == "" {
		return params
	}
	meta := jsonrpc.Set(params.Meta.Raw(), "traceparent", jsonrpc.AppendString(nil, r.span.Parent))
	if r.span.State != "" {
		meta = jsonrpc.Set(meta, "tracestate", jsonrpc.AppendString(nil, r.span.State))
	}
	return indexed(jsonrpc.Set(params.Raw(), "_meta", meta))
}
