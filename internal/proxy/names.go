package proxy

import (
	"log/slog"
	"maps"
	"slices"
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
// while the process lives. So that a server whose names keep changing does not fill the
// memory, those of an upstream may take only so much room: what has no room is not listed.
type view struct {
	only string // the one upstream seen, under its own names; "": all
	log  *slog.Logger

	mu    sync.RWMutex
	bound [upstream.Lists]map[string]target // name shown → what it stands for
	room  map[string]int                    // upstream → bytes that its names take
	full  map[string]bool                   // upstreams of which a name had no room
}

const (
	mostNames = 2 << 20 // bytes that the names of one upstream take in a view: some 10,000 usual ones
	bindingOf = 128     // bytes that a binding is taken to need beside the names in it
)

// target is one tool or prompt of one upstream.
type target struct{ upstream, name string }

// views are the views of a server's sessions. A session over one upstream alone has
// another view than those that see all.
type views struct {
	log *slog.Logger

	mu     sync.Mutex
	byOnly map[string]*view // the one upstream seen → the view; "" is the one with every upstream
}

// of returns the view of one upstream, or of all.
func (v *views) of(only string) *view {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.byOnly == nil {
		v.byOnly = make(map[string]*view)
	}
	if v.byOnly[only] == nil {
		v.byOnly[only] = newView(only, v.log)
	}
	return v.byOnly[only]
}

// filled names the upstreams of which any view leaves names out for want of room.
func (v *views) filled() []string {
	v.mu.Lock()
	views := slices.Collect(maps.Values(v.byOnly))
	v.mu.Unlock()
	all := []string{}
	for _, one := range views {
		all = append(all, one.filled()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func newView(only string, log *slog.Logger) *view {
	v := &view{only: only, log: log, room: make(map[string]int), full: make(map[string]bool)}
	for l := range v.bound {
		v.bound[l] = make(map[string]target)
	}
	return v
}

// sees reports whether the view holds an upstream.
func (v *view) sees(name string) bool { return v.only == "" || v.only == name }

// offersOwn reports whether the proxy's own tools and resources are seen.
func (v *view) offersOwn() bool { return v.only == "" }

// nameOf returns the name under which an item is listed, and binds it. It is ""
// for one that can bear no name: style "never", and another upstream has it, or the
// upstream has had too many names.
func (v *view) nameOf(p *policy, l upstream.List, t target) string {
	v.mu.Lock()
	name, filled := v.bindLocked(l, t, v.candidates(p, t))
	v.mu.Unlock()
	if filled {
		v.log.Warn("an upstream has had so many names that no new one of its is listed until restart: none may come to mean something else", "upstream", t.upstream, "list", l.Method(), "name", clipped(t.name))
	}
	return name
}

// candidates are the names that an item may bear, the preferred one first.
func (v *view) candidates(p *policy, t target) []string {
	plain, prefixed := t.name, t.upstream+separator+t.name
	switch {
	case v.only != "", p.NameStyle == "never":
		return []string{plain}
	case p.prefix:
		return []string{prefixed}
	}
	return []string{plain, prefixed}
}

// bindLocked binds an item to the first of the names that is its own or free. filled: it
// is the upstream's first for which there is no room.
func (v *view) bindLocked(l upstream.List, t target, names []string) (name string, filled bool) {
	for _, name := range names {
		other, taken := v.bound[l][name]
		size := len(name) + len(t.name) + bindingOf
		switch {
		case taken && other != t:
			continue
		case taken:
			return name, false
		case v.room[t.upstream]+size > mostNames:
			filled = !v.full[t.upstream]
			v.full[t.upstream] = true
			return "", filled
		}
		v.room[t.upstream] += size
		v.bound[l][name] = t
		return name, false
	}
	return "", false
}

// filled are the upstreams of which names are not listed for want of room.
func (v *view) filled() []string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return slices.Collect(maps.Keys(v.full))
}

// claim gives a name to a tool of the proxy's own, and reports whether that bears
// it: not if an upstream's tool had it before.
func (v *view) claim(name string) bool {
	own := target{"", name}
	v.mu.Lock()
	defer v.mu.Unlock()
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
