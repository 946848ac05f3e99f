package proxy

import (
	"maps"
	"sync"

	"mcpschedd/internal/predict"
)

// learnedTools is what the prefetcher has learned of tools, as far as others go by it:
// the path of a call, plans, the record. It may be asked on any goroutine.
type learnedTools struct {
	mu sync.RWMutex
	of map[target]learnedTool // target: of an upstream as member.key
}

// learnedTool is what was learned of one tool.
type learnedTool struct {
	barred        bool          // it is never run early again
	crashesServer bool          // its server ended while a prefetch of it was there, since this process began
	proven        bool          // its server's word that it only reads has been tested
	usual         predict.Usual // what its calls take and bring; zero: not known
}

// tool is what was learned of a tool of the upstream that l leases.
func (t *learnedTools) tool(l *leased, name string) learnedTool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.of[target{l.member.key, name}]
}

// update changes what is known of a tool.
func (t *learnedTools) update(l *leased, name string, change func(*learnedTool)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := target{l.member.key, name}
	known := t.of[at]
	change(&known)
	switch {
	case known == learnedTool{}:
		delete(t.of, at)
	case t.of == nil:
		t.of = map[target]learnedTool{at: known}
	default:
		t.of[at] = known
	}
}

// forget drops what is known of the tools of upstreams that are there no more.
func (t *learnedTools) forget(gone func(known string) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.of, func(at target, _ learnedTool) bool { return gone(at.upstream) })
}
