package proxy

import (
	"bytes"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schema"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// maxModels bounds how many models, and how many schemas, are kept: of tools that a
// server lists, for clients may call what none has.
const maxModels = 8192

// catalog is what is known of the upstreams' tools: their value models, by the policy in
// force and by what their servers claim, and their input schemas. Upstreams bear their
// names of member.key here: another command under the same name is another server.
type catalog struct {
	log       *slog.Logger
	store     *dedup.Store
	version   atomic.Uint64 // rises when servers have made claims that change models
	gitChecks gitChecks
	search    *toolSearch

	mu      sync.RWMutex
	claims  map[string]*claims     // upstream → what its server has said since the program started
	policy  *policy                // that made goes by
	models  map[target]cachedModel // with no name: of the upstream itself
	schemas map[target]compiledSchema
}

// compiledSchema is the input schema of a tool as it was listed.
type compiledSchema struct {
	item   []byte
	schema *schema.Schema
	err    error // it cannot be read
}

// made is a model, and what a server had said when it was made.
type cachedModel struct {
	server, item []byte
	model        *valuemodel.Model
}

func newCatalog(log *slog.Logger, store *dedup.Store) *catalog {
	return &catalog{gitChecks: make(gitChecks, maxGitChecks), search: newToolSearch(log), log: log, store: store, claims: make(map[string]*claims), schemas: make(map[target]compiledSchema)}
}

// model returns the value model of a tool, or, with no name, of everything else
// the upstream is asked.
func (c *catalog) model(p *policy, l *leased, tool string) *valuemodel.Model {
	var now cachedModel
	if offer := l.Offer(); offer != nil {
		item, _ := offer.Find(upstream.Tools, tool)
		now.server, now.item = offer.Server, item.Raw
	}
	t := target{l.member.key, tool}
	c.mu.RLock()
	m, ok := c.models[t]
	ok = ok && c.policy == p && bytes.Equal(m.item, now.item) && bytes.Equal(m.server, now.server)
	c.mu.RUnlock()
	if ok {
		return m.model
	}
	u := l.member.Model
	if member := p.find(l.Name()); member != nil {
		u = member.Model
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rebuildLocked(p, t, u, now)
}

// rebuildLocked makes a model anew, by all that its server has said. Where that decides
// otherwise than before, nothing answered or begun until now may stand in for a
// call any more.
func (c *catalog) rebuildLocked(p *policy, t target, u valuemodel.Upstream, m cachedModel) *valuemodel.Model {
	said := c.claims[t.upstream]
	if said == nil {
		said = newClaims()
		c.claims[t.upstream] = said
	}
	changed := said.noteServer(m.server)
	before, now := said.noteTool(t.name, m.item)
	u.Server, u.Trust = said.name(), u.Trust && !said.renamed
	resolve := func(h valuemodel.Hints) *valuemodel.Model {
		return p.Models.Resolve(u, t.name, h)
	}
	m.model = resolve(now)
	if c.policy != p {
		c.policy, c.models = p, make(map[target]cachedModel)
	}
	switch {
	case changed, !reflect.DeepEqual(now, before) && mayNowWrite(resolve(before), m.model):
		maps.DeleteFunc(c.models, func(other target, _ cachedModel) bool { return other.upstream == t.upstream })
		c.version.Add(1)
		c.store.Reclassify() // after the version: a write classified before it rose stays pending from now on
	case m.item == nil && t.name != "": // what no server lists, a client may have made up
	default:
		if len(c.models) >= maxModels {
			clear(c.models)
		}
		c.models[t] = m
	}
	return m.model
}

// mayNowWrite reports whether some call that only reads by the one model may write by
// the next.
func mayNowWrite(old, next *valuemodel.Model) bool {
	return old.Class.Reads() && !next.Class.Reads() || old.Classify != "" && next.Classify == "" && !next.Class.Reads()
}

// invalidate forgets what an upstream answered so far: what it holds may have
// changed without a call through here.
func (c *catalog) invalidate(p *policy, up *upstream.Upstream, name string) {
	if p == nil {
		return // it is being made; there is nothing to forget
	}
	m := p.find(name)
	if m == nil || m.up != up {
		c.store.InvalidateAll() // the upstream is being replaced, and its domains are no longer known
		return
	}
	u := m.Model
	c.mu.RLock()
	u.Server = c.claims[m.key].name()
	c.mu.RUnlock()
	for _, d := range p.Models.Resolve(u, "", valuemodel.Hints{}).Domains {
		c.store.Invalidate(call.Place{Domain: d.Name})
	}
}

// schema is the input schema of a listed tool.
func (c *catalog) schema(l *leased, item upstream.Item) compiledSchema {
	t := target{l.member.key, item.Name}
	c.mu.RLock()
	s, known := c.schemas[t]
	c.mu.RUnlock()
	if known && bytes.Equal(s.item, item.Raw) {
		return s
	}
	s = compiledSchema{item: item.Raw}
	if s.schema, s.err = schema.Compile(jsonrpc.Get(item.Raw, "inputSchema")); s.err != nil {
		c.log.Info("tool neither run early nor checked in plans: its input schema cannot be read", "upstream", l.Name(), "tool", item.Name, "err", s.err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.schemas) >= maxModels {
		clear(c.schemas)
	}
	c.schemas[t] = s
	return s
}

// claims are what one upstream's server has said of itself and its tools since the
// program started. What loosens a model later is not believed: a server could
// change its mind after it has been looked at.
type claims struct {
	server     string                      // what it first called itself
	named      bool                        // it has called itself something
	classified bool                        // something was classified before it had
	renamed    bool                        // it later called itself something else
	hints      map[string]valuemodel.Hints // tool → the most restrictive there were
	size       int                         // bytes that the names in hints take, at most mostNames
}

func newClaims() *claims { return &claims{hints: make(map[string]valuemodel.Hints)} }

// name is what the server calls itself; "" if nothing is known, or it was renamed.
func (u *claims) name() string {
	if u == nil || u.renamed {
		return ""
	}
	return u.server
}

// noteServer adds what the server says of itself, and reports whether that changes what
// was gone by until now.
func (u *claims) noteServer(server []byte) (changed bool) {
	if server == nil {
		u.classified = true
		return false
	}
	name, _ := jsonrpc.String(jsonrpc.Get(server, "name"))
	switch {
	case !u.named:
		u.server, u.named = name, true
		return u.classified // else there is nothing that could have been classified otherwise
	case u.server != name && !u.renamed:
		u.renamed = true
		return true
	}
	return false
}

// noteTool adds what the server says of a tool, and returns what counted until now and
// what does from now on.
func (u *claims) noteTool(tool string, item []byte) (before, now valuemodel.Hints) {
	before, known := u.hints[tool]
	if item == nil {
		return before, before
	}
	now = toolHints(item)
	size := len(tool) + bindingSize + len(strings.Join(now.Arguments, " "))
	switch {
	case known:
		now = stricter(before, now)
	case u.size+size > maxNameBytes:
		now.ReadOnly = new(false) // there is no memory for what it says later: so it is taken at its worst
		return before, now
	default:
		u.size += size
	}
	u.hints[tool] = now
	return before, now
}

// toolHints reads a tool's annotations.
func toolHints(item []byte) valuemodel.Hints {
	annotations := jsonrpc.Get(item, "annotations")
	return valuemodel.Hints{
		ReadOnly:    optionalBool(jsonrpc.Get(annotations, "readOnlyHint")),
		Destructive: optionalBool(jsonrpc.Get(annotations, "destructiveHint")),
		Arguments:   argumentNames(jsonrpc.Get(item, "inputSchema")),
	}
}

// argumentNames are the arguments of a tool by its input schema, in order; nil if the schema
// may take others than it names.
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

func optionalBool(raw []byte) *bool {
	switch string(raw) {
	case "true":
		return new(true)
	case "false":
		return new(false)
	}
	return nil
}

// stricter returns the more restrictive of what was said before and is said now.
func stricter(before, now valuemodel.Hints) valuemodel.Hints {
	out := now
	if before.ReadOnly == nil || !*before.ReadOnly {
		out.ReadOnly = before.ReadOnly
		if now.ReadOnly != nil && !*now.ReadOnly {
			out.ReadOnly = now.ReadOnly
		}
	}
	if before.Destructive != nil && *before.Destructive {
		out.Destructive = before.Destructive
	}
	if out.Arguments = before.Arguments; !slices.Equal(before.Arguments, now.Arguments) {
		out.Arguments = nil
	}
	return out
}
