package proxy

import (
	"strings"
	"sync"

	"mcpschedd/internal/upstream"
)

// separator stands between an upstream's name and its tool's. Upstream names
// hold no "__" and neither begin nor end with "_", so the first one in a name
// always ends the upstream's: two tools never share a name.
const separator = "__"

// target is one tool or prompt of one upstream.
type target struct{ upstream, name string }

// key names the tool among all that are searched, as the configuration does.
func (t target) key() string { return t.upstream + "/" + t.name }

// view is what a session sees: all upstreams, or one alone under its own names.
type view struct {
	*names
	only string // the one upstream; "": all
}

// offersOwn reports whether the proxy's own tools and resources are seen.
func (v view) offersOwn() bool { return v.only == "" }

// names are the names that tools and prompts bear to the sessions that see all upstreams.
// A name once shown is never given to another tool while the process lives. So that a
// server whose names keep changing does not fill the memory, no new one of an upstream is
// listed once its names take a certain room.
type names struct {
	mu    sync.RWMutex
	bound [upstream.Lists]map[string]target // name shown → what it stands for
	size  map[string]int                    // upstream → bytes that its names take
}

const (
	maxNameBytes = 2 << 20 // bytes that the names of one upstream take: some 10,000 usual ones
	bindingSize  = 128     // bytes that a binding is taken to need beside the names in it
)

func newNames() *names {
	n := &names{size: make(map[string]int)}
	for l := range n.bound {
		n.bound[l] = make(map[string]target)
	}
	return n
}

// nameOf returns the name under which an item is listed, and binds it. It is ""
// for one that can bear no name: style "never", and another upstream has it, or the
// upstream has had too many names.
func (v view) nameOf(p *policy, l upstream.List, t target) string {
	if v.only != "" {
		return t.name
	}
	var candidates []string // the preferred one first
	if !p.prefix {
		candidates = append(candidates, t.name)
	}
	if p.NameStyle != "never" {
		candidates = append(candidates, t.upstream+separator+t.name)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.bindLocked(l, t, candidates)
}

// bindLocked binds an item to the first of the names that is its own or free.
func (n *names) bindLocked(l upstream.List, t target, candidates []string) string {
	for _, name := range candidates {
		switch other, taken := n.bound[l][name]; {
		case taken && other != t:
			continue
		case !taken && n.size[t.upstream] > maxNameBytes:
			return ""
		case !taken:
			n.size[t.upstream] += len(name) + len(t.name) + bindingSize
			n.bound[l][name] = t
		}
		return name
	}
	return ""
}

// claim gives a name to a tool of the proxy's own, and reports whether that bears
// it: not if an upstream's tool had it before.
func (n *names) claim(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.bindLocked(upstream.Tools, target{"", name}, []string{name}) != ""
}

// resolve says what a name of a request stands for. known is false where
// neither the name nor the lists say so; the caller then looks at what the
// upstreams offer. A name that was bound to an upstream no longer there stays
// bound: it must not reach another one's tool.
func (v view) resolve(p *policy, l upstream.List, name string) (t target, known bool) {
	if v.only != "" {
		return target{v.only, name}, true
	}
	v.mu.RLock()
	t, known = v.bound[l][name]
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

// named finds what a tool or prompt of that name stands for; nil: nothing that the
// session may use.
func (s *session) named(p *policy, list upstream.List, name string) (target, *leased) {
	t, known := s.identity.view.resolve(p, list, name)
	if !known { // then the first upstream that lists it
		t = target{}
		if first := findLease(s.leases.current(), func(l *leased) bool { return l.lists(list, name) }); first != nil {
			t = target{first.Name(), name}
		}
	}
	l := s.leases.find(t.upstream)
	if l == nil || list == upstream.Tools && !l.member.allows(t.name) {
		return target{}, nil
	}
	return t, l
}
