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

// view is a set of upstreams and the names their tools and prompts bear to
// the sessions that see it. A name once shown is never given to another tool
// while the process lives.
type view struct {
	only string // the one upstream seen, under its own names; "": all

	mu    sync.RWMutex
	bound [upstream.Lists]map[string]target // name shown → what it stands for
}

// target is one tool or prompt of one upstream.
type target struct{ upstream, name string }

// view returns the view of one upstream, or of all.
func (s *Server) view(only string) *view {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.views[only]
	if v == nil {
		v = &view{only: only}
		s.views[only] = v
	}
	return v
}

// sees reports whether the view holds an upstream.
func (v *view) sees(name string) bool { return v.only == "" || v.only == name }

// show returns the name under which an item is listed, and binds it. It is ""
// for one that can bear no name: style "never", and another upstream has it.
func (v *view) show(p *policy, l upstream.List, t target) string {
	plain, prefixed := t.name, t.upstream+separator+t.name
	first, second := plain, prefixed
	if v.only == "" && p.prefix {
		first = prefixed
	}
	if p.NameStyle == "never" || v.only != "" {
		second = ""
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.bound[l] == nil {
		v.bound[l] = make(map[string]target)
	}
	for _, name := range []string{first, second} {
		if name == "" {
			continue
		}
		if other, taken := v.bound[l][name]; !taken || other == t {
			v.bound[l][name] = t
			return name
		}
	}
	return ""
}

// claim gives a name to a tool of the proxy's own, and reports whether that bears
// it: not if an upstream's tool had it before.
func (v *view) claim(name string) bool {
	own := target{"", name}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.bound[upstream.Tools] == nil {
		v.bound[upstream.Tools] = make(map[string]target)
	}
	t, taken := v.bound[upstream.Tools][name]
	if !taken {
		v.bound[upstream.Tools][name] = own
	}
	return !taken || t == own
}

// resolve says what a name of a request stands for. known is false where
// neither the name nor what was listed tells; the caller then looks at what the
// upstreams offer. A name that was bound to an upstream no longer there stays
// bound: it must not reach another one's tool.
func (v *view) resolve(p *policy, l upstream.List, name string) (t target, known bool) {
	v.mu.RLock()
	t, known = v.bound[l][name]
	v.mu.RUnlock()
	switch {
	case known:
		return t, true
	case v.only != "":
		return target{v.only, name}, true
	case p.prefix:
		up, rest, found := strings.Cut(name, separator)
		return target{up, rest}, found && p.find(up) != nil
	case len(p.members) == 1:
		return target{p.members[0].Spec.Name, name}, true
	}
	return target{}, false
}

// allows reports whether the operator lets a tool of this upstream be seen and
// called.
func (m *member) allows(tool string) bool { return m.Allows == nil || m.Allows(tool) }
