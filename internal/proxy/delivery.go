package proxy

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"mcpschedd/internal/budget"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/deliver"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/record"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/upstream"
)

// decisionTimeout is how long an answer waits for the prefetch worker's choice when it is to
// name the prefetches. Only prefetches that have begun may be named.
const decisionTimeout = 50 * time.Millisecond

// mayAnnounce reports whether the answer to a client of the handshake era may name the
// prefetches that the call causes. Such an answer is not written by the server's reader.
func (c *upstreamCall) mayAnnounce() bool {
	e := &c.policy.Enrichment
	return deliveredTo(c.s, c.step) != nil && e.Mode == "on" &&
		(e.Delivery == "hint" || e.Delivery == "inline") && !c.lease.structured(c.tool)
}

// shownName returns the client's name for a tool of the same upstream.
func (c *upstreamCall) shownName(tool string) string {
	return c.s.identity.view.nameOf(c.policy, upstream.Tools, target{c.lease.Name(), tool})
}

// enrich adds to the answer a line that names the prefetches that have begun, or their
// results.
func (c *upstreamCall) enrich(ctx context.Context, o outcome) outcome {
	e := &c.policy.Enrichment
	decision, cancel := context.WithTimeout(ctx, decisionTimeout)
	defer cancel()
	reply := make(chan speculate.Announcement, 1)
	if !c.observed.wantsResult() || !c.notifyWorker(time.Now(), o, reply) {
		return o
	}
	var a speculate.Announcement
	select {
	case a = <-reply:
	case <-decision.Done():
		return o
	}
	if e.Delivery == "hint" {
		o.answer.Result = hint(o.answer.Result, a.Begun, c.shownName)
	} else {
		o.answer.Result = c.inline(ctx, o.answer.Result, a, e)
	}
	return o
}

// hint adds the names of the prefetches that have begun to result. called returns the
// client's name for a tool, or "" if the client cannot call it.
func hint(result []byte, begun []speculate.Started, called func(tool string) string) []byte {
	var names []string
	for _, b := range begun {
		if tool := called(b.Key.Tool); tool != "" && !b.Query.Reuse.CompareOnly { // else the prefetch is not served
			names = append(names, deliver.Name(tool, []byte(b.Key.Arguments)))
		}
	}
	if len(names) == 0 {
		return result
	}
	return deliver.Hint(result, names)
}

// inline adds the results of near-certain prefetches that arrive within the wait time.
func (c *upstreamCall) inline(ctx context.Context, result []byte, a speculate.Announcement, e *speculate.Rules) []byte {
	tokens := min(e.Budget, c.room(result))
	if tokens <= 0 {
		return result
	}
	ctx, cancel := context.WithTimeout(ctx, e.Wait) // one deadline for all of them
	defer cancel()
	var additions []deliver.Addition
	var queries []dedup.Query
	for i := range a.Begun {
		b := &a.Begun[i]
		tool := c.shownName(b.Key.Tool)
		if u := &b.Query.Reuse; b.P < e.InlineFrom || tool == "" || u.CompareOnly || u.File != "" || c.lease.structured(b.Key.Tool) {
			continue
		}
		select {
		case <-b.Ended:
		case <-ctx.Done(): // use what has arrived
		}
		if body, ok := c.s.srv.common.store.Peek(b.Query); ok {
			additions = append(additions, deliver.Addition{Tool: tool, Arguments: b.Key.Arguments, Result: body, Model: b.Model})
			queries = append(queries, b.Query)
		}
	}
	if len(additions) == 0 {
		return result
	}
	out, taken := deliver.Inline(result, additions, tokens, a.Intent)
	for _, i := range taken {
		c.s.srv.common.store.MarkShown(queries[i])
	}
	c.observed.inlined = len(taken)
	return out
}

// The _meta keys of answers that the proxy served from the store or changed. Nothing else in
// an answer changes, unless references are on.
const (
	metaDisposition = "mcpschedd/disposition" // hit, joined, fetched or reference
	metaAge         = "mcpschedd/age_ms"      // milliseconds since the fetch began
	metaBackOff     = "mcpschedd/backoff_ms"  // milliseconds until a new result may be expected
)

// storedAnswer returns the answer that came from the store or from another call's flight.
func (c *upstreamCall) storedAnswer(o dedup.Outcome) upstream.Answer {
	how, body := string(o.How), o.Body
	c.observed.source = o
	// A note may replace an answer that the client has if the operator turned references on,
	// the session serves one conversation, and the tool declares no output schema.
	asReference := o.Repeated && c.policy.Repeat == "reference" && c.s.identity.ID != "" && c.step == nil && !c.lease.structured(c.tool)
	if asReference {
		c.s.identity.delivered.Referenced(c.class.query.Key)
		how, body = "reference", reference(o.Age)
		c.observed.saved = max(0, len(o.Body)-len(body))
	}
	return ownAnswer(withMeta(body, how, &o.Age, o.BackOff), o.Stateless)
}

// withBackOff adds the back-off hint, if there is one, to a fetched answer.
func withBackOff(answer upstream.Answer, o dedup.Outcome) upstream.Answer {
	if o.BackOff > 0 && answer.Result != nil {
		answer.Result = withMeta(answer.Result, string(o.How), nil, o.BackOff)
	}
	return answer
}

// withMeta sets the _meta keys of result: the disposition; the age, unless nil; and the
// back-off, unless zero.
func withMeta(result []byte, how string, age *time.Duration, backOff time.Duration) []byte {
	fields := jsonrpc.AppendString([]byte(`{"`+metaDisposition+`":`), how)
	if age != nil {
		fields = strconv.AppendInt(append(fields, `,"`+metaAge+`":`...), age.Milliseconds(), 10)
	}
	if backOff > 0 {
		fields = strconv.AppendInt(append(fields, `,"`+metaBackOff+`":`...), backOff.Milliseconds(), 10)
	}
	fields = append(fields, '}')
	members := jsonrpc.NewIndex(result)
	meta := members.Get("_meta")
	if meta == nil {
		return members.Set("_meta", fields)
	}
	for m := range jsonrpc.Members(fields) {
		meta = jsonrpc.Set(meta, string(m.Name), m.Value)
	}
	return members.Set("_meta", meta)
}

// reference returns the note that replaces an answer the client already has.
func reference(age time.Duration) []byte {
	return textResult(fmt.Sprintf("[Unchanged: byte for byte the answer this same call was given before, fetched %d s ago. Call again to get it in full.]", int(age.Seconds())))
}

// Results that a client requested are always delivered, and their tokens are counted here.
// Everything that the proxy adds to a result is limited by the session's budget.Room. Without
// a configured budget nothing is counted and results are not changed.

// metaTokensLeft is the key in _meta of the estimated tokens left in the session's tightest
// budget.
const metaTokensLeft = "mcpschedd/tokens_left"

// spending is a session's membership in the budget pool.
type spending struct {
	joining sync.Once
	agent   atomic.Pointer[budget.Agent] // nil until the first result is counted
}

// join returns the session's agent in the budget pool. The session joins the pool with its
// first result, so that sessions without calls take no share.
func (s *session) join() *budget.Agent {
	own := &s.observed.spending
	own.joining.Do(func() {
		client := s.client.facts()
		name, _ := jsonrpc.String(jsonrpc.Get(client.Info, "name"))
		bid := jsonrpc.Get(jsonrpc.Get(jsonrpc.Get(client.Capabilities, "experimental"), "mcpschedd/budget"), "weight")
		weight, _ := strconv.ParseFloat(string(bid), 64) // an invalid weight counts as none
		own.agent.Store(s.srv.common.budgets.Join(budget.Session{Client: name, Weight: weight, Multiplexed: s.identity.Pool}))
	})
	return own.agent.Load()
}

// leave removes the session from its pool.
func (o *spending) leave() {
	if a := o.agent.Load(); a != nil {
		a.Leave()
	}
}

// room returns the limits of what the proxy may add to the session's results now.
func (s *session) room(p *policy) budget.Room {
	if !p.Budgets.Enabled() {
		return budget.Unlimited
	}
	return s.join().Room(s.observed.turns.current())
}

// room returns the number of tokens that may be added to the call's result.
func (c *upstreamCall) room(result []byte) int {
	room := c.s.room(c.policy).Extras
	if room == budget.Unbounded {
		return room
	}
	return room - c.s.srv.common.meter.estimate(c.lease.Name()+"/"+c.tool, deliver.ContentOf(result))
}

// planLimits returns the limits of a plan of the session.
func (s *session) planLimits() plan.Limits {
	p := s.srv.policy.Load()
	l := p.Plans.Limits
	l.NoOptional = !s.room(p).Optional
	return l
}

// spend counts the tokens of a result that is about to be written, and returns it with the
// tokens left in its _meta.
func (x *request) spend(result []byte) []byte {
	counted := result
	switch x.msg.Method {
	case "tools/call", "tasks/result":
	case "tasks/get":
		counted = jsonrpc.Get(result, "result") // present if the task has ended
	default:
		return result
	}
	if counted == nil || !x.policy.Budgets.Enabled() || isWithdrawn(x.ctx) {
		return result
	}
	tool := toolName(&x.msg.Index) // the tool whose ratio of bytes to tokens is learned
	if x.call != nil {
		tool = x.call.lease.Name() + "/" + x.call.tool
	}
	agent, turn, meter, c := x.s.join(), x.s.observed.turns.current(), x.s.srv.common.meter, deliver.ContentOf(counted)
	agent.Delivered(turn, meter.estimate(tool, c))
	meter.learn(&x.s.running, tool, c)
	room := agent.Room(turn)
	if room.Left == budget.Unbounded {
		return result
	}
	members := jsonrpc.NewIndex(result)
	meta := jsonrpc.Set(object(members.Get("_meta")), metaTokensLeft, strconv.AppendInt(nil, int64(room.Left), 10))
	return members.Set("_meta", meta)
}

// meter estimates the tokens of results, for all proxy.Servers of a process. In the background
// it counts the tokens of samples, to learn the bytes per token of each tool's results.
type meter struct {
	*budget.Meter
	samples *rate.Limiter // limits samples, since counting one takes milliseconds
}

func newMeter() *meter { return &meter{Meter: budget.NewMeter(), samples: rate.NewLimiter(10, 16)} }

func (m *meter) estimate(tool string, c deliver.Content) int {
	return m.Tokens(tool, c.Bytes) + c.Media*deliver.MediaTokens
}

// learn counts the tokens of a copied sample of the content in the background.
func (m *meter) learn(running *sync.WaitGroup, tool string, c deliver.Content) {
	if c.Bytes > 0 && m.samples.Allow() {
		sample := c.Sample()
		running.Go(func() { m.Observe(tool, sample.Bytes, sample.Tokens()) })
	}
}

// budgetStatus returns how much of the budgets the open sessions have used, and the use of the
// pool if withPool is set. It returns nil if there are no budgets.
func (s *Server) budgetStatus(withPool bool) *record.BudgetStatus {
	rules := &s.policy.Load().Budgets
	if !rules.Enabled() {
		return nil
	}
	out := &record.BudgetStatus{Sessions: []record.SessionBudget{}}
	for _, n := range s.sessions.list() {
		if a := n.observed.spending.agent.Load(); a != nil {
			one := record.SessionBudget{Session: n.observed.Name, Client: clientName(n.client.facts().Info), Used: int64(a.Used())}
			if room := a.Room(n.observed.turns.current()); room.Left != budget.Unbounded {
				left := int64(room.Left)
				one.Left = &left
			}
			out.Sessions = append(out.Sessions, one)
		}
	}
	if withPool && rules.Pool > 0 {
		used, left := s.common.budgets.Used()
		out.Pool = &record.PoolBudget{Tokens: int64(rules.Pool), Used: int64(used), LeftS: int64(left.Seconds())}
	}
	return out
}
