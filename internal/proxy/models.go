package proxy

import (
	"bytes"
	"log/slog"
	"maps"
	"reflect"
	"sync"
	"sync/atomic"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schema"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// modelsKept bounds how many models, and how many schemas, are kept: of tools that a
// server lists, for clients may call what none has.
const modelsKept = 8192

// catalog is what is known of the upstreams' tools: their value models, by the policy in
// force and by what their servers claim, and their input schemas. Upstreams bear their
// names of member.key here: another command under the same name is another server.
type catalog struct {
	log      *slog.Logger
	store    *dedup.Store
	version  atomic.Uint64 // rises when servers have made claims that change models
	gitLooks gitLooks
	search   *toolSearch

	mu      sync.RWMutex
	claims  map[string]*claims // upstream → what its server has said since the program started
	of      *policy            // that made goes by
	made    map[target]made    // with no name: of the upstream itself
	schemas map[target]compiled
}

// compiled is the input schema of a tool as it was listed.
type compiled struct {
	item   []byte
	schema *schema.Schema
	err    error // it cannot be read
}

// made is a model, and what a server had said when it was made.
type made struct {
	server, item []byte
	model        *valuemodel.Model
}

func newCatalog(log *slog.Logger, store *dedup.Store) *catalog {
	return &catalog{gitLooks: make(gitLooks, mostGitLooks), search: newToolSearch(log), log: log, store: store, claims: make(map[string]*claims), schemas: make(map[target]compiled)}
}

// model returns the value model of a tool, or, with no name, of everything else
// the upstream is asked.
func (c *catalog) model(p *policy, l *leased, tool string) *valuemodel.Model {
	var now made
	if offer := l.Offer(); offer != nil {
		item, _ := offer.Find(upstream.Tools, tool)
		now.server, now.item = offer.Server, item.Raw
	}
	t := target{l.member.key, tool}
	c.mu.RLock()
	m, ok := c.made[t]
	ok = ok && c.of == p && bytes.Equal(m.item, now.item) && bytes.Equal(m.server, now.server)
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
	return c.remodelLocked(p, t, u, now)
}

// remodelLocked makes a model anew, by all that its server has said. Where that decides
// otherwise than before, nothing answered or begun until now may stand in for a
// call any more.
func (c *catalog) remodelLocked(p *policy, t target, u valuemodel.Upstream, m made) *valuemodel.Model {
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
	if c.of != p {
		c.of, c.made = p, make(map[target]made)
	}
	switch {
	case changed, !reflect.DeepEqual(now, before) && mayNowWrite(resolve(before), m.model):
		maps.DeleteFunc(c.made, func(other target, _ made) bool { return other.upstream == t.upstream })
		c.version.Add(1)
		c.store.Reform() // after the version: a write classified before it rose stays pending from now on
	case m.item == nil && t.name != "": // what no server lists, a client may have made up
	default:
		if len(c.made) >= modelsKept {
			clear(c.made)
		}
		c.made[t] = m
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
		c.store.Forget() // the upstream is being replaced, and its domains are no longer known
		return
	}
	u := m.Model
	c.mu.RLock()
	u.Server = c.claims[m.key].name()
	c.mu.RUnlock()
	for _, d := range p.Models.Resolve(u, "", valuemodel.Hints{}).Domains {
		c.store.Bump(call.Place{Domain: d.Name})
	}
}

// schema is the input schema of a listed tool.
func (c *catalog) schema(l *leased, item upstream.Item) compiled {
	t := target{l.member.key, item.Name}
	c.mu.RLock()
	s, known := c.schemas[t]
	c.mu.RUnlock()
	if known && bytes.Equal(s.item, item.Raw) {
		return s
	}
	s = compiled{item: item.Raw}
	if s.schema, s.err = schema.Compile(jsonrpc.Get(item.Raw, "inputSchema")); s.err != nil {
		c.log.Info("tool neither run early nor checked in plans: its input schema cannot be read", "upstream", l.Name(), "tool", item.Name, "err", s.err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.schemas) >= modelsKept {
		clear(c.schemas)
	}
	c.schemas[t] = s
	return s
}
