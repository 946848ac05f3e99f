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
func (c *upstreamCall) trace(p *policy) {
	begin := p.Trace
	if begin == nil {
		return
	}
	parent, _ := jsonrpc.String(c.params.Meta.Get("traceparent"))
	state, _ := jsonrpc.String(c.params.Meta.Get("tracestate"))
	span := &c.record.span
	span.parent, span.state, span.end = begin(parent, state, c.tool, c.record.at)
}

// traced are the params with the trace context that goes upstream.
func (c *upstreamCall) traced() *revision.Params {
	if c.record == nil || c.record.span.parent == "" {
		return c.params
	}
	span := &c.record.span
	meta := jsonrpc.Set(c.params.Meta.Raw(), "traceparent", jsonrpc.AppendString(nil, span.parent))
	if span.state != "" {
		meta = jsonrpc.Set(meta, "tracestate", jsonrpc.AppendString(nil, span.state))
	}
	return indexed(jsonrpc.Set(c.params.Raw(), "_meta", meta))
}
