package proxy

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"mcpschedd/internal/budget"
	"mcpschedd/internal/catalog"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/deliver"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/upstream"
)

// decisionTimeout is how long an answer waits for the prefetch worker's choice when it is to
// name the prefetches. Only prefetches that have begun may be named.
const decisionTimeout = 50 * time.Millisecond

// mayAnnounce reports whether the answer to the client may name the prefetches that the call
// causes. Such an answer is not written by the server's reader.
func (c *upstreamCall) mayAnnounce() bool {
	e := &c.policy.Enrichment
	return (e.Delivery == "hint" || e.Delivery == "inline") && e.Mode == "on" && c.observed != nil && c.observed.call.ID != 0 &&
		c.delivered() != nil && !c.lease.Structured(c.tool)
}

// shownName returns the client's name for a tool of the same upstream, or "" if the client cannot call it.
func (c *upstreamCall) shownName(tool string) string {
	v := c.s.view()
	return v.NameOf(upstream.Tools, catalog.Target{Upstream: c.lease.Name(), Name: tool})
}

// announce adds to the answer a line that names the prefetches that have begun, or their
// results.
func (c *upstreamCall) announce(ctx context.Context, o outcome) outcome {
	e := &c.policy.Enrichment
	decision, cancel := context.WithTimeout(ctx, decisionTimeout)
	defer cancel()
	reply := make(chan speculate.Reply, 1)
	if !c.notifyWorker(time.Now(), o, reply) {
		return o
	}
	var a speculate.Reply
	select {
	case a = <-reply:
	case <-decision.Done():
		return o
	}
	if e.Delivery == "hint" {
		o.answer.Result = c.hint(o.answer.Result, a.Begun)
	} else {
		o.answer.Result = c.inline(ctx, o.answer.Result, a, e)
	}
	return o
}

// hint adds the names of the prefetches that have begun to result, as far as the client can call them.
func (c *upstreamCall) hint(result []byte, begun []*speculate.Fetch) []byte {
	var names []string
	for _, b := range begun {
		if tool := c.shownName(b.Key.Tool); tool != "" && !b.Query.Reuse.CompareOnly { // else the prefetch is not served
			names = append(names, deliver.Name(tool, []byte(b.Key.Arguments)))
		}
	}
	return deliver.Hint(result, names)
}

// inline adds the results of near-certain prefetches that arrive within the wait time.
func (c *upstreamCall) inline(ctx context.Context, result []byte, a speculate.Reply, e *speculate.Rules) []byte {
	used := c.s.srv.common.meter.Tokens(result)
	tokens := min(e.Budget, c.s.room(c.policy).Extras-used)
	if tokens <= 0 {
		return result
	}
	wait, cancel := context.WithTimeout(ctx, e.Wait) // one deadline for all of them
	defer cancel()
	var additions []deliver.Addition
	var from []*speculate.Fetch
	for _, b := range a.Begun {
		tool := c.shownName(b.Key.Tool)
		if u := &b.Query.Reuse; b.P < e.InlineFrom || tool == "" || u.CompareOnly || u.File != "" || c.lease.Structured(b.Key.Tool) {
			continue
		}
		select {
		case <-b.Ended:
		case <-wait.Done(): // use what has arrived
		}
		if body, ok := c.s.srv.common.store.Peek(ctx, b.Query); ok {
			additions = append(additions, deliver.Addition{Tool: tool, Arguments: b.Key.Arguments, Result: body, Model: b.Model})
			from = append(from, b)
		}
	}
	if len(additions) == 0 {
		return result
	}
	out, taken := deliver.Inline(result, additions, tokens, a.Intent)
	for _, i := range taken {
		c.s.srv.common.store.MarkShown(from[i].Query)
		c.s.srv.prefetch.Shown(from[i])
	}
	c.observed.inlined = len(taken)
	return out
}

// storedAnswer returns the answer that came from the store or from another call's flight.
func (c *upstreamCall) storedAnswer(o dedup.Outcome) upstream.Answer {
	how, body := string(o.How), o.Body
	c.observed.source = o
	// A note may replace a longer answer that the client has, if the operator turned references on, the tool declares
	// no output schema, and the session serves one conversation: over stdio a client may have several.
	if o.Repeated && c.policy.Repeat == "reference" && c.s.identity.ID != "" && c.step() == nil && !c.lease.Structured(c.tool) {
		if note := reference(o.Age); len(note) < len(o.Body) {
			c.s.identity.delivered.Referenced(c.class.query.Key)
			how, body = "reference", note
			c.observed.saved = len(o.Body) - len(note)
		}
	}
	return ownAnswer(withMeta(body, servedMeta(how, &o)), o.Stateless)
}

// servedMeta returns the members of _meta that say how an answer was served: hit, joined,
// fetched or reference; the milliseconds since its fetch began, unless this call fetched it;
// and those until a new result may be expected, if known. Nothing else in an answer changes,
// unless references are on.
func servedMeta(how string, o *dedup.Outcome) []byte {
	out := append(append([]byte(`{"mcpschedd/disposition":"`), how...), '"')
	if o.How != dedup.Fetched {
		out = strconv.AppendInt(append(out, `,"mcpschedd/age_ms":`...), o.Age.Milliseconds(), 10)
	}
	if o.BackOff > 0 {
		out = strconv.AppendInt(append(out, `,"mcpschedd/backoff_ms":`...), o.BackOff.Milliseconds(), 10)
	}
	return append(out, '}')
}

// withMeta returns result with the given members added to its _meta.
func withMeta(result, members []byte) []byte {
	index := jsonrpc.NewIndex(result)
	meta := object(index.Get("_meta"))
	if meta == nil {
		return index.Set("_meta", members)
	}
	for m := range jsonrpc.Members(members) {
		meta = jsonrpc.Set(meta, string(m.Name), m.Value)
	}
	return index.Set("_meta", meta)
}

// reference returns the note that replaces an answer the client already has.
func reference(age time.Duration) []byte {
	return textResult(fmt.Sprintf("[Unchanged: byte for byte the answer this same call was given before, fetched %d s ago. Call again to get it in full.]", int(age.Seconds())))
}

// Results that a client requested are always delivered, and their tokens are counted here.
// Everything that the proxy adds to a result is limited by the session's budget.Room. Without
// a configured budget nothing is counted and results are not changed.

// joinPool adds the session to the budget pool. It is called with the session's first result or plan, so
// that sessions without calls take no share.
func (s *session) joinPool() *budget.Agent {
	name := jsonrpc.Text(s.client.load().Info, "name")
	agent := s.srv.common.budgets.Join(budget.Session{Client: name, Multiplexed: s.identity.Multiplexed})
	s.observed.agent.Store(agent)
	return agent
}

// room returns the limits of what the proxy may add to the session's results now.
func (s *session) room(p *policy) budget.Room {
	if !p.Budgets.Enabled() {
		return budget.Unlimited
	}
	return s.observed.join().Room(s.observed.turns.current())
}

// planRunner returns a runner of the session's plans, with the limits that are in force now.
func (s *session) planRunner() *plan.Runner {
	p := s.srv.policy.Load()
	return &plan.Runner{Limits: p.Plans.Limits, NoOptional: !s.room(p).Optional}
}

// spend counts the tokens of a result that is about to be written, and returns it with the
// estimated tokens left in the session's tightest budget in its _meta.
func (x *request) spend(result []byte) []byte {
	counted := result
	switch x.msg.Method {
	case "tools/call", "tasks/result":
	case "tasks/get":
		counted = jsonrpc.Get(result, "result") // present if the task has ended
	default:
		return result
	}
	if counted == nil || !x.view.policy.Budgets.Enabled() || isCancelledByClient(x.ctx) {
		return result
	}
	agent, turn, meter := x.s.observed.join(), x.s.observed.turns.current(), x.s.srv.common.meter
	agent.Delivered(turn, meter.Tokens(counted))
	if count := meter.Learn(counted); count != nil {
		x.s.running.Go(count)
	}
	room := agent.Room(turn)
	if room.Left == budget.Unbounded {
		return result
	}
	return withMeta(result, fmt.Appendf(nil, `{"mcpschedd/tokens_left":%d}`, room.Left))
}
