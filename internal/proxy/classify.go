package proxy

import (
	"iter"
	"strings"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/classify"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/valuemodel"
)

// callClass is what a policy says of a call.
type callClass struct {
	effect call.Effect
	query  dedup.Query      // with an empty scope only the upstream may answer
	host   string           // whose limits count
	kind   valuemodel.Class // of this very call; "": it is no tools/call
	task   bool             // it asks to be run as a task
}

// storable reports whether the answer may be stored or shared, and come from
// the store or from another call's flight.
func (c *callClass) storable() bool { return c.query.Key.Scope != "" }

// classify says what a call may change, and whether anything but its upstream may answer
// it. What is noted of the session, and of the tool, is added to the pure part.
func (c *upstreamCall) classify(p *policy) callClass {
	l := c.lease
	m := c.s.srv.catalog.model(p, l, c.tool)
	out, storable := classifyCall(m, c.method, c.params, func(folders []string) bool {
		cmd := &l.member.Spec.Command
		server := classify.Process{Path: cmd.Path, Args: cmd.Args, Dir: cmd.Dir, Env: cmd.Env}
		return c.s.srv.catalog.gitChecks.run(func() bool { return classify.PlainGit(server, folders) })
	})
	scope := scopeOf(c.s, l, c.params)
	if !storable || scope == "" {
		return out
	}
	key := &out.query.Key
	key.Upstream, key.Scope, key.Tool = l.Instance(), scope, c.tool
	out.query.Delivered = deliveredTo(c.s, c.part)
	if c.observed != nil {
		out.query.Number = c.observed.number
	}
	out.query.Reuse.MaxAge = p.Enrichment.Age(l.member.Exclusive)
	if c.s.srv.store.HasPeers() && out.query.Reuse.Shareable() && l.member.Spec.URL != "" && strings.HasPrefix(scope, everyone) {
		out.query.SharedKey = strings.Join([]string{l.member.key, scope, c.tool, key.Arguments}, "\x00")
	}
	out.query.Reuse.CompareOnly = untrustedHint(m) && !c.s.srv.prefetch.Tool(l.member.key, c.tool).Proven
	return out
}

// gitChecks bounds the looks at git's configuration: a file system may hang, and with it the
// reader of a session that waits for one.
type gitChecks chan struct{} // holds as many as are under way

const (
	maxGitChecks    = 4
	gitCheckTimeout = 500 * time.Millisecond // how long a reader waits for one
)

// run returns what look does, or false where that takes too long.
func (g gitChecks) run(look func() bool) bool {
	select {
	case g <- struct{}{}:
	default:
		return false
	}
	seen := make(chan bool, 1)
	go func() { // it ends when the file system answers
		defer func() { <-g }()
		seen <- look()
	}()
	late := time.NewTimer(gitCheckTimeout)
	defer late.Stop()
	select {
	case is := <-seen:
		return is
	case <-late.C:
		return false
	}
}

// maxArguments is how many bytes of arguments a key may have: a call with more is not
// one that comes again.
const maxArguments = 16 << 10

// classifyCall says what the model of its tool makes of a call. It is storable
// if its answer depends on nothing but its arguments and what the query says. plainGit reports
// whether git, as the upstream runs it in folders, runs no other program.
func classifyCall(m *valuemodel.Model, method string, params *revision.Params, plainGit func(folders []string) bool) (out callClass, storable bool) {
	out.host = m.Host
	switch {
	case method != "tools/call":
		if !reads(method) { // one that does more than read is a write to all of an upstream
			out.effect = m.Writes(unknownArguments)
		}
		return out, false
	case !m.Asks(): // a write, whatever its arguments
		out.effect, out.kind, out.task = m.Writes(unknownArguments), m.Class, params.Get("task") != nil
		return out, false
	}
	out.task = params.Get("task") != nil
	raw, plain := arguments(params)
	index := jsonrpc.NewIndex(raw)
	args, names := unknownArguments, iter.Seq[string](nil)
	if index.Unambiguous() { // else servers may disagree on what it says
		args, names = index.Get, jsonrpc.Names(raw)
	}
	out.host, out.kind = m.HostOf(args), m.ClassOf(args, names)
	if !out.kind.Reads() {
		if folders, quiet := m.Quiet(args, names); !quiet || !plainGit(folders) {
			out.effect = m.Writes(args)
		}
		return out, false
	}
	file, whole := m.File(args)
	if !plain || !whole || len(raw) > maxArguments {
		return out, false
	}
	canonical, ok := jsonrpc.AppendCanonical(nil, raw)
	if !ok {
		return out, false
	}
	out.query = dedup.Query{
		Key: call.Key{Arguments: string(canonical)}, Places: m.Reads(args),
		Reuse: dedup.Reuse{
			Pure: out.kind == valuemodel.Pure, Freshness: m.Cost.Freshness,
			Volatile: m.Volatile != nil && *m.Volatile, File: file, Repeats: m.FailFastAfter, BackOff: m.BackOff, Equal: alike,
		},
	}
	return out, true
}

// deliveredTo is where what a session's client is given is noted; nil: it is not given the
// answer as it is, but what the plan that the call is part of makes of it.
func deliveredTo(s *session, part *planPart) *dedup.Delivered {
	if part != nil {
		return nil
	}
	return s.identity.delivered
}

// scopeOf says to which sessions the answers of an upstream belong: to this one only, or to
// all where the upstream takes them for one principal. "": they are not stored.
func scopeOf(s *session, l *leased, params *revision.Params) string {
	if !l.member.SharedIdentity || !l.Shared() {
		return s.identity.scope
	}
	if !l.Stateless() {
		return everyone
	}
	hop := params.Hop()
	if hop == nil {
		hop = s.client.facts().hop
	}
	return everyone + string(hop.Capabilities) // such a server is told with each call what its client can do
}

// everyone is the scope of an upstream that takes all sessions for one
// principal. No session has it.
const everyone = "*"

// unknownArguments are arguments of which nothing is known.
func unknownArguments(string) []byte { return nil }

// parsedParams are params that were not read with a message.
func parsedParams(params []byte) *revision.Params {
	p := revision.NewParams(params)
	return &p
}

// arguments returns the raw arguments of a tools/call, "{}" if it has none or
// servers may disagree on which they are, and whether it is plain: says nothing
// else that an answer may depend on.
func arguments(params *revision.Params) (raw []byte, plain bool) {
	if !params.Unambiguous() {
		return noArguments, false
	}
	plain, raw = ignorable(&params.Meta), noArguments
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

// ignorable reports whether a request's _meta says nothing that its answer may
// depend on.
func ignorable(meta *jsonrpc.Index) bool {
	for m := range meta.All() {
		switch string(m.Name) {
		case "progressToken", "traceparent", "tracestate", "baggage", "claudecode/toolUseId":
		default:
			if !revision.OfHop(m.Name) {
				return false
			}
		}
	}
	return true
}

// onlyReads reports whether a call changes nothing that another of its session may depend
// on. kind is that of a tools/call.
func onlyReads(method string, kind valuemodel.Class) bool {
	if method == "tools/call" {
		return kind.Reads()
	}
	return reads(method)
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
