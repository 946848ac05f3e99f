package catalog

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"sync"

	"mcpschedd/internal/call"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schema"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// maxModels bounds the number of cached models, and of the tools of one server for which its
// claims are recorded. Only tools that a server lists are cached, as clients may call any name.
const maxModels = 8192

// Tool is what follows from the policy and from a tool's entry in its server's offer.
type Tool struct {
	server, item []byte // server info and entry, nil if unknown
	Model        *valuemodel.Model
	Schema       func() (*schema.Schema, error) // compiles the input schema once; the error says why it is not supported
}

// Tool returns what is known of a tool or, if tool is "", of the upstream's other methods.
func (c *Catalog) Tool(p *Policy, l *Lease, tool string) *Tool {
	var server, item []byte
	if offer := l.Offer(); offer != nil {
		entry, _ := offer.Find(upstream.Tools, tool)
		server, item = offer.Server, entry.Raw
	}
	t := Target{l.Member.Key, tool}
	c.mu.RLock()
	m := c.models[t]
	ok := m != nil && c.policy == p && bytes.Equal(m.item, item) && bytes.Equal(m.server, server)
	c.mu.RUnlock()
	if ok {
		return m
	}
	u := l.Member.Model
	if member := p.Find(l.Name()); member != nil {
		u = member.Model
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rebuildLocked(p, t, u, &Tool{server: server, item: item, Schema: sync.OnceValues(func() (*schema.Schema, error) {
		compiled, err := schema.Compile(jsonrpc.Get(item, "inputSchema"))
		if err != nil {
			c.log.Info("tool neither prefetched nor checked in plans: unsupported input schema", "upstream", l.Name(), "tool", tool, "err", err)
		}
		return compiled, err
	})})
}

// rebuildLocked builds the model of m from everything its server has claimed. If the claims
// change how calls are classified, it invalidates all answers and flights.
func (c *Catalog) rebuildLocked(p *Policy, t Target, u valuemodel.Upstream, m *Tool) *Tool {
	server := c.claims[t.Upstream]
	if server == nil {
		server = &serverClaims{hints: make(map[string]valuemodel.Hints)}
		c.claims[t.Upstream] = server
	}
	changed := server.noteServer(m.server)
	before, now := server.noteTool(t.Name, m.item)
	u.Server, u.Trust = server.name(), u.Trust && !server.renamed
	m.Model = p.Models.Resolve(u, t.Name, now)
	if c.policy != p {
		c.policy, c.models = p, make(map[Target]*Tool)
	}
	if changed || !reflect.DeepEqual(now, before) && mayNowWrite(p.Models.Resolve(u, t.Name, before), m.Model) {
		maps.DeleteFunc(c.models, func(other Target, _ *Tool) bool { return other.Upstream == t.Upstream })
		c.version.Add(1)
		c.store.Reclassify() // after the version: a write classified before the increment stays pending from now on
	}
	if m.item != nil || t.Name == "" { // else no server lists this name, and a client may have made it up
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

// Invalidate invalidates an upstream's answers, after its data may have changed by something
// other than a call.
func (c *Catalog) Invalidate(p *Policy, up *upstream.Upstream, name string) {
	m := p.Find(name)
	if m == nil || m.Up != up {
		c.store.InvalidateAll() // the upstream is being replaced, so its domains are unknown
		return
	}
	u := m.Model
	c.mu.RLock()
	if known := c.claims[m.Key]; known != nil {
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
