package proxy

import (
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"

	"mcpschedd/internal/budget"
	"mcpschedd/internal/deliver"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/record"
)

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
// tokens left in its _meta. It does not count the result of a plan's step: the plan's own
// result counts.
func (x *request) spend(result []byte) []byte {
	counted := result
	switch x.msg.Method {
	case "tools/call", "tasks/result":
	case "tasks/get":
		counted = jsonrpc.Get(result, "result") // present if the task has ended
	default:
		return result
	}
	if x.step != nil || counted == nil || !x.policy.Budgets.Enabled() || isWithdrawn(x.ctx) {
		return result
	}
	agent, turn, meter := x.s.join(), x.s.observed.turns.current(), x.s.srv.common.meter
	tool, c := x.calledTool(), deliver.ContentOf(counted)
	tokens := meter.estimate(tool, c)
	agent.Delivered(turn, tokens)
	meter.count(&x.s.running, tool, c, func(exact int) { agent.Adjust(turn, exact-tokens) })
	room := agent.Room(turn)
	if room.Left == budget.Unbounded {
		return result
	}
	members := jsonrpc.NewIndex(result)
	meta := jsonrpc.Set(object(members.Get("_meta")), metaTokensLeft, strconv.AppendInt(nil, int64(room.Left), 10))
	return members.Set("_meta", meta)
}

// calledTool returns the name under which the meter learns the token ratio of the request's
// results.
func (x *request) calledTool() string {
	if x.call != nil {
		return x.call.lease.Name() + "/" + x.call.tool
	}
	return toolName(&x.msg.Index)
}

// meter estimates the tokens of results, for all proxy.Servers of a process. In the background
// it counts the tokens of samples, to learn the bytes per token of each tool's results.
type meter struct {
	*budget.Meter
	samples  *rate.Limiter // limits samples, since counting one takes milliseconds
	counting sync.Mutex    // held while a sample is counted
}

func newMeter() *meter { return &meter{Meter: budget.NewMeter(), samples: rate.NewLimiter(10, 16)} }

func (m *meter) estimate(tool string, c deliver.Content) int {
	return m.Tokens(tool, c.Bytes) + c.Media*deliver.MediaTokens
}

// count starts counting the tokens of a sample of the content, and later calls correct with
// the resulting number for the whole content. The sample is copied before count returns. The
// tokenizer's vocabulary is loaded in that goroutine, so that no result waits for it.
func (m *meter) count(running *sync.WaitGroup, tool string, c deliver.Content, correct func(tokens int)) {
	if c.Bytes == 0 || !m.samples.Allow() {
		return
	}
	sample := c.Sample()
	running.Go(func() {
		m.counting.Lock()
		defer m.counting.Unlock()
		tokens := sample.Tokens()
		m.Observe(tool, sample.Bytes, tokens)
		correct(int(float64(tokens)*float64(c.Bytes)/float64(sample.Bytes)+0.5) + c.Media*deliver.MediaTokens)
	})
}

// budgetStatus returns how much of the budgets the open sessions have used, and the use of the
// pool if withPool is set. It returns nil if there are no budgets.
func (s *Server) budgetStatus(withPool bool) *record.BudgetStatus {
	rules := &s.policy.Load().Budgets
	if !rules.Enabled() {
		return nil
	}
	out := &record.BudgetStatus{Sessions: []record.SessionBudget{}}
	for _, n := range s.sessions.all() {
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
