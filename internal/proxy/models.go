package proxy

import (
	"bytes"
	"maps"
	"reflect"
	"sync"
	"sync/atomic"

	"mcpschedd/internal/call"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// modelsKept bounds how many models of one policy are kept: of tools that a server
// lists, for clients may call what none has.
const modelsKept = 8192

// models are the value models of one policy, made when they are first asked for.
type models struct {
	layers *valuemodel.Models

	mu   sync.RWMutex
	made map[target]made // of a tool, its upstream as member.known; with no name: of the upstream itself
}

func newModels(layers *valuemodel.Models) *models {
	return &models{layers: layers, made: make(map[target]made)}
}

// made is a model, and what a server had said when it was made.
type made struct {
	server, item []byte
	model        *valuemodel.Model
}

// model returns the value model of a tool, or, with no name, of everything else
// the upstream is asked.
func (s *Server) model(p *policy, l *leased, tool string) *valuemodel.Model {
	var server []byte
	var item upstream.Item
	if offer := l.Offer(); offer != nil {
		server = offer.Server
		item, _ = offer.Find(upstream.Tools, tool)
	}
	t := target{l.member.known, tool}
	p.models.mu.RLock()
	m, ok := p.models.made[t]
	p.models.mu.RUnlock()
	if ok && bytes.Equal(m.item, item.Raw) && bytes.Equal(m.server, server) {
		return m.model
	}
	u := l.member.Model
	if member := p.find(l.Name()); member != nil {
		u = member.Model
	}
	return s.remodel(p, t, u, made{server: server, item: item.Raw})
}

// remodel makes a model anew, by all that its server has said. Where that decides
// otherwise than before, nothing answered or begun until now may stand in for a
// call any more.
func (s *Server) remodel(p *policy, t target, u valuemodel.Upstream, m made) *valuemodel.Model {
	version := s.said.version.Load()
	h := s.said.hear(t, m)
	u.Server = h.server
	u.Trust = u.Trust && !h.turned
	m.model = p.models.layers.Resolve(u, t.name, h.hints, valuemodel.Layer{})
	if h.news || !reflect.DeepEqual(h.hints, h.before) && writes(p.models.layers.Resolve(u, t.name, h.before, valuemodel.Layer{}), m.model) {
		p.models.forget(t.upstream, &s.said.version)
		s.store.Reform() // after the version: who was judged before it rose is in the air from now on
	} else if m.item != nil || t.name == "" { // what no server lists, a client may have made up
		p.models.keep(t, m, version, &s.said.version)
	}
	return m.model
}

// writes reports whether some call that only reads by the one model may write by
// the next.
func writes(old, next *valuemodel.Model) bool {
	return old.Class.Reads() && !next.Class.Reads() || old.Classify != "" && next.Classify == "" && !next.Class.Reads()
}

// keep keeps a model, unless something was said since it was begun.
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

// said is what servers have said of themselves and their tools since the
// program started. What loosens a model later is not believed: a server could
// change its mind after it has been looked at. Upstreams bear their names of
// member.known here.
type said struct {
	version atomic.Uint64 // of what follows from it: it rises after each change

	mu      sync.Mutex
	servers map[string]string           // upstream → what its server first called itself
	unnamed map[string]bool             // upstreams of which something was judged before that
	turned  map[string]bool             // upstreams whose server later called itself something else
	hints   map[target]valuemodel.Hints // the most restrictive there were
	room    map[string]int              // upstream → bytes that the names in hints take, at most mostNames
}

// server returns what an upstream's server first called itself; "" if nothing is
// known, or it later called itself something else.
func (s *said) server(upstream string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turned[upstream] {
		return ""
	}
	return s.servers[upstream]
}

// heard is what counts of what a server has said.
type heard struct {
	server        string           // what it calls itself; "" not known, or it has turned
	turned        bool             // it has called itself two things
	news          bool             // one of these is new
	before, hints valuemodel.Hints // of the tool: until now, and from now on
}

// hear adds what a server says now of itself and of one tool.
func (s *said) hear(t target, m made) heard {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.servers == nil {
		s.servers, s.unnamed, s.turned = make(map[string]string), make(map[string]bool), make(map[string]bool)
		s.hints, s.room = make(map[target]valuemodel.Hints), make(map[string]int)
	}
	var h heard
	if m.server == nil {
		s.unnamed[t.upstream] = true
	} else {
		name, _ := jsonrpc.String(jsonrpc.Get(m.server, "name"))
		first, known := s.servers[t.upstream]
		switch {
		case !known:
			s.servers[t.upstream] = name
			h.news = s.unnamed[t.upstream] // else there is nothing that could have been judged otherwise
		case first != name && !s.turned[t.upstream]:
			s.turned[t.upstream] = true
			h.news = true
		}
	}
	if h.turned = s.turned[t.upstream]; !h.turned {
		h.server = s.servers[t.upstream]
	}
	h.before = s.hints[t]
	h.hints = h.before
	if m.item == nil {
		return h
	}
	_, known := s.hints[t]
	size := len(t.name) + bindingOf
	switch h.hints = hints(m.item); {
	case known:
		h.hints = tighter(h.before, h.hints)
	case s.room[t.upstream]+size > mostNames:
		h.hints.ReadOnly = new(false) // there is no memory for what it says later: so it is taken at its worst
		return h
	default:
		s.room[t.upstream] += size
	}
	s.hints[t] = h.hints
	return h
}

// hints reads a tool's annotations.
func hints(item []byte) valuemodel.Hints {
	annotations := jsonrpc.Get(item, "annotations")
	return valuemodel.Hints{
		ReadOnly:    truth(jsonrpc.Get(annotations, "readOnlyHint")),
		Destructive: truth(jsonrpc.Get(annotations, "destructiveHint")),
	}
}

func truth(raw []byte) *bool {
	switch string(raw) {
	case "true":
		return new(true)
	case "false":
		return new(false)
	}
	return nil
}

// tighter returns the more restrictive of what was said before and is said now.
func tighter(before, now valuemodel.Hints) valuemodel.Hints {
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
	return out
}

// stirred forgets what an upstream answered so far: what it holds may have
// changed without a call through here.
func (s *Server) stirred(up *upstream.Upstream, name string) {
	p := s.policy.Load()
	if p == nil {
		return // it is being made; there is nothing to forget
	}
	m := p.find(name)
	if m == nil || m.up != up {
		s.store.Forget() // it is on its way out, and nobody knows any more where it belonged
		return
	}
	u := m.Model
	u.Server = s.said.server(m.known)
	for _, d := range p.models.layers.Resolve(u, "", valuemodel.Hints{}, valuemodel.Layer{}).Domains {
		s.store.Bump(call.Place{Domain: d.Name})
	}
}
