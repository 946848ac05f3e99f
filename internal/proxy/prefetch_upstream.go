package proxy

import (
	"slices"
	"time"

	"mcpschedd/internal/deliver"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/upstream"
)

// Learned keeps what was learned of an upstream: merge is given what is stored
// and returns what is to be stored instead; other processes wait meanwhile.
type Learned func(merge func(stored []byte) ([]byte, error)) error

// upstreamState is what is known of the calls to one upstream. The worker owns it.
type upstreamState struct {
	srv      *Server
	forecast *predict.Model
	made     Enrichment // it was made under
	maxAge   time.Duration
	keep     Learned   // nil: what is learned is not kept
	news     bool      // something was seen since it was kept
	kept     time.Time // when
	told     time.Time // when its counts were last copied out
	at       *leased   // the lease of the session that is looked at
}

// upstreamOn returns what is known of an upstream, read from where it is kept when
// it is first needed.
func (w *prefetchWorker) upstreamOn(l *leased) *upstreamState {
	p := w.srv.policy.Load()
	o := w.upstreams[l.member.key]
	if o != nil && o.made == p.Enrichment && o.maxAge == p.MaxAge {
		o.at = l
		return o
	}
	old := o
	o = &upstreamState{srv: w.srv, made: p.Enrichment, maxAge: p.MaxAge, keep: l.member.Learned, at: l}
	o.forecast = predict.New(predict.Options{
		Tool: o.tool, Learn: p.Enrichment.Learn, ShadowLabels: p.Enrichment.ShadowLabels, MaxAge: p.MaxAge,
	})
	if old != nil { // its rules have changed; sessions begin anew under the next ones
		for _, v := range w.sessions {
			delete(v.pairs, l.member.key)
		}
		w.p.faults.recovering(func() { w.handDown(l.member.key, old, o) })
	}
	w.upstreams[l.member.key] = o
	if p.Enrichment.Delivery == "inline" {
		w.srv.work.Go(func() { deliver.Tokens([]byte("now")) }) // loads the vocabulary, for which no answer should wait
	}
	w.keepOne(l.member.key, o)
	w.proveAll(o)
	for _, tool := range o.forecast.Seen() {
		w.publish(o, tool)
	}
	return o
}

// publish makes known, for plans and the record, what was learned of a tool's calls. What the
// forecast has no room for is not known here either.
func (w *prefetchWorker) publish(o *upstreamState, tool string) {
	if u := o.forecast.Usual(tool); u.Latency.P50 > 0 {
		w.p.learned.update(o.at, tool, func(t *learnedTool) { t.usual = u })
	}
}

// handDown hands on what was learned under other rules: by where it is kept, or, if
// it is not, by itself.
func (w *prefetchWorker) handDown(name string, old, next *upstreamState) {
	if old.keep != nil {
		w.keepOne(name, old)
		return
	}
	state, err := old.forecast.Merge(nil)
	if err == nil {
		_, err = next.forecast.Merge(state)
	}
	if err != nil {
		w.srv.log.Warn("what was learned is lost with the old configuration", "upstream", old.at.Name(), "err", err)
	}
}

// tool is what is known of a tool at this moment.
func (o *upstreamState) tool(name string) predict.Tool {
	offer := o.at.Offer()
	if offer == nil {
		return predict.Tool{}
	}
	item, listed := offer.Find(upstream.Tools, name)
	if !listed || !o.at.member.allows(name) {
		return predict.Tool{}
	}
	c := o.srv.catalog.schema(o.at, item)
	if c.err != nil {
		return predict.Tool{}
	}
	m := o.srv.catalog.model(o.srv.policy.Load(), o.at, name)
	return predict.Tool{Model: m, Schema: c.schema, Hearsay: untrustedHint(m)}
}

// look says whether the upstream offers anything that may be run early, and has
// its calls left alone from now on if it does not.
func (o *upstreamState) look() {
	offer := o.at.Offer()
	if offer == nil {
		return
	}
	p := o.srv.policy.Load()
	for _, item := range offer.Lists[upstream.Tools] {
		m := o.srv.catalog.model(p, o.at, item.Name)
		if m.Speculate != nil && *m.Speculate && (m.Class.Reads() || m.Classify != "") {
			return
		}
	}
	o.at.member.nothingToPrefetch.Store(offer)
}

// keepAtMost is how often what was learned is kept because a session has ended.
// Whatever is left is kept at the end.
const keepAtMost = 30 * time.Second

// forget drops what is known of upstreams that are there no more.
func (w *prefetchWorker) forget() {
	p := w.srv.policy.Load()
	gone := func(known string) bool {
		return !slices.ContainsFunc(p.members, func(m *member) bool { return m.key == known })
	}
	for known, o := range w.upstreams {
		if gone(known) {
			w.keepOne(known, o)
			delete(w.upstreams, known)
			delete(w.lines, known)
			continue
		}
		w.proveAll(o) // the operator may have given their word for a tool
	}
	w.p.learned.forget(gone)
	w.p.tally.forget(func(name string) bool { return p.find(name) == nil })
}

// keepAll keeps what was learned of every upstream.
func (w *prefetchWorker) keepAll() {
	for name, o := range w.upstreams {
		if o.news {
			w.keepOne(name, o)
		}
	}
}

// keepOne joins what was learned with what is stored, which other processes may
// have added to. What cannot be read or written is no reason to stop learning.
func (w *prefetchWorker) keepOne(name string, o *upstreamState) {
	o.news, o.kept = false, time.Now()
	if o.keep == nil {
		return
	}
	began := time.Now()
	defer func() { w.p.queue.excuse(time.Since(began)) }() // other processes may hold it up
	joined := func() {
		commit := func() {}
		err := o.keep(func(stored []byte) (next []byte, err error) {
			next, commit, err = o.forecast.Join(stored)
			if err != nil {
				w.srv.log.Warn("learned state not read in full; what is left of it is used", "upstream", o.at.Name(), "err", err)
			}
			return next, nil
		})
		if err == nil {
			commit()
		} else {
			w.srv.log.Warn("learned state not kept", "upstream", o.at.Name(), "err", err)
		}
	}
	if !w.p.faults.recovering(joined) {
		o.keep = nil // what was learned, its bars above all, still counts in this process
	}
}
