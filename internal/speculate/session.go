package speculate

import (
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/record"
)

// sessionState is the worker's state of a session.
type sessionState struct {
	w       *Worker
	session *Session
	claims  *SessionClaims
	pairs   map[string]*pairState // Lease.Key → state with that upstream
	intent  []string              // words of its latest arguments
	prompt  string                // its user's last prompt
	dollars float64               // cost of its prefetches
}

// pairState is the state of a session with one upstream. It is the Prefetcher of its chooser.
type pairState struct {
	*sessionState
	learned   *learned
	predictor *predict.Session
	chooser   Chooser // of the candidates after its last answer
	trace     Trace   // of the last answered call
	decisions decisions
	begun     []*Fetch // by the choice in progress
	resuming  bool     // a timer will choose again
}

// session returns the state of a session, and creates it if needed; nil if the session is not
// observed any more. Its calls may be handled after its context has ended.
func (w *Worker) session(c *Session) *sessionState {
	w.current = c
	s := w.sessions[c]
	if s == nil && !c.disabled.Load() {
		s = &sessionState{w: w, session: c, claims: w.Scheduler.NewClaims(c.Name), pairs: make(map[string]*pairState)}
		w.sessions[c] = s
	}
	return s
}

// pair returns the state of a session with an upstream; a new one if that was removed from the configuration
// and added again.
func (s *sessionState) pair(lease *Lease) *pairState {
	o := s.w.learnedOf(lease)
	p := s.pairs[lease.Key]
	if p == nil || p.learned != o {
		if p != nil {
			p.endDecisions(time.Now())
		}
		p = &pairState{sessionState: s, learned: o, predictor: o.model.Begin(s.session.ID, s.session.Multiplexed)}
		p.chooser.Claims, p.chooser.Prefetcher = s.claims, p
		s.pairs[lease.Key] = p
		o.checkTools()
	}
	p.chooser.Lease, o.changed = lease, true
	return p
}

// called handles a client's call.
func (w *Worker) called(c *Call) {
	s := w.session(c.Session)
	if s == nil {
		return
	}
	p := s.pair(c.Lease)
	arguments := string(c.Arguments) // the model canonicalizes them
	if c.Arguments == nil {
		arguments = "{}"
	}
	if c.Key.Arguments != "" {
		s.claims.Called(c.At, c.Key)
	}
	p.decisions.call(c.Tool, arguments, c.At)
	s.addIntent(arguments)
	p.predictor.Call(predict.Call{ID: c.ID, Turn: c.Turn, Tool: c.Tool, Arguments: arguments, At: c.At})
	if c.Effect.Changes() {
		s.invalidate(c.Effect.Places)
	}
	p.decisions.reportDue(c.At, false, w.Decided)
}

// answered handles the end of a call, and decides what to prefetch. The result has no body if it is
// not read; size is that of the whole.
func (w *Worker) answered(c *Call, r Result, size int, reply chan<- Reply) {
	s := w.session(c.Session)
	if r.Comparison != dedup.NotCompared {
		w.compared(c, r.Comparison == dedup.Same)
	}
	if r.JoinWait > 0 { // a call waited for a prefetch in vain
		var claims *SessionClaims
		if s != nil {
			claims = s.claims
		}
		w.Scheduler.Harm(c.Host, claims, ForegroundWait, r.JoinWait)
	}
	if s == nil || c.ID == 0 {
		return
	}
	p := s.pair(c.Lease)
	result := predict.Read(r.Body, size)
	result.ID, result.Failed, result.Delivered = c.ID, !r.Complete, r.At
	took := r.Took
	if is, _ := w.Scheduler.Concurrency(c.Lease.Key); is == Serial && r.Unloaded > 0 {
		took = r.Unloaded // without its wait for other calls
	}
	if took > 0 && r.Complete { // a served or cancelled call says nothing about latency
		result.At = c.At.Add(took)
	}
	p.predictor.Result(result)
	p.decisions.reportDue(r.At, false, w.Decided)
	w.publishUsual(p.learned, c.Tool)
	p.trace = c.Trace
	begun := p.predictNext(time.Now(), c)
	if reply != nil {
		reply <- Reply{begun, s.intentWords()}
	}
}

// predictNext predicts the next calls, and begins the prefetches that are worth it.
func (p *pairState) predictNext(now time.Time, c *Call) []*Fetch {
	rules := p.w.Rules()
	found := p.predictor.Candidates(now)
	p.chooser.Replace(now, found, rules)
	p.decisions.begin(&decision{until: now.Add(rules.Age(p.chooser.Lease.Exclusive)), event: record.Event{
		Kind: record.Decision, At: now, Session: p.session.Name, Upstream: p.chooser.Lease.Name, Tool: c.Tool, After: c.Seq,
		Candidates: len(found),
	}})
	return p.decide(now)
}

// decide chooses from the waiting candidates and begins them. Candidates that lack only a slot wait
// until the session's next prefetch has returned, and those of which a write may not show yet until it has
// settled.
func (p *pairState) decide(now time.Time) []*Fetch {
	w, rules := p.w, p.w.Rules()
	if rules.Off() {
		p.chooser.DropWaiting()
		return nil
	}
	host := p.chooser.Lease.Host()
	w.reportWait(host)
	p.claims.Review(now)
	p.begun = nil
	p.chooser.Choose(now, rules, Situation{Host: host, Spent: p.dollars, Keywords: p.intentWords()})
	return p.begun
}

// MayPrefetch returns the reason why a candidate must not be prefetched now, if any.
func (p *pairState) MayPrefetch(c *predict.Candidate) Eligibility {
	if why := p.predictor.Check(c); why != "" {
		return Eligibility{Reason: why}
	}
	e := p.chooser.Lease.MayPrefetch(c)
	p.w.reportWait(e.Host)
	if e.Reason == enrich.Settling {
		p.resumeAfter(e.Settle)
	}
	return e
}

// resumeAfter chooses again after a while, from the candidates that wait then.
func (p *pairState) resumeAfter(wait time.Duration) {
	if p.resuming {
		return
	}
	p.resuming = true
	time.AfterFunc(wait, func() {
		p.w.queue.add(task{required: true, do: func() {
			p.resuming = false
			p.resume(nil, nil, 0)
		}})
	})
}

// reportWait reports how long calls to a host have waited for prefetches.
func (w *Worker) reportWait(host string) {
	total, unread := w.ReadWait(host)
	w.Scheduler.Waited(host, total, unread)
}

// Declined records a candidate that is dropped.
func (p *pairState) Declined(c *predict.Candidate, why enrich.Reason) {
	p.decisions.newest.add(c, why)
}

// Begin begins a prefetch, or returns why not. The prefetch ends with its session, unless a call has
// joined it.
func (p *pairState) Begin(c *predict.Candidate, e *Eligibility) (refused enrich.Reason) {
	w, lease, kept := p.w, p.chooser.Lease, *c
	f := &Fetch{
		Candidate: &kept, Query: e.Query, Ended: make(chan struct{}),
		JoinTimeout: joinTimeout(c), After: p.decisions.newest.event.After,
		Call:          &Call{ID: w.ids.Add(1), Session: p.session, Lease: lease, Trace: p.trace, Tool: c.Key.Tool, Host: e.Host},
		ClientRequest: func(certain bool) { p.clientRequested(lease, c.Key.Tool, certain) },
	}
	f.Done = func(r FetchResult) {
		defer close(f.Ended)
		p.fetched(f, r)
	}
	if refused := p.claims.Start(p.session.Context, lease, e.Query.Key, e.Host, c.Why.Depth > 0, func(claim *Claim) (func() call.Fate, enrich.Reason) {
		f.Call.Claim = claim
		return lease.Fetch(claim.Context, f)
	}); refused != "" {
		return refused
	}
	p.dollars += c.Model.Cost.Dollars
	p.decisions.newest.add(c, "")
	p.begun = append(p.begun, f)
	return ""
}

// joinTimeout is how long a call waits for a prefetch: the 90th percentile of its latency and a
// margin, or four times the configured latency.
func joinTimeout(c *predict.Candidate) time.Duration {
	if p90 := c.Latency.P90; p90 > 0 {
		return p90 + p90/4 + 100*time.Millisecond
	}
	return 4 * c.Model.Cost.Latency
}

// fetched handles the result of a prefetch, on the goroutine that fetched it. The answer may lead to
// a follow-up prefetch, and candidates that wait for its slot may begin.
func (p *pairState) fetched(f *Fetch, r FetchResult) {
	w, lease, tool, host := p.w, f.Call.Lease, f.Call.Tool, f.Call.Host
	if r.Displaced {
		w.Scheduler.Harm(host, p.claims, Eviction, 0)
	}
	switch {
	case r.Limited:
		w.Scheduler.Harm(host, p.claims, RateLimited, 0)
	case r.Bar != "":
		p.bar(lease, tool, r.Bar)
	case r.Crashed:
		w.barHere(lease.Key, tool)
		w.Log.Warn("server ended during a prefetch; the tool is not prefetched any more",
			"upstream", lease.Name, "tool", tool)
	}
	f.Call.Claim.Done() // after the bar, as a candidate waiting for the slot may be of the same tool
	var body []byte
	if f.Candidate.Why.Depth == 0 && r.Good { // what follows a follow-up is too improbable
		body = w.keep(r.Body)
	}
	size := len(r.Body)
	w.queue.add(task{bytes: len(body), do: func() { p.resume(f.Candidate, body, size) }})
}

// resume continues after a prefetch has returned, or a write has settled: with the candidates that wait
// for that, and the follow-ups of the answer. They begin at the instance of the last call, not at that of
// the prefetch.
func (p *pairState) resume(answered *predict.Candidate, body []byte, size int) {
	if p.w.sessions[p.session] != p.sessionState { // the session has ended
		return
	}
	p.w.current = p.session
	p, now := p.pair(p.chooser.Lease), time.Now()
	if body != nil && p.decisions.newest != nil {
		follows := p.predictor.Suppose(*answered, predict.Read(body, size))
		p.chooser.Add(follows)
		p.decisions.newest.event.Candidates += len(follows)
	}
	p.decide(now)
}

// clientRequested records that the server of a prefetch sent the client a request, on any goroutine.
// If the request may belong to another call, only the session loses a level.
func (p *pairState) clientRequested(lease *Lease, tool string, certain bool) {
	if certain {
		p.bar(lease, tool, "its prefetch asked the client a question")
		return
	}
	p.w.queue.add(task{required: true, do: func() { p.w.Scheduler.Harm(lease.Host(), p.claims, Question, 0) }})
}

// bar bars a tool from prefetching, on any goroutine. It takes effect at once, as waiting candidates
// may be sent at any moment.
func (p *pairState) bar(lease *Lease, tool, why string) {
	w := p.w
	w.barHere(lease.Key, tool)
	w.queue.add(task{required: true, do: func() {
		o := w.learnedOf(lease)
		o.model.Bar(tool, why)
		w.updateProven(o, tool)
		w.save(o) // at once, so that it is not lost
		w.Scheduler.Harm(lease.Host(), p.claims, Question, 0)
		w.Log.Warn("tool barred from prefetching", "upstream", lease.Name, "tool", tool, "reason", why)
	}})
}

// compared handles the comparison of an answer with the prefetched one.
func (w *Worker) compared(c *Call, same bool) {
	o := w.learnedOf(c.Lease)
	o.model.RecordTrial(c.Tool, same)
	w.updateProven(o, c.Tool)
	w.save(o) // at once, so that other processes need not compare again
	if !same {
		w.Log.Warn("tool barred from prefetching: two equal calls gave different answers",
			"upstream", c.Lease.Name, "tool", c.Tool)
	}
}

// invalidate withdraws predictions of answers that a change of the places makes stale, of any
// upstream; with nil all of them.
func (s *sessionState) invalidate(places []call.Place) {
	touches := func(read []call.Place) bool {
		changed := func(r call.Place) bool { return slices.Contains(places, r) }
		return places == nil || slices.ContainsFunc(read, changed)
	}
	for _, p := range s.pairs {
		stale := func(tool, arguments string) bool {
			m := p.chooser.Lease.Tool(tool).Model // nil if it is no longer offered
			get := func(name string) []byte { return jsonrpc.Get([]byte(arguments), name) }
			return m == nil || touches(m.Reads(get))
		}
		p.predictor.Invalidate(stale)
		p.decisions.invalidate(stale)
	}
	s.claims.Invalidate(func(_ call.Key, read []call.Place) bool { return touches(read) })
}

// end drops a session that has ended.
func (s *sessionState) end(now time.Time) {
	delete(s.w.sessions, s.session)
	s.claims.End()
	for _, p := range s.pairs {
		p.endDecisions(now)
		p.predictor.End()
		p.learned.changed = true
	}
}

// endDecisions reports the open decisions. No candidate waits for a slot any more.
func (p *pairState) endDecisions(now time.Time) {
	p.chooser.DropWaiting()
	p.decisions.reportDue(now, true, p.w.Decided)
}

// Limits of the words kept for the model's intent.
const (
	intentCalls = 4
	intentBytes = 512 // of each
	promptBytes = 2 << 10
)

// intentWords returns words for what the model is working on.
func (s *sessionState) intentWords() []string {
	if s.prompt == "" {
		return slices.Clone(s.intent)
	}
	return append([]string{s.prompt}, s.intent...)
}

// addIntent adds the words of a call's arguments to the intent.
func (s *sessionState) addIntent(arguments string) {
	var words strings.Builder
	for m := range jsonrpc.Members([]byte(arguments)) {
		if text, ok := jsonrpc.String(m.Value); ok && words.Len() < intentBytes {
			words.WriteString(text[:min(len(text), intentBytes)])
			words.WriteByte(' ')
		}
	}
	if s.intent = append(s.intent, words.String()); len(s.intent) > intentCalls {
		s.intent = s.intent[1:]
	}
}
