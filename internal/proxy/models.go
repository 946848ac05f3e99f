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
	made map[target]made // of a tool; with no name: of the upstream itself
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
	t := target{l.Name(), tool}
	p.models.mu.RLock()
	m, ok := p.models.made[t]
	p.models.mu.RUnlock()
	if ok && bytes.Equal(m.item, item.Raw) && bytes.Equal(m.server, server) {
		return m.model
	}
	return s.remodel(p, t, l.member.Model, made{server: server, item: item.Raw})
}

// remodel makes a model anew. Where it decides otherwise than the one before,
// nothing answered or begun until now may stand in for a call any more.
func (s *Server) remodel(p *policy, t target, u valuemodel.Upstream, m made) *valuemodel.Model {
	who := t
	if member := p.find(t.upstream); member != nil {
		u = member.Model
		who.upstream = member.known()
	}
	p.models.mu.Lock()
	defer p.models.mu.Unlock()
	u, hints, news := s.said.heard(u, who, m)
	m.model = p.models.layers.Resolve(u, t.name, hints, valuemodel.Layer{})
	if news { // it is about every tool
		maps.DeleteFunc(p.models.made, func(k target, _ made) bool { return k.upstream == t.upstream })
	}
	if len(p.models.made) >= modelsKept {
		clear(p.models.made)
		news = true // nobody knows what those were
	}
	old, had := p.models.made[t]
	if !had {
		old.model = p.models.layers.Resolve(u, t.name, valuemodel.Hints{}, valuemodel.Layer{}) // as it was while not listed
	}
	switch {
	case had && alike(old.model, m.model):
		m.model = old.model
	case news || had || loosens(m.model, old.model):
		s.said.version.Add(1)
		s.store.Reform() // after the version: who was judged before is in the air from now on
	}
	if m.item != nil || t.name == "" {
		p.models.made[t] = m
	}
	return m.model
}

// loosens reports whether some call that only reads to b may write to a.
func loosens(b, a *valuemodel.Model) bool {
	reads := func(m *valuemodel.Model) bool { return m.Class.Reads() || m.Classify != "" }
	return reads(a) && (!reads(b) || a.Class.Reads() != b.Class.Reads())
}

// alike reports whether two models say the same.
func alike(a, b *valuemodel.Model) bool { return reflect.DeepEqual(a, b) }

// known names an upstream together with how it is reached: another command under
// the same name is another server.
func (m *member) known() string { return m.Spec.Name + "\x00" + m.Fingerprint }

// said is what servers have said of themselves and their tools since the
// program started. What loosens a model later is not believed: a server could
// change its mind after it has been looked at. Upstreams bear their names of
// member.known here.
type said struct {
	version atomic.Uint64 // of what follows from it: it rises after each change

	mu      sync.Mutex
	servers map[string]string           // upstream → what its server first called itself
	turned  map[string]bool             // upstreams whose server later called itself something else
	hints   map[target]valuemodel.Hints // the most restrictive there were
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

// heard adds what a server says now, and returns what counts, and whether that is
// news of the server itself.
func (s *said) heard(u valuemodel.Upstream, t target, m made) (_ valuemodel.Upstream, _ valuemodel.Hints, news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.servers == nil {
		s.servers, s.turned, s.hints = make(map[string]string), make(map[string]bool), make(map[target]valuemodel.Hints)
	}
	if m.server != nil {
		name, _ := jsonrpc.String(jsonrpc.Get(m.server, "name"))
		first, known := s.servers[t.upstream]
		switch {
		case !known:
			s.servers[t.upstream] = name
			news = true
		case first != name && !s.turned[t.upstream]:
			s.turned[t.upstream] = true
			news = true
		}
	}
	u.Server = s.servers[t.upstream]
	if s.turned[t.upstream] {
		u.Server, u.Trust = "", false
	}
	if m.item == nil {
		return u, s.hints[t], news
	}
	now := hints(m.item)
	if before, known := s.hints[t]; known {
		now = tighter(before, now)
	}
	if len(s.hints) < modelsKept {
		s.hints[t] = now
	} else if _, known := s.hints[t]; !known {
		now.ReadOnly = new(false) // there is no memory for what it says later: so it is taken at its worst
	}
	return u, now, news
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
	u.Server = s.said.server(m.known())
	for _, d := range p.models.layers.Resolve(u, "", valuemodel.Hints{}, valuemodel.Layer{}).Domains {
		s.store.Bump(call.Place{Domain: d.Name})
	}
}
