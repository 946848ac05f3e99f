package proxy

import (
	"cmp"
	"os"
	"time"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/speculate"
)

// waitingPair is a session with an upstream where candidates wait for a slot.
type waitingPair struct {
	v *sessionState
	f *pairState
}

// wake gives a slot that has become free to the next session that waits for one.
func (w *prefetchWorker) wake(now time.Time) {
	for range min(len(w.waiting), mostWoken) {
		next := w.waiting[0]
		w.waiting = w.waiting[1:]
		next.f.queued = false
		if w.sessions[next.v.s] != next.v || next.f.offer.Open() == 0 {
			continue
		}
		if begun := w.choose(next.v, w.upstreamOn(next.f.at), next.f, now); len(begun) > 0 {
			return
		}
	}
}

// mostWoken bounds how many sessions are asked before one wants the slot.
const mostWoken = 8

// wait has what lacks a slot wait for one.
func (w *prefetchWorker) wait(v *sessionState, f *pairState) {
	if f.offer.Open() > 0 && !f.queued {
		f.queued = true
		w.waiting = append(w.waiting, waitingPair{v, f})
	}
}

// exact is a call, of one session to one upstream.
type exact struct{ tool, arguments string }

// choose picks from what the last answer made likely, and begins it. What only
// lacks a slot waits in the offer until a guess comes back.
func (w *prefetchWorker) choose(v *sessionState, o *upstreamState, f *pairState, now time.Time) []started {
	w.of = v.s
	w.p.traffic.read()
	p := w.srv.policy.Load()
	if p.Enrichment.off() {
		f.offer = predict.NewOffer(nil, 0)
		return nil
	}
	host := w.srv.catalog.model(p, o.at, "").Host
	w.blame(v, host)
	v.desk.Review(now)
	opt := p.Enrichment.pick()
	if e := &p.Enrichment; e.Delivery != "inline" {
		opt.Whole = e.Budget / cmp.Or(max(e.PerSession, 0), 3) // an answer that only goes into the store takes no more than its slot's share
	}
	opt.Keywords, opt.Dollars = v.intent, p.Enrichment.Dollars-v.dollars
	opt.Slots, _, _ = v.desk.Room(host, o.at.Instance())
	if p.Enrichment.Mode == "shadow" {
		opt.Slots = max(opt.Slots, 1)
	}
	if f.round != nil {
		f.round.slots = max(f.round.slots, opt.Slots)
	}
	classes := make(map[exact]*callClass)
	picked := f.offer.Choose(func(g *predict.Candidate) predict.World { return w.world(v, o, g, classes) }, opt)
	for i := range picked.Declined {
		d := &picked.Declined[i]
		w.p.tally.decline(d.Why)
		f.consider(&d.Candidate, d.Why, nil, opt.Whole)
	}
	for _, g := range picked.Watch {
		if class := classes[exact{g.Key.Tool, g.Key.Arguments}]; class != nil {
			v.desk.Watch(now, class.query.Key, class.host, p.MaxAge)
		}
	}
	var begun []started
	for _, g := range picked.Start {
		b, refused := w.start(v, o, f, g, classes[exact{g.Key.Tool, g.Key.Arguments}], now)
		if refused != "" {
			w.p.tally.decline(enrich.Reason(refused))
			f.consider(&g, enrich.Reason(refused), nil, opt.Whole)
			continue
		}
		f.consider(&g, "", b.timing, opt.Whole)
		begun = append(begun, b)
	}
	w.wait(v, f)
	return begun
}

// world is what stands in the way of one guess, beyond what was foreseen.
func (w *prefetchWorker) world(v *sessionState, o *upstreamState, g *predict.Candidate, classes map[exact]*callClass) predict.World {
	class, why := v.s.mayPrefetch(newCandidate(o.at, g))
	out := predict.World{Key: class.query.Key, Reason: why}
	switch why {
	case enrich.Unsteady, enrich.NotSpeculatable, enrich.Dollars, enrich.Disclosure:
		return out
	}
	classes[exact{g.Key.Tool, g.Key.Arguments}] = &class
	free, caution, watch := v.desk.Room(class.host, o.at.Instance())
	out.Caution = caution
	switch {
	case why != "":
	case watch:
		out.Reason = enrich.Shadow
	case free == 0 || w.inTheWay(o, g):
		out.Reason = enrich.Throttled
	case class.query.Use.File != "":
		if info, err := os.Stat(class.query.Use.File); err == nil {
			out.FileBytes = int(info.Size())
		}
	}
	return out
}

// inTheWay reports whether the guess may still be under way when the next call comes
// to an upstream that works on one at a time. A process may do so for all that is
// known; a server of HTTP hardly does.
func (w *prefetchWorker) inTheWay(o *upstreamState, g *predict.Candidate) bool {
	switch w.scheduler.Concurrency(o.at.Instance()) {
	case speculate.Parallel:
		return false
	case speculate.Unknown:
		if o.at.member.Spec.URL != "" {
			return false
		}
	}
	return g.Lead.P10 > 0 && g.Latency.P90 > g.Lead.P10
}

// blame holds against a session's guesses what they did to others since it was
// last looked.
func (w *prefetchWorker) blame(v *sessionState, host string) {
	if displaced := w.srv.store.Stats().Prefetch.Displaced; displaced > w.displaced {
		w.displaced = displaced
		w.scheduler.Harm(host, v.desk, speculate.Eviction, 0)
	}
	if harm := w.srv.limits.Harm(host); harm != w.harm[host] {
		if harm > w.harm[host] { // else the host was forgotten in between
			w.scheduler.Harm(host, v.desk, speculate.ForegroundWait, harm-w.harm[host])
		}
		w.harm[host] = harm
	}
}
