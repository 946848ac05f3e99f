package proxy

import (
	"bytes"

	"mcpschedd/internal/dedup"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// untrustedHint reports whether only its own server says that a tool only reads.
// What was fetched early of such a tool is not served at first: the call is made,
// and the answers are compared.
func untrustedHint(m *valuemodel.Model) bool {
	return m.Class.Reads() && m.Sources["side_effect_class"] == "annotation"
}

// alike reports whether two results say the same, whatever else they carry.
func alike(a, b []byte) bool {
	for _, member := range []string{"content", "structuredContent", "isError"} {
		x, ok := jsonrpc.AppendCanonical(nil, jsonrpc.Get(a, member))
		y, same := jsonrpc.AppendCanonical(nil, jsonrpc.Get(b, member))
		if ok != same || !bytes.Equal(x, y) {
			return false
		}
	}
	return true
}

// compared takes note of how the answer to a call compares with what was prefetched.
func (w *prefetchWorker) compared(c *callFacts, t dedup.Trial) {
	if t == dedup.NotTried {
		return
	}
	o := w.upstreamOn(c.lease)
	o.forecast.Trial(c.tool, t == dedup.Same)
	o.news = true
	w.prove(o, c.tool)
	if t == dedup.Differs {
		w.srv.log.Warn("tool barred from being run early: asked twice it gave two answers", "upstream", c.lease.Name(), "tool", c.tool)
		w.keepOne(c.lease.member.key, o)
	}
}

// prove says for all goroutines what is known of a tool.
func (w *prefetchWorker) prove(o *upstreamState, tool string) {
	w.p.learned.update(o.at, tool, func(t *learnedTool) {
		t.barred, t.proven = o.forecast.Barred(tool) != "", o.forecast.Tried(tool)
	})
}

// proveAll does so for every tool of an upstream, when what was learned of it has
// been read.
func (w *prefetchWorker) proveAll(o *upstreamState) {
	offer := o.at.Offer()
	if offer == nil {
		return
	}
	for _, item := range offer.Lists[upstream.Tools] {
		w.prove(o, item.Name)
	}
}
