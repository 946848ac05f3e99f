package proxy

import (
	"bytes"
	"iter"
	"strings"

	"mcpschedd/internal/call"
	"mcpschedd/internal/catalog"
	"mcpschedd/internal/classify"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/valuemodel"
)

// callClass is the classification of a call by a policy.
type callClass struct {
	effect call.Effect
	query  dedup.Query      // an empty scope means that only the upstream may answer
	host   string           // host of the limits that apply
	kind   valuemodel.Class // class of this call, arguments included, or mayWrite; "" unless it is a tools/call
}

// mayWrite is the class of a call that counts as a write not for want of a classification of its tool, but
// because of one, such as its server's annotations.
const mayWrite valuemodel.Class = "may_write"

// classOfCall returns a call's class by the class that the tool's model gives it.
func classOfCall(m *valuemodel.Model, class valuemodel.Class) valuemodel.Class {
	if class == valuemodel.Indeterminate && !m.Unclassified() {
		return mayWrite
	}
	return class
}

// storable reports whether the answer may be stored or shared, and may come from the store or
// another call's flight.
func (c *callClass) storable() bool { return c.query.Key.Scope != "" }

// maxArguments is the maximum size of a key's arguments in bytes. Calls with longer ones
// rarely repeat.
const maxArguments = 16 << 10

// classify classifies the call under p, by the model of its tool. The call is storable if its
// answer depends only on its arguments and on what the query names.
func (c *upstreamCall) classify(p *policy) (out callClass) {
	l, srv := c.lease, c.s.srv
	m := srv.catalog.Tool(p.Policy, l, c.tool).Model
	out.host = m.Host
	switch {
	case c.method != "tools/call":
		if !reads(c.method) { // any other method counts as a write to the whole upstream
			out.effect = m.Writes(unknownArguments)
		}
		return out
	case !m.UsesArguments(): // a write, whatever its arguments
		out.effect, out.kind = m.Writes(unknownArguments), classOfCall(m, m.Class)
		return out
	}
	raw, plain := arguments(c.params)
	plain = plain && c.ignorableMeta()
	index := jsonrpc.NewIndex(raw)
	args, names := unknownArguments, iter.Seq[string](nil)
	if index.Unambiguous() { // else servers may disagree about the arguments
		args, names = index.Get, jsonrpc.Names(raw)
	}
	out.host, out.kind = m.HostOf(args), classOfCall(m, m.ClassOf(args, names))
	if !out.kind.Reads() {
		cmd := &l.Member.Spec.Command
		git := classify.Process{Path: cmd.Path, Args: cmd.Args, Dir: cmd.Dir, Env: cmd.Env}
		if folders, quiet := m.Quiet(args, names); !quiet || !classify.PlainGit(git, folders) { // else git runs no other program
			out.effect = m.Writes(args)
		}
		return out
	}
	file, whole := m.File(args)
	scope := scopeOf(c.s, l, c.params)
	if !plain || !whole || scope == "" || len(raw) > maxArguments {
		return out
	}
	canonical, ok := jsonrpc.AppendCanonical(nil, raw)
	if !ok {
		return out
	}
	out.query = dedup.Query{
		Key:    call.Key{Upstream: l.Instance(), Scope: scope, Tool: c.tool, Arguments: string(canonical)},
		Places: m.Reads(args), Delivered: c.delivered(),
		Reuse: dedup.Reuse{
			Pure: out.kind == valuemodel.Pure, Freshness: m.Cost.Freshness, MaxAge: p.Enrichment.Age(l.Member.Exclusive),
			Volatile: m.Volatile != nil && *m.Volatile, File: file, Repeats: m.FailFastAfter, BackOff: m.BackOff, Equal: sameContent,
			CompareOnly: m.Annotated() && !srv.prefetch.Tool(l.Member.Key, c.tool).Proven,
		},
	}
	if c.observed != nil {
		out.query.Number = c.observed.number
	}
	if srv.common.store.HasPeers() && out.query.Reuse.Shareable() && l.Member.Spec.URL != "" && strings.HasPrefix(scope, everyone) {
		out.query.SharedKey = strings.Join([]string{l.Member.Key, scope, c.tool, out.query.Key.Arguments}, "\x00")
	}
	return out
}

// delivered returns the record of the answers that the call's client has received. It is nil for a
// step of a plan, because the client receives the plan's result instead.
func (c *upstreamCall) delivered() *dedup.Delivered {
	if c.step() != nil {
		return nil
	}
	return c.s.identity.delivered
}

// scopeOf returns the scope of an upstream's answers: the session, or everyone if the upstream
// treats all sessions as one principal. "" means that answers are not stored.
func scopeOf(s *session, l *catalog.Lease, params *revision.Params) string {
	if !l.Member.SharedIdentity || !l.Shared() {
		return s.identity.scope
	}
	if !l.Stateless() {
		return everyone
	}
	client := params.Client()
	if client == nil {
		client = &s.client.load().Client
	}
	return everyone + string(client.Capabilities) // such a server receives the client's capabilities with each call
}

// everyone is the scope of an upstream that treats all sessions as one principal. No session
// has this scope.
const everyone = "*"

// unknownArguments looks up an argument of a call with unknown arguments.
func unknownArguments(string) []byte { return nil }

// parsedParams parses params that did not come with a message.
func parsedParams(params []byte) *revision.Params {
	p := revision.NewParams(params)
	return &p
}

// arguments returns the raw arguments of a tools/call, or "{}" if there are none or servers
// may disagree about them. plain reports whether the params hold nothing else but _meta.
func arguments(params *revision.Params) (raw []byte, plain bool) {
	if !params.Unambiguous() {
		return noArguments, false
	}
	plain, raw = true, noArguments
	for m := range params.All() {
		switch string(m.Name) {
		case "name", "_meta":
		case "arguments":
			if string(m.Value) != "null" {
				raw = m.Value
			}
		default:
			plain = false
		}
	}
	return raw, plain && raw[0] == '{'
}

var noArguments = []byte("{}")

// ignorableMeta reports whether nothing in the call's _meta can affect its answer.
func (c *upstreamCall) ignorableMeta() bool {
	for m := range c.params.Meta.All() {
		switch string(m.Name) {
		case "progressToken", "traceparent", "tracestate", "baggage", "claudecode/toolUseId", "vscode.conversationId",
			"vscode.requestId", "x-codex-turn-metadata":
		case "callId", "itemId", "sessionId", "threadId", "windowId": // a client of another name may mean a server's session by it
			if !catalog.Codex.Include(c.s.client.load().Info) {
				return false
			}
		default:
			if !revision.OfHop(m.Name) {
				return false
			}
		}
	}
	return true
}

// reads reports whether a request to an upstream with that method never changes anything that a
// tool's answer may depend on.
func reads(method string) bool {
	switch method {
	case "prompts/get", "resources/read", "completion/complete", "tasks/list", "tasks/get", "tasks/result":
		return true
	}
	return false
}

// sameContent reports whether two results have the same content, whatever else they contain.
func sameContent(a, b []byte) bool {
	for _, member := range []string{"content", "structuredContent", "isError"} {
		if !sameJSON(jsonrpc.Get(a, member), jsonrpc.Get(b, member)) {
			return false
		}
	}
	return true
}

// sameJSON reports whether two JSON texts are equal after canonicalization, if they have a
// canonical form, or else byte for byte.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, plain := jsonrpc.AppendCanonical(nil, a)
	y, alike := jsonrpc.AppendCanonical(nil, b)
	return plain && alike && bytes.Equal(x, y)
}

// outlivesRules reports whether the client that made the call has given it up, so that it is only sent for the calls
// that joined its flight, and the rules have changed. Those then fetch by themselves, through their own gates.
func (c *upstreamCall) outlivesRules() bool {
	if c.request == nil || c.request.ctx.Err() == nil || !c.class.storable() {
		return false
	}
	p := c.s.srv.policy.Load()
	return p != c.policy || c.classify(p).query.Key != c.class.query.Key
}
