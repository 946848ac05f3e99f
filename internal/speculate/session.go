package speculate

import (
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/predict"
)

// sessionState is the worker's state of a session.
type sessionState struct {
	client    *Client
	slots     *Session
	pairs     map[string]*pairState // Upstream.Key → state with that upstream
	instances map[uint64]*Upstream  // upstream instances it has called
	intent    []string              // words of its latest arguments
	prompt    string                // its user's last prompt
	dollars   float64               // cost of its prefetches
}

// watch returns the state of a session, and creates it if needed; nil if the session has ended or
// is disabled.
func (w *Worker) watch(c *Client) *sessionState {
	s := w.sessions[c]
	if s == nil && c.Context.Err() == nil && !c.disabled.Load() {
		s = &sessionState{
			client: c, slots: w.Scheduler.Session(c.Name),
			pairs: make(map[string]*pairState), instances: make(map[uint64]*Upstream),
		}
		w.sessions[c] = s
	}
	return s
}

// pair returns the state of a session with an upstream; a new one if the rules have changed.
func (w *Worker) pair(s *sessionState, o *upstreamState) *pairState {
	p := s.pairs[o.lease.Key]
	if p == nil || p.upstream != o {
		p = &pairState{
			w: w, session: s, upstream: o, predict: o.model.Begin(s.client.ID, s.client.Multiplexed), // of several clients, calls cannot be attributed to one
			decisions: newDecisions(w.Decided),
		}
		s.pairs[o.lease.Key] = p
		o.checkTools()
	}
	p.lease = o.lease
	p.choose.Session, p.choose.Upstream, p.choose.Parallel = s.slots, o.lease.Instance, o.lease.Remote
	return p
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

// called handles a client's call.
func (w *Worker) called(c *Call) {
	w.current = c.Client
	s := w.watch(c.Client)
	if s == nil {
		return
	}
	o := w.upstreams.state(c.Upstream)
	w.upstreams.called(o, o.lease.Instance)
	s.instances[o.lease.Instance] = o.lease
	arguments := string(c.Arguments) // the model canonicalizes them
	if c.Arguments == nil {
		arguments = "{}"
	}
	if c.Key.Arguments != "" {
		s.slots.Called(c.At, c.Key)
	}
	p := w.pair(s, o)
	p.decisions.call(c.ID, c.Tool, arguments, c.At)
	s.addIntent(arguments)
	p.predict.Call(predict.Call{ID: c.ID, Turn: c.Turn, Tool: c.Tool, Arguments: arguments, At: c.At})
	if c.Effect.Changes() {
		s.changed(c.Effect)
	}
	p.decisions.settle(c.At, false)
}

// changed withdraws predictions of answers that a write invalidates, of any upstream.
func (s *sessionState) changed(e call.Effect) {
	s.invalidate(func(p *pairState, tool, arguments string) bool {
		m := p.lease.Tool(tool).Model
		if m == nil {
			return true // no longer offered
		}
		reads := m.Reads(func(name string) []byte { return jsonrpc.Get([]byte(arguments), name) })
		return slices.ContainsFunc(reads, func(r call.Place) bool { return slices.Contains(e.Places, r) })
	})
}

// invalidate withdraws predictions of stale answers.
func (s *sessionState) invalidate(isStale func(p *pairState, tool, arguments string) bool) {
	for _, p := range s.pairs {
		stale := func(tool, arguments string) bool { return isStale(p, tool, arguments) }
		p.predict.Invalidate(stale)
		p.decisions.invalidate(stale)
		s.slots.Invalidate(func(k call.Key) bool { return k.Upstream == p.lease.Instance && stale(k.Tool, k.Arguments) })
	}
}

// answer is the queued end of a call.
type answer struct {
	Result
	call   *Call
	text   []byte              // start of the body; nil if not needed, or without space for it
	length int                 // bytes of the whole body
	reply  chan<- Announcement // receives what is started because of it; nil if no caller is waiting
}

// answered handles the end of a call, and decides what to prefetch.
func (w *Worker) answered(a *answer) {
	if a.reply != nil {
		defer close(a.reply)
	}
	c := a.call
	w.current = c.Client
	s := w.sessions[c.Client]
	w.compared(c, a.Comparison)
	if a.JoinWait > 0 { // a call waited for a prefetch in vain
		w.upstreams.state(c.Upstream).model.Demote(c.Tool)
		w.harm(s, c.Upstream.Host(), ForegroundWait, a.JoinWait)
	}
	if s == nil || c.ID == 0 {
		return
	}
	o := w.upstreams.state(c.Upstream)
	r := read(a.text, a.length)
	r.ID, r.Failed = c.ID, !a.Complete
	if took := w.upstreams.took(&a.Result, o.lease.Instance); took > 0 && a.Complete { // a served or cancelled call says nothing about latency
		r.At = c.At.Add(took)
	}
	r.Delivered = a.At
	p := w.pair(s, o)
	p.predict.Result(r)
	p.decisions.result(c.ID, a.Took)
	p.decisions.settle(a.At, false)
	w.upstreams.publish(o, c.Tool)
	p.trace = c.Trace
	begun := p.offer(time.Now(), c.Seq)
	if a.reply != nil {
		a.reply <- Announcement{begun, s.intentWords()}
	}
}

// compared handles the comparison of an answer with the prefetched one.
func (w *Worker) compared(c *Call, t dedup.Comparison) {
	if t == dedup.NotCompared {
		return
	}
	o := w.upstreams.state(c.Upstream)
	o.model.RecordTrial(c.Tool, t == dedup.Same)
	w.upstreams.prove(o, c.Tool)
	w.upstreams.save(o) // at once, so that other processes need not compare again
	if t == dedup.Differs {
		w.Log.Warn("tool barred from prefetching: two equal calls gave different answers", "upstream", c.Upstream.Name, "tool", c.Tool)
	}
}

// harm counts harm against the prefetches to a host, and of a session if it is known.
func (w *Worker) harm(s *sessionState, host string, what Harm, wait time.Duration) {
	var of *Session
	if s != nil {
		of = s.slots
	}
	w.Scheduler.Harm(host, of, what, wait)
}

// read parses an answer, or the start of one, into the text that the model reads.
func read(result []byte, size int) predict.Result {
	r := predict.Result{Size: size, Unread: result == nil}
	if !r.Unread {
		r.Text, r.Structured = predict.Read(result, len(result) < size)
	}
	return r
}

// leave drops a session that has ended.
func (w *Worker) leave(c *Client) {
	w.current = c
	s := w.sessions[c]
	if s == nil {
		return
	}
	s.slots.Review(time.Now())
	s.slots.End()
	for key, p := range s.pairs {
		p.choose.DropWaiting(p)
		p.decisions.settle(time.Now(), true)
		p.predict.End()
		if o := w.upstreams.byKey[key]; o != nil && time.Since(o.savedAt) > minSaveInterval {
			w.upstreams.save(o)
		}
	}
	w.unwatch(s)
}

// unwatch releases everything that a session holds.
func (w *Worker) unwatch(s *sessionState) {
	delete(w.sessions, s.client)
	s.slots.End()
	for _, up := range s.instances {
		w.upstreams.left(up)
	}
}
