package proxy

import (
	"bytes"
	"reflect"
	"sync"

	"mcpschedd/internal/call"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// modelsKept bounds how many models of one policy are kept: clients may call
// what no server has.
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
// the upstream is asked. The same pointer comes back until something changes
// what it says.
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
	if member := p.find(t.upstream); member != nil {
		u = member.Model
	}
	p.models.mu.Lock()
	u, hints := s.said.heard(u, t, m)
	m.model = p.models.layers.Resolve(u, t.name, hints, valuemodel.Layer{})
	old, had := p.models.made[t]
	if had && alike(old.model, m.model) {
		m.model = old.model
	}
	if len(p.models.made) >= modelsKept {
		clear(p.models.made)
	}
	p.models.made[t] = m
	p.models.mu.Unlock()
	if had && old.model != m.model {
		s.store.Reform() // after it can be seen: a call judged before is in the air from now on
	}
	return m.model
}

// alike reports whether two models say the same.
func alike(a, b *valuemodel.Model) bool { return reflect.DeepEqual(a, b) }

// domains are what an upstream's answers belong to as a whole.
func (s *Server) domains(p *policy, l *leased) call.Effect {
	return s.model(p, l, "").Writes(nil)
}

// said is what servers have said of themselves and their tools since the
// program started. What loosens a model later is not believed: a server could
// change its mind after it has been looked at.
type said struct {
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

// heard adds what a server says now, and returns what counts.
func (s *said) heard(u valuemodel.Upstream, t target, m made) (valuemodel.Upstream, valuemodel.Hints) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.servers == nil {
		s.servers, s.turned, s.hints = make(map[string]string), make(map[string]bool), make(map[target]valuemodel.Hints)
	}
	if m.server != nil {
		name, _ := jsonrpc.String(jsonrpc.Get(m.server, "name"))
		first, known := s.servers[t.upstream]
		if !known {
			s.servers[t.upstream] = name
		} else if first != name {
			s.turned[t.upstream] = true
		}
	}
	u.Server = s.servers[t.upstream]
	if s.turned[t.upstream] {
		u.Server, u.Trust = "", false
	}
	if m.item == nil {
		return u, s.hints[t]
	}
	now := hints(m.item)
	if before, known := s.hints[t]; known {
		now = tighter(before, now)
	}
	if len(s.hints) < modelsKept {
		s.hints[t] = now
	} else if _, known := s.hints[t]; !known {
		now.ReadOnly = nil // there is no memory for what it says of itself: so it says nothing
	}
	return u, now
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
func (s *Server) stirred(upstream string) {
	p := s.policy.Load()
	if p == nil {
		return // it is being made; there is nothing to forget
	}
	m := p.find(upstream)
	if m == nil {
		return
	}
	u := m.Model
	u.Server = s.said.server(upstream)
	for _, d := range p.models.layers.Resolve(u, "", valuemodel.Hints{}, valuemodel.Layer{}).Domains {
		s.store.Bump(call.Place{Domain: d.Name})
	}
}
