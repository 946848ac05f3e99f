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

// modelsKept bounds how many models of one policy, and how many schemas, are kept: of
// tools that a server lists, for clients may call what none has.
const modelsKept = 8192

// catalog is what is known of the upstreams' tools: their value models, by the policy and
// by what their servers claim, and their input schemas.
type catalog struct {
	log    *slog.Logger
	store  *dedup.Store
	claims serverClaims

	mu      sync.Mutex
	schemas map[target]compiled // of a tool, its upstream as member.key
}

// compiled is the input schema of a tool as it was listed.
type compiled struct {
	item   []byte
	schema *schema.Schema
	err    error // it cannot be read
}

// models are the value models of one policy, made when they are first asked for.
type models struct {
	layers *valuemodel.Models

	mu   sync.RWMutex
	made map[target]made // of a tool, its upstream as member.key; with no name: of the upstream itself
}

// made is a model, and what a server had said when it was made.
type made struct {
	server, item []byte
	model        *valuemodel.Model
}

func newModels(layers *valuemodel.Models) *models {
	return &models{layers: layers, made: make(map[target]made)}
}

// version rises when servers have made claims that change models.
func (c *catalog) version() uint64 { return c.claims.version.Load() }

// model returns the value model of a tool, or, with no name, of everything else
// the upstream is asked.
func (c *catalog) model(p *policy, l *leased, tool string) *valuemodel.Model {
	var now made
	if offer := l.Offer(); offer != nil {
		item, _ := offer.Find(upstream.Tools, tool)
		now.server, now.item = offer.Server, item.Raw
	}
	t := target{l.member.key, tool}
	p.models.mu.RLock()
	m, ok := p.models.made[t]
	p.models.mu.RUnlock()
	if ok && bytes.Equal(m.item, now.item) && bytes.Equal(m.server, now.server) {
		return m.model
	}
	u := l.member.Model
	if member := p.find(l.Name()); member != nil {
		u = member.Model
	}
	return c.remodel(p, t, u, now)
}

// remodel makes a model anew, by all that its server has said. Where that decides
// otherwise than before, nothing answered or begun until now may stand in for a
// call any more.
func (c *catalog) remodel(p *policy, t target, u valuemodel.Upstream, m made) *valuemodel.Model {
	version := c.version()
	claimed := c.claims.note(t, m.server, m.item)
	u.Server = claimed.server
	u.Trust = u.Trust && !claimed.renamed
	resolve := func(h valuemodel.Hints) *valuemodel.Model {
		return p.models.layers.Resolve(u, t.name, h, valuemodel.Layer{})
	}
	m.model = resolve(claimed.hints)
	switch {
	case claimed.changed, !reflect.DeepEqual(claimed.hints, claimed.before) && mayNowWrite(resolve(claimed.before), m.model):
		p.models.forget(t.upstream, &c.claims.version)
		c.store.Reform() // after the version: a write classified before it rose stays pending from now on
	case m.item != nil || t.name == "": // what no server lists, a client may have made up
		p.models.keep(t, m, version, &c.claims.version)
	}
	return m.model
}

// mayNowWrite reports whether some call that only reads by the one model may write by
// the next.
func mayNowWrite(old, next *valuemodel.Model) bool {
	return old.Class.Reads() && !next.Class.Reads() || old.Classify != "" && next.Classify == "" && !next.Class.Reads()
}

// keep keeps a model, unless claims have changed since it was begun.
func (m *models) keep(t target, made made, version uint64, now *atomic.Uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Load() != version {
		return
	}
	if len(m.made) >= modelsKept {
		clear(m.made)
	}
	m.made[t] = made
}

// forget drops the models of an upstream, and raises the version.
func (m *models) forget(upstream string, version *atomic.Uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.made, func(t target, _ made) bool { return t.upstream == upstream })
	version.Add(1)
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
	u.Server = c.claims.server(m.key)
	for _, d := range p.models.layers.Resolve(u, "", valuemodel.Hints{}, valuemodel.Layer{}).Domains {
		c.store.Bump(call.Place{Domain: d.Name})
	}
}

// schema is the input schema of a listed tool.
func (c *catalog) schema(l *leased, item upstream.Item) compiled {
	t := target{l.member.key, item.Name}
	c.mu.Lock()
	s, known := c.schemas[t]
	c.mu.Unlock()
	if known && bytes.Equal(s.item, item.Raw) {
		return s
	}
	s = compiled{item: item.Raw}
	if s.schema, s.err = schema.Compile(jsonrpc.Get(item.Raw, "inputSchema")); s.err != nil {
		c.log.Info("tool neither run early nor checked in plans: its input schema cannot be read", "upstream", l.Name(), "tool", item.Name, "err", s.err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.schemas == nil || len(c.schemas) >= modelsKept {
		c.schemas = make(map[target]compiled)
	}
	c.schemas[t] = s
	return s
}
