package speculate

import (
	"maps"
	"sync"

	"mcpschedd/internal/predict"
)

// learnedTools is what was learned of tools and is read outside the worker: by calls, plans and the
// record. It is safe for concurrent use.
type learnedTools struct {
	mu     sync.RWMutex
	byTool map[toolKey]ToolState
}

type toolKey struct{ upstream, tool string } // upstream is Upstream.Key

// ToolState is what was learned of one tool.
type ToolState struct {
	Barred        bool            // must never be prefetched again
	CrashesServer bool            // its server ended during a prefetch, in this process
	Proven        bool            // comparisons have confirmed its read-only hint
	Usual         predict.Typical // latency and size of its calls; zero if unknown
}

// Tool returns what was learned of a tool of the upstream with that key.
func (w *Worker) Tool(key, name string) ToolState {
	t := w.upstreams.tools
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.byTool[toolKey{key, name}]
}

// update changes the state of a tool.
func (t *learnedTools) update(key, name string, change func(*ToolState)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.byTool[toolKey{key, name}]
	if change(&known); known == (ToolState{}) {
		delete(t.byTool, toolKey{key, name})
		return
	}
	if t.byTool == nil {
		t.byTool = make(map[toolKey]ToolState)
	}
	t.byTool[toolKey{key, name}] = known
}

// forget removes the tools of upstreams that are no longer configured.
func (t *learnedTools) forget(gone func(key string) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.byTool, func(key toolKey, _ ToolState) bool { return gone(key.upstream) })
}

// publish updates a tool's usual latency and size from the model. Tools that the model has no space
// for are not known here either.
func (u *upstreams) publish(o *upstreamState, tool string) {
	if usual := o.model.Typical(tool); usual.Latency.P50 > 0 {
		u.tools.update(o.lease.Key, tool, func(t *ToolState) { t.Usual = usual })
	}
}

// prove updates which tools of an upstream are barred or proven: the listed tools and others.
func (u *upstreams) prove(o *upstreamState, others ...string) {
	proven := o.model.ProvenReadOnly()
	for _, name := range append(o.lease.Tools(), others...) {
		u.tools.update(o.lease.Key, name, func(t *ToolState) {
			t.Barred = t.Barred || o.model.Barred(name) != "" // its bar may not have reached the model yet
			t.Proven = proven(name) && !t.Barred
		})
	}
}
