package proxy

import (
	"iter"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/valuemodel"
)

// callClass is what a policy says of a request.
type callClass struct {
	effect call.Effect
	query  dedup.Query      // with an empty scope only the upstream may answer
	host   string           // whose limits count
	class  valuemodel.Class // of this very call; "": it is no tools/call
	task   bool             // it asks to be run as a task
}

// classify says what a request may change, and whether it may be answered by
// anything but its upstream.
func (j *upstreamCall) classify(p *policy, l *leased) callClass {
	m := j.s.srv.catalog.model(p, l, j.tool)
	if j.method == "tools/call" {
		return j.classifyCall(p, l, m)
	}
	out := callClass{host: m.Host}
	if !reads(j.method) { // one that does more than read is a write to all of an upstream
		out.effect = m.Writes(unknown)
	}
	return out
}

// longest is how many bytes of arguments a key may have: a call with more is not
// one that comes again.
const longest = 16 << 10

// classifyCall is judge for a tools/call.
func (j *upstreamCall) classifyCall(p *policy, l *leased, m *valuemodel.Model) callClass {
	out := callClass{host: m.Host, task: jsonrpc.Get(j.params, "task") != nil}
	if !m.Asks() { // a write, whatever its arguments
		out.effect, out.class = m.Writes(unknown), m.Class
		return out
	}
	raw, plain := arguments(j.params)
	args, names := unknown, iter.Seq[string](nil)
	if jsonrpc.Unambiguous(raw) { // else servers may disagree on what it says
		args = func(name string) []byte { return jsonrpc.Get(raw, name) }
		names = namesOf(raw)
	}
	out.host = m.HostOf(args)
	class := m.ClassOf(args, names)
	out.class = class
	if !class.Reads() {
		out.effect = m.Writes(args)
		return out
	}
	file, whole := m.File(args)
	key, keyed := j.key(l, raw)
	if !plain || !whole || !keyed {
		return out
	}
	out.query = dedup.Query{
		Key: key, Places: m.Reads(args), Delivered: j.delivered(), Number: j.number,
		Use: dedup.Use{
			Pure: class == valuemodel.Pure, Freshness: m.Cost.Freshness, MaxAge: p.MaxAge,
			Volatile: m.Volatile != nil && *m.Volatile, File: file, Repeats: m.FailFastAfter, BackOff: m.BackOff,
			Trial: hearsay(m) && !j.s.srv.prefetcher.learned.tool(l, j.tool).proven, Alike: alike,
		},
	}
	return out
}

// delivered is where what the client is given is noted; nil: it is not given the
// answer as it is.
func (j *upstreamCall) delivered() *dedup.Delivered {
	if j.step {
		return nil
	}
	return j.s.identity.delivered
}

// namesOf yields the names of an object's members.
func namesOf(object []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		for m := range jsonrpc.Members(object) {
			if !yield(string(m.Name)) {
				return
			}
		}
	}
}

// key says which call it is; false if its answers are nobody's, or its arguments
// not such that an equal call can be told.
func (j *upstreamCall) key(l *leased, raw []byte) (call.Key, bool) {
	scope := j.s.identity.scope
	if l.member.SharedIdentity && l.Shared() {
		scope = everyone
		if l.Stateless() { // such a server is told with each call what its client can do
			scope += string(j.capabilities())
		}
	}
	if scope == "" || len(raw) > longest {
		return call.Key{}, false
	}
	canonical, ok := jsonrpc.AppendCanonical(nil, raw)
	return call.Key{Upstream: l.Instance(), Scope: scope, Tool: j.tool, Arguments: string(canonical)}, ok
}

// capabilities are what the server is told that the client can do.
func (j *upstreamCall) capabilities() []byte {
	if hop, ok := revision.ReadHop(j.params); ok {
		return hop.Capabilities
	}
	return j.s.client.facts().Capabilities
}

// everyone is the scope of an upstream that takes all sessions for one
// principal. No session has it.
const everyone = "*"

// unknown are arguments of which nothing is known.
func unknown(string) []byte { return nil }

// arguments returns the raw arguments of a tools/call, "{}" if it has none or
// servers may disagree on which they are, and whether it is plain: says nothing
// else that an answer may depend on.
func arguments(params []byte) (raw []byte, plain bool) {
	plain, raw = true, noArguments
	for m := range jsonrpc.Members(params) {
		switch name := string(m.Name); {
		case name == "name":
		case name == "arguments":
			if raw = m.Value; string(raw) == "null" {
				raw = noArguments
			}
		case name == "_meta":
			plain = plain && ignorable(m.Value)
		default:
			plain = false
		}
	}
	if !jsonrpc.Unambiguous(params) {
		return noArguments, false
	}
	return raw, plain && raw[0] == '{'
}

var noArguments = []byte("{}")

// ignorable reports whether a request's _meta says nothing that its answer may
// depend on.
func ignorable(meta []byte) bool {
	for m := range jsonrpc.Members(meta) {
		switch name := string(m.Name); name {
		case "progressToken", "traceparent", "tracestate", "baggage", "claudecode/toolUseId":
		default:
			if !revision.OfHop(name) {
				return false
			}
		}
	}
	return true
}

// reads reports whether a request of that method certainly changes nothing that
// a tool's answer may depend on.
func reads(method string) bool {
	switch method {
	case "ping", "initialize", "server/discover", "subscriptions/listen", "logging/setLevel", "completion/complete",
		"tools/list", "prompts/list", "prompts/get",
		"resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
		"tasks/list", "tasks/get", "tasks/result":
		return true
	}
	return false
}
