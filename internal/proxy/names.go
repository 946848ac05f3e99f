package proxy

import (
	"strings"
	"sync"

	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// separator joins an upstream's name and a tool's name. Names of upstreams contain no "__" and
// neither begin nor end with "_", so the first separator ends the upstream's name and two
// tools never share a joined name.
const separator = "__"

// target is a tool or prompt of an upstream.
type target struct{ upstream, name string }

// key returns the tool's name in the configuration and in the search index.
func (t target) key() string { return t.upstream + "/" + t.name }

// names maps the shown names of tools and prompts to upstreams, for sessions that see all
// upstreams. A name is never reassigned to another tool while the process lives. The names of
// each upstream are bounded, so that a server that keeps changing its names cannot exhaust
// memory.
type names struct {
	mu       sync.RWMutex
	bindings [upstream.Lists]map[string]target // shown name → target
	size     map[string]int                    // upstream → bytes of its names
}

const (
	maxNameBytes = 2 << 20 // maximum bytes of an upstream's names: about 10,000 typical ones
	bindingSize  = 128     // assumed bytes of a binding besides its names
)

// nameOf returns the shown name of an item and binds it. It returns "" if the item can have no
// name: another upstream has it under style "never", or the upstream has too many names.
func (n *names) nameOf(p *policy, l upstream.List, t target) string {
	var candidates []string // in order of preference
	if !p.prefix {
		candidates = append(candidates, t.name)
	}
	if p.NameStyle != "never" {
		candidates = append(candidates, t.upstream+separator+t.name)
	}
	return n.bind(l, t, candidates...)
}

// bind binds an item to the first candidate that is free or its own.
func (n *names) bind(l upstream.List, t target, candidates ...string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range candidates {
		switch other, taken := n.bindings[l][name]; {
		case taken && other != t, !taken && n.size[t.upstream] > maxNameBytes:
			continue
		case !taken:
			n.size[t.upstream] += len(name) + len(t.name) + bindingSize
			if n.bindings[l] == nil {
				n.bindings[l] = make(map[string]target)
			}
			n.bindings[l][name] = t
		}
		return name
	}
	return ""
}

// taken reports whether an item's own name is another upstream's.
func (n *names) taken(l upstream.List, t target) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	other, bound := n.bindings[l][t.name]
	return bound && other != t
}

// unlisted returns how many of an upstream's tools are not listed, as name_style is "never" and other
// upstreams have their names.
func (n *names) unlisted(p *policy, m *member) (count int) {
	if p.NameStyle != "never" {
		return 0
	}
	for _, item := range m.up.LastOffer().Items(upstream.Tools) {
		if m.allows(item.Name) && n.taken(upstream.Tools, target{m.Spec.Name, item.Name}) {
			count++
		}
	}
	return count
}

// targetOf returns the target of a name in a request. If known is false, the caller searches the
// upstreams' lists. The name of an upstream that has been removed stays bound, so that it cannot
// reach another upstream's tool.
func (n *names) targetOf(p *policy, l upstream.List, name string) (t target, known bool) {
	n.mu.RLock()
	t, known = n.bindings[l][name]
	n.mu.RUnlock()
	switch {
	case known:
		return t, true
	case p.prefix:
		up, rest, found := strings.Cut(name, separator)
		return target{up, rest}, found && p.find(up) != nil
	case len(p.members) == 1:
		return target{p.members[0].Spec.Name, name}, true
	}
	return target{}, false
}

// view is what a session sees under one policy: the upstreams, and the names of their tools and
// prompts. A session of one upstream sees that alone, under its own names.
type view struct {
	s *session
	p *policy
}

// own reports whether the proxy's own tools and resources are seen.
func (v view) own() bool { return v.s.identity.Only == "" }

// nameOf returns the shown name of an item, or "" if it can have none.
func (v view) nameOf(l upstream.List, t target) string {
	if v.s.identity.Only != "" {
		return t.name
	}
	return v.s.srv.names.nameOf(v.p, l, t)
}

// resolve returns what a name in a request stands for, and the lease on its upstream. The lease is
// nil if there is none, or if the session may not use the tool.
func (v view) resolve(list upstream.List, name string) (target, *sessionLease) {
	t, known := target{v.s.identity.Only, name}, true
	if v.own() {
		t, known = v.s.srv.names.targetOf(v.p, list, name)
	}
	if !known { // use the only upstream that lists it for clients
		t = target{}
		if listing := filterLeases(v.s.leases.current(), func(l *sessionLease) bool {
			return l.lists(list, name) && (list != upstream.Tools || l.member.allows(name))
		}); len(listing) == 1 {
			t = target{listing[0].Name(), name}
		}
	}
	l := v.s.leases.find(t.upstream)
	if l == nil || list == upstream.Tools && (t.name == "" || !l.member.allows(t.name)) { // a tool has a name
		return target{}, nil
	}
	return t, l
}

// configured returns the tool with the given name in the configuration, NAME/TOOL, and the lease
// on its upstream. The lease is nil if there is none, or if the session may not use the tool.
func (v view) configured(key string) (target, *sessionLease) {
	up, tool, _ := strings.Cut(key, "/")
	l := v.s.leases.find(up)
	if l == nil || !l.member.allows(tool) {
		return target{}, nil
	}
	return target{up, tool}, l
}

// model returns the value model of a tool.
func (v view) model(l *sessionLease, tool string) *valuemodel.Model {
	return v.s.srv.catalog.model(v.p, l, tool)
}

// toolNames returns the shown names of the upstreams' tools.
func (v view) toolNames() (out []string) {
	for _, l := range v.s.leases.current() {
		for _, item := range l.items(upstream.Tools) {
			if name := v.nameOf(upstream.Tools, target{l.Name(), item.Name}); name != "" {
				out = append(out, name)
			}
		}
	}
	return out
}
