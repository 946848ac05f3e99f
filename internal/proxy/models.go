package proxy

import (
	"bytes"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/jsonrpc"
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
	if changed || !reflect.DeepEqual(now, before) && mayNowWrite(p.Models.Resolve(u, t.name, before), m.model) {
		maps.DeleteFunc(c.models, func(other target, _ *knownTool) bool { return other.upstream == t.upstream })
		c.version.Add(1)
		c.store.Reclassify() // after the version: a write classified before the increment stays pending from now on
	}
	if m.item != nil || t.name == "" { // else no server lists this name, and a client may have made it up
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
