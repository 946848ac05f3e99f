package proxy

import (
	"strings"
	"sync"

	"mcpschedd/internal/upstream"
)

// separator joins an upstream's name and a tool's name. Names of upstreams contain no "__" and
// neither begin nor end with "_", so the first separator ends the upstream's name and two
// tools never share a joined name.
const separator = "__"

// target is a tool or prompt of an upstream.
type target struct{ upstream, name string }

// key returns the tool's name in the configuration and in the search index.
func (t target) key() string { return t.upstream + "/" + t.name }

// view is the part of the server that a session sees: all upstreams, or one upstream under its
// own names.
type view struct {
	*names
	only string // the one upstream; "" means all
}

// offersOwn reports whether the session sees the proxy's own tools and resources.
func (v view) offersOwn() bool { return v.only == "" }

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
func (v view) nameOf(p *policy, l upstream.List, t target) string {
	if v.only != "" {
		return t.name
	}
	var candidates []string // in order of preference
	if !p.prefix {
		candidates = append(candidates, t.name)
	}
	if p.NameStyle != "never" {
		candidates = append(candidates, t.upstream+separator+t.name)
	}
	return v.bind(l, t, candidates...)
}

// bind binds an item to the first candidate that is free or its own.
func (n *names) bind(l upstream.List, t target, candidates ...string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range candidates {
		switch other, taken := n.bindings[l][name]; {
		case taken && other != t:
			continue
		case !taken && n.size[t.upstream] > maxNameBytes:
			return ""
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

// resolve returns the target of a name in a request. If known is false, the caller searches
// the upstreams' lists. The name of an upstream that has been removed stays bound, so that it
// cannot reach another upstream's tool.
func (v view) resolve(p *policy, l upstream.List, name string) (t target, known bool) {
	if v.only != "" {
		return target{v.only, name}, true
	}
	v.mu.RLock()
	t, known = v.bindings[l][name]
	v.mu.RUnlock()
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

// resolveName resolves the name of a tool or prompt. The lease is nil if the session may not use it.
func (s *session) resolveName(p *policy, list upstream.List, name string) (target, *sessionLease) {
	t, known := s.identity.view.resolve(p, list, name)
	if !known { // use the only upstream that lists it
		t = target{}
		if listing := filterLeases(s.leases.current(), func(l *sessionLease) bool { return l.lists(list, name) }); len(listing) == 1 {
			t = target{listing[0].Name(), name}
		}
	}
	l := s.leases.find(t.upstream)
	if l == nil || list == upstream.Tools && !l.member.allows(t.name) {
		return target{}, nil
	}
	return t, l
}
