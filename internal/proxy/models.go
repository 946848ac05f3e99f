package proxy

import (
	"bytes"
	"iter"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"mcpschedd/internal/call"
	"mcpschedd/internal/classify"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/schema"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// maxModels bounds the number of cached models, and of the tools of one server for which its
// claims are recorded. Only tools that a server lists are cached, as clients may call any name.
const maxModels = 8192

// catalog caches the value models of the upstreams' tools, which follow from the policy and
// from the servers' claims, and their input schemas. The upstream of a target is a member.key
// here: another command under the same name is another server.
type catalog struct {
	log     *slog.Logger
	store   *dedup.Store
	version atomic.Uint64 // incremented when a server's claims change models

	mu     sync.RWMutex
	claims map[string]*serverClaims // upstream → claims of its server since the program started
	policy *policy                  // policy that models were built from
	models map[target]*knownTool    // the empty tool name stands for the upstream's other methods
}

// knownTool is what follows from the policy and from a tool's entry in its server's offer.
type knownTool struct {
	server, item []byte // server info and entry, nil if unknown
	model        *valuemodel.Model
	schema       func() (*schema.Schema, error) // compiles the input schema once; the error says why it is not supported
}

// model returns the value model of a tool or, if tool is "", of the upstream's other methods.
func (c *catalog) model(p *policy, l *sessionLease, tool string) *valuemodel.Model {
	return c.lookup(p, l, tool).model
}

// lookup is model, with the tool's input schema.
func (c *catalog) lookup(p *policy, l *sessionLease, tool string) *knownTool {
	var server, item []byte
	if offer := l.Offer(); offer != nil {
		entry, _ := offer.Find(upstream.Tools, tool)
		server, item = offer.Server, entry.Raw
	}
	t := target{l.member.key, tool}
	c.mu.RLock()
	m := c.models[t]
	ok := m != nil && c.policy == p && bytes.Equal(m.item, item) && bytes.Equal(m.server, server)
	c.mu.RUnlock()
	if ok {
		return m
	}
	u := l.member.Model
	if member := p.find(l.Name()); member != nil {
		u = member.Model
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rebuildLocked(p, t, u, &knownTool{server: server, item: item, schema: sync.OnceValues(func() (*schema.Schema, error) {
		compiled, err := schema.Compile(jsonrpc.Get(item, "inputSchema"))
		if err != nil {
			c.log.Info("tool neither prefetched nor checked in plans: unsupported input schema", "upstream", l.Name(), "tool", tool, "err", err)
		}
		return compiled, err
	})})
}

// rebuildLocked builds the model of m from everything its server has claimed. If the claims
// change how calls are classified, it invalidates all answers and flights.
func (c *catalog) rebuildLocked(p *policy, t target, u valuemodel.Upstream, m *knownTool) *knownTool {
	server := c.claims[t.upstream]
	if server == nil {
		server = &serverClaims{hints: make(map[string]valuemodel.Hints)}
		c.claims[t.upstream] = server
	}
	changed := server.noteServer(m.server)
	before, now := server.noteTool(t.name, m.item)
	u.Server, u.Trust = server.name(), u.Trust && !server.renamed
	m.model = p.Models.Resolve(u, t.name, now)
	if c.policy != p {
		c.policy, c.models = p, make(map[target]*knownTool)
	}
	switch {
	case changed, !reflect.DeepEqual(now, before) && mayNowWrite(p.Models.Resolve(u, t.name, before), m.model):
		maps.DeleteFunc(c.models, func(other target, _ *knownTool) bool { return other.upstream == t.upstream })
		c.version.Add(1)
		c.store.Reclassify() // after the version: a write classified before the increment stays pending from now on
	case m.item == nil && t.name != "": // no server lists this name, so a client may have made it up
	default:
		if len(c.models) >= maxModels {
			clear(c.models)
		}
		c.models[t] = m
	}
	return m
}

// mayNowWrite reports whether a call that is a read by the old model may be a write by the
// next one.
func mayNowWrite(old, next *valuemodel.Model) bool {
	return old.Class.Reads() && !next.Class.Reads() || old.Classify != "" && next.Classify == "" && !next.Class.Reads()
}

// invalidate invalidates an upstream's answers, after its data may have changed by something
// other than a call.
func (c *catalog) invalidate(p *policy, up *upstream.Upstream, name string) {
	m := p.find(name)
	if m == nil || m.up != up {
		c.store.InvalidateAll() // the upstream is being replaced, so its domains are unknown
		return
	}
	u := m.Model
	c.mu.RLock()
	if known := c.claims[m.key]; known != nil {
		u.Server = known.name()
	}
	c.mu.RUnlock()
	for _, d := range p.Models.Resolve(u, "", valuemodel.Hints{}).Domains {
		c.store.Invalidate(call.Place{Domain: d})
	}
}

// serverClaims records what one upstream's server has claimed about itself and its tools since the
// program started. A later claim never loosens a model: a server could change its claims after
// an operator has reviewed it.
type serverClaims struct {
	server     string                      // first name that the server gave itself
	named      bool                        // the server has given its name
	classified bool                        // something was classified before the server gave its name
	renamed    bool                        // the server has changed its name
	hints      map[string]valuemodel.Hints // tool → most restrictive hints so far
}

// name returns the server's name, or "" if it is unknown or has changed.
func (u *serverClaims) name() string {
	if u.renamed {
		return ""
	}
	return u.server
}

// noteServer records the server info and reports whether models built before may be wrong now.
func (u *serverClaims) noteServer(server []byte) (changed bool) {
	if server == nil {
		u.classified = true
		return false
	}
	name := jsonrpc.Text(server, "name")
	switch {
	case !u.named:
		u.server, u.named = name, true
		return u.classified // else nothing was classified without the name
	case u.server != name && !u.renamed:
		u.renamed = true
		return true
	}
	return false
}

// noteTool records a tool's claims and returns the hints in force before and from now on.
func (u *serverClaims) noteTool(tool string, item []byte) (before, now valuemodel.Hints) {
	before, known := u.hints[tool]
	if item == nil {
		return before, before
	}
	now = toolHints(item)
	switch {
	case known:
		now = stricter(before, now)
	case len(u.hints) >= maxModels:
		now.ReadOnly = new(false) // no memory to record later claims, so assume the worst
		return before, now
	}
	u.hints[tool] = now
	return before, now
}

// toolHints parses a tool's annotations.
func toolHints(item []byte) valuemodel.Hints {
	annotations := jsonrpc.Get(item, "annotations")
	hint := func(name string) *bool {
		switch string(jsonrpc.Get(annotations, name)) {
		case "true":
			return new(true)
		case "false":
			return new(false)
		}
		return nil
	}
	return valuemodel.Hints{
		ReadOnly: hint("readOnlyHint"), Destructive: hint("destructiveHint"), Arguments: argumentNames(jsonrpc.Get(item, "inputSchema")),
	}
}

// argumentNames returns the sorted arguments in a tool's input schema, or nil if the schema may
// accept others.
func argumentNames(schema []byte) []string {
	names := []string{}
	for m := range jsonrpc.Members(schema) {
		switch string(m.Name) {
		case "$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas":
			return nil
		case "properties":
			for p := range jsonrpc.Members(m.Value) {
				names = append(names, string(p.Name))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// stricter returns the more restrictive of two hints.
func stricter(before, now valuemodel.Hints) valuemodel.Hints {
	if !denies(now.ReadOnly, false) && !(before.ReadOnly != nil && *before.ReadOnly) {
		now.ReadOnly = before.ReadOnly
	}
	if denies(before.Destructive, true) {
		now.Destructive = before.Destructive
	}
	if slices.Equal(before.Arguments, now.Arguments) {
		now.Arguments = before.Arguments
	} else {
		now.Arguments = nil
	}
	return now
}

// denies reports whether a hint is set to the value that restricts a tool.
func denies(hint *bool, value bool) bool { return hint != nil && *hint == value }

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
	m := srv.catalog.model(p, l, c.tool)
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
	index := jsonrpc.NewIndex(raw)
	args, names := unknownArguments, iter.Seq[string](nil)
	if index.Unambiguous() { // else servers may disagree about the arguments
		args, names = index.Get, jsonrpc.Names(raw)
	}
	out.host, out.kind = m.HostOf(args), classOfCall(m, m.ClassOf(args, names))
	if !out.kind.Reads() {
		cmd := &l.member.Spec.Command
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
			Pure: out.kind == valuemodel.Pure, Freshness: m.Cost.Freshness, MaxAge: p.Enrichment.Age(l.member.Exclusive),
			Volatile: m.Volatile != nil && *m.Volatile, File: file, Repeats: m.FailFastAfter, BackOff: m.BackOff, Equal: sameContent,
			CompareOnly: m.Annotated() && !srv.prefetch.Tool(l.member.key, c.tool).Proven,
		},
	}
	if c.observed != nil {
		out.query.Number = c.observed.number
	}
	if srv.common.store.HasPeers() && out.query.Reuse.Shareable() && l.member.Spec.URL != "" && strings.HasPrefix(scope, everyone) {
		out.query.SharedKey = strings.Join([]string{l.member.key, scope, c.tool, out.query.Key.Arguments}, "\x00")
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
func scopeOf(s *session, l *sessionLease, params *revision.Params) string {
	if !l.member.SharedIdentity || !l.Shared() {
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
