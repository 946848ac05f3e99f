package speculate

import (
	"maps"
	"sync"

	"mcpschedd/internal/predict"
)

// learnedTools is what the worker has learned of tools, as far as others go by it: the path
// of a call, plans, the record. It may be changed and asked on any goroutine.
type learnedTools struct {
	mu     sync.RWMutex
	byTool map[toolOf]ToolState
}

type toolOf struct{ upstream, tool string } // Upstream.Key

// ToolState is what was learned of one tool.
type ToolState struct {
	Barred        bool          // it is never run early again
	CrashesServer bool          // its server ended while a prefetch of it was there, since this process began
	Proven        bool          // its server's word that it only reads has been tested
	Usual         predict.Usual // what its calls take and bring; zero: not known
}

// Tool is what was learned of a tool of the upstream with that key.
func (w *Worker) Tool(key, name string) ToolState {
	t := w.upstreams.tools
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.byTool[toolOf{key, name}]
}

// update changes what is known of a tool.
func (t *learnedTools) update(key, name string, change func(*ToolState)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.byTool[toolOf{key, name}]
	if change(&known); known == (ToolState{}) {
		delete(t.byTool, toolOf{key, name})
		return
	}
	if t.byTool == nil {
		t.byTool = make(map[toolOf]ToolState)
	}
	t.byTool[toolOf{key, name}] = known
}

// forget drops what is known of the tools of upstreams that are there no more.
func (t *learnedTools) forget(gone func(key string) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.byTool, func(at toolOf, _ ToolState) bool { return gone(at.upstream) })
}

// publish makes known what was learned of a tool's calls. What the model has no room for is
// not known here either.
func (u *upstreams) publish(o *upstreamState, tool string) {
	if usual := o.model.Usual(tool); usual.Latency.P50 > 0 {
		u.tools.update(o.at.Key, tool, func(t *ToolState) { t.Usual = usual })
	}
}

// prove makes known which tools of an upstream are barred, and which have proven that they
// only read: those that it lists, and others that something was just learned of.
func (u *upstreams) prove(o *upstreamState, others ...string) {
	proven := o.model.Proven()
	for _, name := range append(o.at.Tools(), others...) {
		u.tools.update(o.at.Key, name, func(t *ToolState) {
			t.Barred = t.Barred || o.model.Barred(name) != "" // it may be about to be told to the model
			t.Proven = proven(name) && !t.Barred
		})
	}
}
