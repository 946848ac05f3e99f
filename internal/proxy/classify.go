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

// callClass is the classification of a call by a policy.
type callClass struct {
	effect call.Effect
	query  dedup.Query      // an empty scope means that only the upstream may answer
	host   string           // host whose limits apply
	kind   valuemodel.Class // class of this call, arguments included; "" unless it is a tools/call
	task   bool             // the client asks to run the call as a task
}

// storable reports whether the answer may be stored or shared, and may come from the store or
// another call's flight.
func (c *callClass) storable() bool { return c.query.Key.Scope != "" }

// classify classifies the call under p. It adds to classifyCall's result what depends on the
// session and on what was learned of the tool.
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
	out.query.Delivered = deliveredTo(c.s, c.step)
	if c.observed != nil {
		out.query.Number = c.observed.number
	}
	out.query.Reuse.MaxAge = p.Enrichment.Age(l.member.Exclusive)
	if c.s.srv.store.HasPeers() && out.query.Reuse.Shareable() && l.member.Spec.URL != "" && strings.HasPrefix(scope, everyone) {
		out.query.SharedKey = strings.Join([]string{l.member.key, scope, c.tool, key.Arguments}, "\x00")
	}
	out.query.Reuse.CompareOnly = annotatedReadOnly(m) && !c.s.srv.prefetch.Tool(l.member.key, c.tool).Proven
	return out
}

// gitChecks bounds the concurrent checks of git's configuration. A file system may hang, and
// a session's reader waits for the check.
type gitChecks chan struct{} // one element for each check that is running

const (
	maxGitChecks    = 4
	gitCheckTimeout = 500 * time.Millisecond // how long a reader waits for a check
)

// run returns the result of check, or false if too many checks are running or check takes too long.
func (g gitChecks) run(check func() bool) bool {
	select {
	case g <- struct{}{}:
	default:
		return false
	}
	result := make(chan bool, 1)
	go func() { // ends when the file system answers
		defer func() { <-g }()
		result <- check()
	}()
	timeout := time.NewTimer(gitCheckTimeout)
	defer timeout.Stop()
	select {
	case plain := <-result:
		return plain
	case <-timeout.C:
		return false
	}
}

// maxArguments is the maximum size of a key's arguments in bytes. Calls with longer ones
// rarely repeat.
const maxArguments = 16 << 10

// classifyCall classifies a call by the model of its tool. The call is storable if its answer
// depends only on its arguments and on what the query names. plainGit reports whether git, as
// the upstream runs it in folders, runs no other program.
func classifyCall(m *valuemodel.Model, method string, params *revision.Params, plainGit func(folders []string) bool) (out callClass, storable bool) {
	out.host = m.Host
	switch {
	case method != "tools/call":
		if !reads(method) { // any other method counts as a write to the whole upstream
			out.effect = m.Writes(unknownArguments)
		}
		return out, false
	case !m.UsesArguments(): // a write, whatever its arguments
		out.effect, out.kind, out.task = m.Writes(unknownArguments), m.Class, params.Get("task") != nil
		return out, false
	}
	out.task = params.Get("task") != nil
	raw, plain := arguments(params)
	index := jsonrpc.NewIndex(raw)
	args, names := unknownArguments, iter.Seq[string](nil)
	if index.Unambiguous() { // else servers may disagree about the arguments
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
			Volatile: m.Volatile != nil && *m.Volatile, File: file, Repeats: m.FailFastAfter, BackOff: m.BackOff, Equal: sameContent,
		},
	}
	return out, true
}

// deliveredTo returns the record of the answers that a session's client has received. It is
// nil for a step of a plan, because the client receives the plan's result instead.
func deliveredTo(s *session, part *planStep) *dedup.Delivered {
	if part != nil {
		return nil
	}
	return s.identity.delivered
}

// scopeOf returns the scope of an upstream's answers: the session, or everyone if the upstream
// treats all sessions as one principal. "" means that answers are not stored.
func scopeOf(s *session, l *sessionLease, params *revision.Params) string {
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
	return everyone + string(hop.Capabilities) // such a server receives the client's capabilities with each call
}

// everyone is the scope of an upstream that treats all sessions as one principal. No session
// has this scope.
const everyone = "*"

// unknownArguments looks up an argument of a call whose arguments are not known.
func unknownArguments(string) []byte { return nil }

// parsedParams parses params that did not come with a message.
func parsedParams(params []byte) *revision.Params {
	p := revision.NewParams(params)
	return &p
}

// arguments returns the raw arguments of a tools/call, or "{}" if there are none or servers
// may disagree about them. plain reports whether the params hold nothing else that an answer
// may depend on.
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

// ignorable reports whether nothing in a request's _meta can affect its answer.
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

// onlyReads reports whether a call changes nothing that another call of its session may
// depend on. kind is the class of a tools/call.
func onlyReads(method string, kind valuemodel.Class) bool {
	if method == "tools/call" {
		return kind.Reads()
	}
	return reads(method)
}

// reads reports whether a request with that method never changes anything that a tool's
// answer may depend on.
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
