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

// sessionState is a session as the worker sees it.
type sessionState struct {
	client    *Client
	slots     *Session
	pairs     map[string]*pairState // Upstream.Key → what it has with that upstream
	instances map[uint64]*Upstream  // upstream instances it has called
	intent    []string              // the latest arguments, which say what the model is after
	prompt    string                // what its user asked for last, which says so too
	dollars   float64               // what its prefetches cost so far
}

// watch finds a session, or begins to watch it; nil if it has ended, or something
// panicked over it.
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

// pair is what a session has with an upstream; a new one if the rules have changed.
func (w *Worker) pair(s *sessionState, o *upstreamState) *pairState {
	p := s.pairs[o.at.Key]
	if p == nil || p.of != o {
		p = &pairState{
			w: w, session: s, of: o, predict: o.model.Begin(s.client.ID, s.client.Multiplexed), // several clients: none can be told from another
			decisions: newDecisions(w.Decided),
		}
		s.pairs[o.at.Key] = p
		o.checkTools()
	}
	p.at = o.at
	p.choose.Session, p.choose.Upstream, p.choose.Parallel = s.slots, o.at.Instance, o.at.Remote
	return p
}

// Bounds of what is taken for the model's intent.
const (
	intentCalls = 4
	intentBytes = 512 // of each
	promptBytes = 2 << 10
)

// after is what the model is after.
func (s *sessionState) intentWords() []string {
	if s.prompt == "" {
		return slices.Clone(s.intent)
	}
	return append([]string{s.prompt}, s.intent...)
}

// means adds the words of a call's arguments to what the model is after.
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

// called looks at a call that a client made.
func (w *Worker) called(c *Call) {
	w.current = c.Client
	s := w.watch(c.Client)
	if s == nil {
		return
	}
	o := w.upstreams.at(c.Upstream)
	w.upstreams.called(o, o.at.Instance)
	s.instances[o.at.Instance] = o.at
	arguments := string(c.Arguments) // the model makes them canonical
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

// changed takes back what was expected of answers that a write makes stale, of whatever
// upstream.
func (s *sessionState) changed(e call.Effect) {
	s.invalidate(func(p *pairState, tool, arguments string) bool {
		m := p.at.Tool(tool).Model
		if m == nil {
			return true // it is not offered any more
		}
		reads := m.Reads(func(name string) []byte { return jsonrpc.Get([]byte(arguments), name) })
		return slices.ContainsFunc(reads, func(r call.Place) bool { return slices.Contains(e.Places, r) })
	})
}

// invalidate takes back what was expected of answers that are stale.
func (s *sessionState) invalidate(isStale func(p *pairState, tool, arguments string) bool) {
	for _, p := range s.pairs {
		stale := func(tool, arguments string) bool { return isStale(p, tool, arguments) }
		p.predict.Invalidate(stale)
		p.decisions.invalidate(stale)
		s.slots.Invalidate(func(k call.Key) bool { return k.Upstream == p.at.Instance && stale(k.Tool, k.Arguments) })
	}
}

// answer is the end of a call as the worker looks at it.
type answer struct {
	Result
	call   *Call
	text   []byte              // the first bytes of the body; nil: it is of no use, or there was no room for it
	length int                 // bytes of the whole body
	reply  chan<- Announcement // is to hear what is begun because of it; nil: nothing waits for that
}

// answered looks at the end of a call, and decides what to run early.
func (w *Worker) answered(a *answer) {
	if a.reply != nil {
		defer close(a.reply)
	}
	c := a.call
	w.current = c.Client
	s := w.sessions[c.Client]
	w.compared(c, a.Comparison)
	if a.JoinWait > 0 { // a call waited for a prefetch in vain
		w.upstreams.at(c.Upstream).model.Harm(c.Tool)
		w.harm(s, c.Upstream.Host(), ForegroundWait, a.JoinWait)
	}
	if s == nil || c.ID == 0 {
		return
	}
	o := w.upstreams.at(c.Upstream)
	r := read(a.text, a.length)
	r.ID, r.Failed = c.ID, !a.Complete
	if took := w.upstreams.took(&a.Result, o.at.Instance); took > 0 && a.Complete { // what was served, or cut short, took as long as no call does
		r.At = c.At.Add(took)
	}
	r.Came = a.At
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

// compared takes note of how the answer to a call compares with what was prefetched.
func (w *Worker) compared(c *Call, t dedup.Comparison) {
	if t == dedup.NotCompared {
		return
	}
	o := w.upstreams.at(c.Upstream)
	o.model.Trial(c.Tool, t == dedup.Same)
	w.upstreams.prove(o, c.Tool)
	w.upstreams.save(o) // at once: other processes need not try what this one has
	if t == dedup.Differs {
		w.Log.Warn("tool barred from being run early: asked twice it gave two answers", "upstream", c.Upstream.Name, "tool", c.Tool)
	}
}

// harm holds harm against the prefetches at a host, and of a session if it is known.
func (w *Worker) harm(s *sessionState, host string, what Harm, wait time.Duration) {
	var of *Session
	if s != nil {
		of = s.slots
	}
	w.Scheduler.Harm(host, of, what, wait)
}

// read makes an answer, or the first bytes of it, what the model reads.
func read(result []byte, size int) predict.Result {
	r := predict.Result{Size: size, Unread: result == nil}
	if !r.Unread {
		r.Text, r.Structured = predict.Read(result, len(result) < size)
	}
	return r
}

// leave forgets a session that has ended.
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

// unwatch takes from a session all that it holds.
func (w *Worker) unwatch(s *sessionState) {
	delete(w.sessions, s.client)
	s.slots.End()
	for _, up := range s.instances {
		w.upstreams.left(up)
	}
}
