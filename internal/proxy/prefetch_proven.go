package proxy

import (
	"bytes"

	"mcpschedd/internal/dedup"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// hearsay reports whether nobody but its own server says that a tool only reads.
// What was fetched early of such a tool is not served at first: the call is made,
// and the answers are compared.
func hearsay(m *valuemodel.Model) bool {
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

// isProven reports whether enough comparisons agreed. It may be asked on any
// goroutine.
func (w *prefetcher) isProven(l *leased, tool string) bool {
	_, ok := w.proven.Load(target{l.member.known, tool})
	return ok
}

// isBarred reports whether a tool is never run early. It may be asked on any
// goroutine.
func (w *prefetcher) isBarred(l *leased, tool string) bool {
	t := target{l.member.known, tool}
	_, barred := w.barred.Load(t)
	_, deadly := w.deadly.Load(t)
	return barred || deadly
}

// compared takes note of a comparison, also of a call that was not looked at
// otherwise: it may be what gives a tool away.
func (w *prefetcher) compared(l *leased, tool string, t dedup.Trial) {
	if t == dedup.NotTried {
		return
	}
	w.insist(func(w *prefetcher) {
		o := w.upstreamOn(l)
		o.forecast.Trial(tool, t == dedup.Same)
		o.news = true
		w.prove(o, tool)
		if t == dedup.Differs {
			w.srv.log.Warn("tool barred from being run early: asked twice it gave two answers", "upstream", l.Name(), "tool", tool)
			w.keepOne(l.member.known, o)
		}
	})
}

// prove says for all goroutines what is known of a tool.
func (w *prefetcher) prove(o *upstreamState, tool string) {
	t := target{o.at.member.known, tool}
	if o.forecast.Barred(tool) != "" {
		w.barred.Store(t, true)
	} else {
		w.barred.Delete(t)
	}
	if o.forecast.Tried(tool) {
		w.proven.Store(t, true)
	} else {
		w.proven.Delete(t)
	}
}

// proveAll does so for every tool of an upstream, when what was learned of it has
// been read.
func (w *prefetcher) proveAll(o *upstreamState) {
	offer := o.at.Offer()
	if offer == nil {
		return
	}
	for _, item := range offer.Lists[upstream.Tools] {
		w.prove(o, item.Name)
	}
}
