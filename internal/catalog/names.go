package catalog

import (
	"strings"
	"sync"

	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// Separator joins an upstream's name and a tool's name. Names of upstreams contain no "__" and
// neither begin nor end with "_", so the first separator ends the upstream's name and two
// tools never share a joined name.
const Separator = "__"

// Target is a tool or prompt of an upstream.
type Target struct{ Upstream, Name string }

// Key returns the tool's name in the configuration and in the search index.
func (t Target) Key() string { return t.Upstream + "/" + t.Name }

// names maps the shown names of tools and prompts to upstreams, for sessions that see all
// upstreams. A name is never reassigned to another tool while the process lives. The names of
// each upstream are bounded, so that a server that keeps changing its names cannot exhaust
// memory.
type names struct {
	mu       sync.RWMutex
	bindings [upstream.Lists]map[string]Target // shown name → target
	size     map[string]int                    // upstream → bytes of its names
}

const (
	maxNameBytes = 2 << 20 // maximum bytes of an upstream's names: about 10,000 typical ones
	bindingSize  = 128     // assumed bytes of a binding besides its names
)

// bind binds an item to the first candidate that is free or its own.
func (n *names) bind(l upstream.List, t Target, candidates ...string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range candidates {
		switch other, taken := n.bindings[l][name]; {
		case taken && other != t, !taken && n.size[t.Upstream] > maxNameBytes:
			continue
		case !taken:
			n.size[t.Upstream] += len(name) + len(t.Name) + bindingSize
			if n.bindings[l] == nil {
				n.bindings[l] = make(map[string]Target)
			}
			n.bindings[l][name] = t
		}
		return name
	}
	return ""
}

// taken reports whether an item's own name is another upstream's.
func (n *names) taken(l upstream.List, t Target) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	other, bound := n.bindings[l][t.Name]
	return bound && other != t
}

// unlisted returns how many of an upstream's tools are not listed, as name_style is "never" and other
// upstreams have their names.
func (n *names) unlisted(p *Policy, m *Member) (count int) {
	if p.NameStyle != "never" {
		return 0
	}
	for _, item := range m.Up.LastOffer().Items(upstream.Tools) {
		if m.Allowed(item.Name) && n.taken(upstream.Tools, Target{m.Spec.Name, item.Name}) {
			count++
		}
	}
	return count
}

// targetOf returns the target of a name in a request. If known is false, the caller searches the
// upstreams' lists. The name of an upstream that has been removed stays bound, so that it cannot
// reach another upstream's tool.
func (n *names) targetOf(p *Policy, l upstream.List, name string) (t Target, known bool) {
	n.mu.RLock()
	t, known = n.bindings[l][name]
	n.mu.RUnlock()
	switch {
	case known:
		return t, true
	case p.Prefix:
		up, rest, found := strings.Cut(name, Separator)
		return Target{up, rest}, found && p.Find(up) != nil
	case len(p.Members) == 1:
		return Target{p.Members[0].Spec.Name, name}, true
	}
	return Target{}, false
}

// Reserve binds a name to a tool of the proxy's own. It returns false if a server's tool took the name first.
func (c *Catalog) Reserve(name string) bool {
	return c.names.bind(upstream.Tools, Target{"", name}, name) != ""
}

// View is what a session sees under one policy: the upstreams, and the names of their tools and
// prompts. A session of one upstream sees that alone, under its own names.
type View struct {
	Catalog *Catalog
	Policy  *Policy
	Leases  Leases
	Only    string           // the only upstream that is seen; "" if all are
	Client  *revision.Client // the session's client
	Choices *Choices         // of the session
}

// Own reports whether the proxy's own tools and resources are seen.
func (v *View) Own() bool { return v.Only == "" }

// NameOf returns the shown name of an item and binds it. It returns "" if the item can have no
// name: another upstream has it under style "never", or the upstream has too many names.
func (v *View) NameOf(l upstream.List, t Target) string {
	if v.Only != "" {
		return t.Name
	}
	var candidates []string // in order of preference
	if !v.Policy.Prefix {
		candidates = append(candidates, t.Name)
	}
	if v.Policy.NameStyle != "never" {
		candidates = append(candidates, t.Upstream+Separator+t.Name)
	}
	return v.Catalog.names.bind(l, t, candidates...)
}

// Resolve returns what a name in a request stands for, and the lease on its upstream. The lease is
// nil if there is none, or if the session may not use the tool.
func (v *View) Resolve(list upstream.List, name string) (Target, *Lease) {
	t, known := Target{v.Only, name}, true
	if v.Own() {
		t, known = v.Catalog.names.targetOf(v.Policy, list, name)
	}
	if !known { // use the only upstream that lists it for clients
		t = Target{}
		if listing := v.Leases.Filter(func(l *Lease) bool {
			return l.lists(list, name) && (list != upstream.Tools || l.Member.Allowed(name))
		}); len(listing) == 1 {
			t = Target{listing[0].Name(), name}
		}
	}
	l := v.Leases.Named(t.Upstream)
	if l == nil || list == upstream.Tools && (t.Name == "" || !l.Member.Allowed(t.Name)) { // a tool has a name
		return Target{}, nil
	}
	return t, l
}

// Configured returns the tool with the given name in the configuration, NAME/TOOL, and the lease
// on its upstream. The lease is nil if there is none, or if the session may not use the tool.
func (v *View) Configured(key string) (Target, *Lease) {
	up, tool, _ := strings.Cut(key, "/")
	l := v.Leases.Named(up)
	if l == nil || !l.Member.Allowed(tool) {
		return Target{}, nil
	}
	return Target{up, tool}, l
}

// Tool returns what is known of a tool.
func (v *View) Tool(l *Lease, tool string) *Tool { return v.Catalog.Tool(v.Policy, l, tool) }

// ToolNames returns the shown names of the upstreams' tools.
func (v *View) ToolNames() (out []string) {
	for _, l := range v.Leases {
		for _, item := range l.items(upstream.Tools) {
			if name := v.NameOf(upstream.Tools, Target{l.Name(), item.Name}); name != "" {
				out = append(out, name)
			}
		}
	}
	return out
}
