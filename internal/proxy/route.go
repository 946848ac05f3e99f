package proxy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// handlers holds the methods that the proxy serves itself.
var handlers = map[string]handler{
	"ping": serveEmpty, "initialize": serveInitialize, "server/discover": serveInitialize,
	"tools/list": listHandler(upstream.Tools), "prompts/list": listHandler(upstream.Prompts),
	"resources/list": listHandler(upstream.Resources), "resources/templates/list": listHandler(upstream.Templates),
	"subscriptions/listen": serveListen, "tasks/list": serveTaskList, "logging/setLevel": serveEmpty,
}

// route decides what answers a request: the proxy itself or an upstream. It runs on the
// client's reader and takes the turn at the upstream, so that requests are sent in the order
// of arrival. It returns why the request is refused, if it is.
func (x *request) route() error {
	switch x.msg.Method {
	case "tools/call":
		return x.routeName(upstream.Tools)
	case "prompts/get":
		return x.routeName(upstream.Prompts)
	case "logging/setLevel":
		if err := setLevel(x.s, &x.msg.Index); err != nil {
			return err
		}
	}
	if x.handler = handlers[x.msg.Method]; x.handler == nil {
		return x.routeOther()
	}
	return nil
}

// serveEmpty serves a request that has no result.
func serveEmpty(*request) outcome { return ownOutcome([]byte("{}")) }

// routeName routes a request by params.name.
func (x *request) routeName(l upstream.List) error {
	name, err := routingMember(&x.msg.Index, "name")
	if err != nil {
		return err
	}
	wrapper := "" // the proxy's tool that wraps the called tool; "" if none does
	if l == upstream.Tools && x.step == nil {
		switch own := x.view.ownTool(name); {
		case own == nil:
		case own.serve == nil: // a wrapper
			if err := x.unwrap(); err != nil {
				return err
			}
			wrapper, name = name, x.msg.Index.Text("name")
		case x.msg.Replayed && own.name != findTool && own.name != readTool: // a plan
			return errOutcomeUnknown
		default:
			x.handler = func(x *request) outcome { return serveOwnTool(x, own) }
			return nil
		}
	}
	t, lease := x.view.Resolve(l, name)
	switch {
	case lease == nil && x.msg.Replayed && l == upstream.Tools:
		return errOutcomeUnknown
	case lease == nil && wrapper != "":
		return x.view.unknownTool(name)
	case lease == nil:
		text := fmt.Sprintf("unknown %s %q", l.Capability()[:len(l.Capability())-1], name)
		if mistake, _, _ := strings.Cut(x.s.srv.rejection(), "\n"); mistake != "" {
			text += "; the configuration has mistakes, which may be why: " + mistake
		}
		return invalidParams(text)
	}
	c := newCall(x, lease, rawName(t.Name, name))
	if l != upstream.Tools {
		x.bind(c)
		return nil
	}
	if err := checkHeader(x.msg, lease, t.Name); err != nil {
		return err
	}
	c.tool = t.Name
	return x.routeTool(c, wrapper)
}

// rawName returns upstreamName, the upstream's name, as JSON, or nil if the client uses the same name.
func rawName(upstreamName, name string) []byte {
	if upstreamName == name {
		return nil
	}
	return jsonrpc.AppendString(nil, upstreamName)
}

// checkHeader compares the Mcp-Param-* headers of a call over HTTP with its arguments, if the
// tool's schema declares such headers. A tool that is not known yet declares none.
func checkHeader(m *front.Message, l *catalog.Lease, tool string) *jsonrpc.Error {
	if m.Header == nil {
		return nil
	}
	item, _ := l.Offer().Find(upstream.Tools, tool)
	schema, params := item.HeaderParams(&m.Index.Index)
	lookup := func(name string) (string, bool) {
		values := m.Header.Values(name)
		return strings.Join(values, ", "), values != nil
	}
	if err := mcp.ValidateParamHeadersLookup(lookup, schema, params); err != nil {
		return front.Mismatch(err.Error())
	}
	return nil
}

// routeOther routes a request that does not name a tool or a prompt. If several upstreams may be
// able to answer, the request tries each.
func (x *request) routeOther() error {
	leases := *x.s.leases.load()
	found := leases
	var renamed []byte // raw reference at the upstream; nil if it does not differ
	var err *jsonrpc.Error
	switch x.msg.Method {
	case "resources/read", "resources/subscribe", "resources/unsubscribe":
		uri, wrong := routingMember(&x.msg.Index, "uri")
		if wrong != nil {
			return wrong
		}
		if x.msg.Method != "resources/read" {
			return x.routeSubscription(uri, x.msg.Method == "resources/subscribe")
		}
		if own, ok := x.view.ownResource(uri); ok {
			x.handler = func(x *request) outcome { return serveOwnResource(x, own, uri) }
			return nil
		}
		found = leases.Holders(uri)
	case "tasks/get", "tasks/result", "tasks/cancel", "tasks/update":
		found, err = x.s.tasks.holders(x.msg.Method, x.msg.Index.Get("taskId"), leases)
	case "completion/complete":
		if found, renamed, err = completers(x, leases, x.msg.Index.Get("ref")); err == nil && len(found) == 0 { // completions are declared even if no upstream has them
			x.handler = func(*request) outcome { return ownOutcome([]byte(`{"completion":{"values":[]}}`)) }
			return nil
		}
	default:
		if len(found) != 1 {
			err = &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: fmt.Sprintf("method %q not found", x.msg.Method)}
		}
	}
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: x.msg.Method + ": no server offers this"}
	case len(found) == 1:
		x.bind(newCall(x, found[0], renamed))
	default:
		x.handler = func(x *request) outcome { return tryEach(x, found, renamed) }
	}
	return nil
}

// completers returns the upstreams that may complete ref. renamed is ref with the upstream's
// name for a prompt, or nil if that does not differ.
func completers(x *request, leases catalog.Leases, ref []byte) (found catalog.Leases, renamed []byte, err *jsonrpc.Error) {
	uri, isURI := jsonrpc.String(jsonrpc.Get(ref, "uri"))
	name, isName := jsonrpc.String(jsonrpc.Get(ref, "name"))
	switch {
	case isName:
		t, l := x.view.Resolve(upstream.Prompts, name)
		if l == nil {
			return nil, nil, invalidParams(fmt.Sprintf("params.ref: unknown prompt %q", name))
		}
		if found = (catalog.Leases{l}); t.Name != name {
			renamed = jsonrpc.Set(ref, "name", jsonrpc.AppendString(nil, t.Name))
		}
	case isURI:
		found = leases.Holders(uri)
	default:
		return nil, nil, invalidParams("params.ref: want a prompt's name or a resource's uri")
	}
	return found.Filter(func(l *catalog.Lease) bool { return l.Offer().Has("completions") }), renamed, nil
}

// tryEach sends the request to one upstream after the other until one succeeds, to connected
// upstreams first. It is used only for requests that change nothing. If all fail, it prefers the
// failure to reach an upstream to another's error: that upstream may have what the others lack.
func tryEach(x *request, candidates catalog.Leases, renamed []byte) outcome {
	live := candidates.Filter(func(l *catalog.Lease) bool { return l.Live() })
	others := candidates.Filter(func(l *catalog.Lease) bool { return !slices.Contains(live, l) })
	var last *upstreamCall
	var failure outcome
	for _, l := range append(live, others...) {
		o := callUpstream(x, newCall(x, l, renamed))
		if o.err == nil && o.answer.Error == nil || x.ctx.Err() != nil {
			return o
		}
		if last == nil || failure.err == nil && o.err != nil {
			last, failure = x.call, o
		}
	}
	x.call = last // the error is that call's
	return failure
}

// callUpstream makes one of several calls of the request, and waits for the outcome.
func callUpstream(x *request, c *upstreamCall) outcome {
	x.bind(c)
	return waitFor(x.makeCall)
}

// routingMember returns the string member that routes a request. It refuses params that contain
// the member twice or in another letter case, as the server might read the other one.
func routingMember(params *revision.Params, member string) (string, *jsonrpc.Error) {
	value, other := params.Sole(member)
	text, ok := jsonrpc.String(value)
	switch {
	case other != nil:
		return "", invalidParams("params." + string(other) + ": ambiguous with params." + member)
	case value == nil:
		return "", invalidParams("params." + member + ": missing")
	case !ok:
		return "", invalidParams("params." + member + ": want a string")
	}
	return text, nil
}
