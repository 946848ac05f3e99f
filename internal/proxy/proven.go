package proxy

import (
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// hearsay reports whether nobody but its own server says that a tool only reads.
// What was fetched early of such a tool is not served at first: the call is made,
// and the answers are compared.
func hearsay(m *valuemodel.Model) bool {
	return m.Class.Reads() && m.Sources["side_effect_class"] == "annotation"
}

// isProven reports whether enough comparisons agreed. It may be asked on any
// goroutine.
func (w *foresight) isProven(l *leased, tool string) bool {
	_, ok := w.proven.Load(target{l.member.known, tool})
	return ok
}

// tried takes note of a comparison.
func (w *foresight) tried(o *outlook, tool string, t dedup.Trial) {
	if t == dedup.NotTried {
		return
	}
	o.forecast.Trial(tool, t == dedup.Same)
	w.prove(o, tool)
}

// prove says for all goroutines what is known of a tool.
func (w *foresight) prove(o *outlook, tool string) {
	t := target{o.at.member.known, tool}
	if o.forecast.Tried(tool) {
		w.proven.Store(t, true)
	} else {
		w.proven.Delete(t)
	}
}

// proveAll does so for every tool of an upstream, when what was learned of it has
// been read.
func (w *foresight) proveAll(o *outlook) {
	offer := o.at.Offer()
	if offer == nil {
		return
	}
	for _, item := range offer.Lists[upstream.Tools] {
		w.prove(o, item.Name)
	}
}
