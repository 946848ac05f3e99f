package proxy

import (
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/speculate"
)

// sessionState is a session as the worker sees it.
type sessionState struct {
	s         *observedSession
	desk      *speculate.Session
	pairs     map[string]*pairState // member.key → what it has with that upstream
	instances map[uint64]*leased    // upstream instances it has called
	intent    []string              // the latest arguments, which say what the model is after
	dollars   float64               // what its guesses cost so far
}

// pairState is what a session has with one upstream.
type pairState struct {
	*predict.Session
	at      *leased           // its lease, as of its last call
	queued  bool              // it waits for a slot
	offer   *predict.Offer    // what its last answer made likely
	chained map[call.Key]bool // guesses under way that follow from a guess

	round  *round              // the newest; nil: its answer made nothing likely
	rounds []*round            // that are not judged yet, oldest first
	called map[uint64]*thought // call under way → the candidate that it was
}

// Bounds of what is taken for the model's intent.
const (
	intentCalls = 4
	intentBytes = 512 // of each
)

// watch finds a session, or begins to watch it; nil if it has ended, or something
// panicked over it.
func (w *prefetchWorker) watch(s *observedSession) *sessionState {
	v := w.sessions[s]
	if v == nil && s.ctx.Err() == nil && !s.predictionOff.Load() {
		v = &sessionState{s: s, desk: w.scheduler.Session(), pairs: make(map[string]*pairState), instances: make(map[uint64]*leased)}
		w.sessions[s] = v
		w.srv.figures.state.sessionBegun(v.desk.Number(), s.name)
	}
	return v
}

// on is what the session has with an upstream.
func (v *sessionState) on(o *upstreamState) *pairState {
	known := o.at.member.key
	f := v.pairs[known]
	if f == nil {
		f = &pairState{
			Session: o.forecast.Begin(v.s.learnedAs, v.s.several), // several clients: none can be told from another
			offer:   predict.NewOffer(nil, 0), chained: make(map[call.Key]bool), called: make(map[uint64]*thought),
		}
		v.pairs[known] = f
		o.look()
	}
	f.at = o.at
	return f
}

// meet notes which instance of an upstream the session calls. How it works on
// several calls at once is taken to be as it was with the last one.
func (w *prefetchWorker) meet(v *sessionState, l *leased) {
	instance := l.Instance()
	if v.instances[instance] == nil {
		w.scheduler.Presume(instance, w.lines[l.member.key])
		w.p.traffic.publish(instance, w.srv.occupancies.of(instance))
	}
	v.instances[instance] = l
}

// means adds the words of a call's arguments to what the model is after.
func (v *sessionState) means(arguments string) {
	var said strings.Builder
	for m := range jsonrpc.Members([]byte(arguments)) {
		if text, ok := jsonrpc.String(m.Value); ok && said.Len() < intentBytes {
			said.WriteString(text[:min(len(text), intentBytes)])
			said.WriteByte(' ')
		}
	}
	if v.intent = append(v.intent, said.String()); len(v.intent) > intentCalls {
		v.intent = v.intent[1:]
	}
}

// called looks at a call that a client made.
func (w *prefetchWorker) called(c *callFacts) {
	w.of = c.session
	v := w.watch(c.session)
	if v == nil {
		return
	}
	o := w.upstreamOn(c.lease)
	o.news = true
	w.meet(v, c.lease)
	arguments := string(c.arguments) // the forecast makes them canonical
	if c.arguments == nil {
		arguments = "{}"
	}
	if c.key.Arguments != "" {
		v.desk.Asked(c.at, c.key)
	}
	v.desk.Preempt(c.lease.Instance())
	f := v.on(o)
	if t := f.came(c.tool, arguments, c.at); t != nil {
		f.called[c.id] = t
	}
	f.Call(predict.Call{ID: c.id, Turn: c.turn, Tool: c.tool, Arguments: arguments, At: c.at})
	v.means(arguments)
	if c.effect.Changes() {
		w.changed(v, c.effect)
	}
}

// changed takes back what was foreseen of answers that a write makes stale, of
// whatever upstream.
func (w *prefetchWorker) changed(v *sessionState, e call.Effect) {
	p := w.srv.policy.Load()
	for _, f := range v.pairs {
		stale := func(tool, arguments string) bool {
			args := func(name string) []byte { return jsonrpc.Get([]byte(arguments), name) }
			reads := w.srv.catalog.model(p, f.at, tool).Reads(args)
			return slices.ContainsFunc(reads, func(r call.Place) bool { return slices.Contains(e.Places, r) })
		}
		f.Invalidate(stale)
		f.void(stale)
		instance := f.at.Instance()
		v.desk.Void(func(k call.Key) bool { return k.Upstream == instance && stale(k.Tool, k.Arguments) })
	}
}

// answered looks at the end of a call, and decides what to run early.
func (w *prefetchWorker) answered(h *observedResult) {
	if h.reply != nil {
		defer close(h.reply)
	}
	c := h.call
	w.of = c.session
	v := w.sessions[c.session]
	w.compared(c, h.trial)
	w.joinTimedOut(v, c, h.joinWait)
	if v == nil || c.id == 0 {
		return
	}
	o := w.upstreamOn(c.lease)
	r := read(h.text, h.length)
	r.ID, r.Failed = c.id, !h.complete
	if h.upstream > 0 && h.complete { // what was served, or cut short, took as long as no call does
		r.At = c.at.Add(h.upstream)
	}
	f := v.on(o)
	f.Result(r)
	if t := f.called[c.id]; t != nil {
		t.took = h.upstream
		delete(f.called, c.id)
	}
	f.judge(v, h.at, false, w.srv.recorder.log.Add)
	w.publish(o, c.tool)
	w.p.tally.learn(o, h.at)
	if o.at.nothingToPrefetch() {
		return
	}
	begun := w.foresee(v, o, f, c.number.Seq)
	if h.reply != nil {
		h.reply <- announcement{begun, slices.Clone(v.intent)}
	}
}

// joinTimedOut holds against the prefetches of a tool that a call waited for one in
// vain.
func (w *prefetchWorker) joinTimedOut(v *sessionState, c *callFacts, waited time.Duration) {
	if waited <= 0 {
		return
	}
	w.upstreamOn(c.lease).forecast.Harm(c.tool)
	var desk *speculate.Session
	if v != nil {
		desk = v.desk
	}
	w.scheduler.Harm(w.hostOf(c.lease), desk, speculate.ForegroundWait, waited)
}

// foresee thinks of what comes next, and begins what is worth it.
func (w *prefetchWorker) foresee(v *sessionState, o *upstreamState, f *pairState, after int64) []started {
	now, instance := time.Now(), o.at.Instance()
	e := &w.srv.policy.Load().Enrichment
	guesses := f.Guesses(now)
	w.p.tally.found(len(guesses))
	likely := predict.Likely(guesses, e.MinProbability)
	v.desk.Reprice(now, func(k call.Key) bool {
		return k.Upstream != instance || f.chained[k] || likely(k.Tool, k.Arguments)
	})
	for range f.offer.Open() { // it was thought of before this answer
		w.p.tally.decline(enrich.Cap)
	}
	f.offer = f.Offer(guesses, e.Budget)
	f.begin(now, after, len(guesses), e, w.srv.policy.Load().MaxAge)
	return w.choose(v, o, f, now)
}

// read makes an answer, or the first bytes of it, what the forecast reads.
func read(result []byte, size int) predict.Result {
	r := predict.Result{Size: size, Unread: result == nil}
	if !r.Unread {
		r.Text, r.Structured = predict.Read(result, len(result) < size)
	}
	return r
}

// leave forgets a session that has ended.
func (w *prefetchWorker) leave(s *observedSession) {
	w.of = s
	v := w.sessions[s]
	if v == nil {
		return
	}
	v.desk.Review(time.Now())
	v.desk.End()
	for known, f := range v.pairs {
		for range f.offer.Open() {
			w.p.tally.decline(enrich.Cap)
		}
		f.judge(v, time.Now(), true, w.srv.recorder.log.Add)
		f.End()
		if o := w.upstreams[known]; o != nil && time.Since(o.kept) > keepAtMost {
			w.keepOne(known, o)
		}
	}
	w.unwatch(v)
}

// unwatch takes from a session all that it holds.
func (w *prefetchWorker) unwatch(v *sessionState) {
	delete(w.sessions, v.s)
	v.desk.End()
	for instance, l := range v.instances {
		w.lines[l.member.key] = w.scheduler.Concurrency(instance)
		if !l.Shared() {
			w.scheduler.Gone(instance)
		}
	}
	w.srv.figures.state.sessionEnded(v.desk.Number())
}
