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

// What a client asked for is delivered and counted here; what is added to it asks the room
// that its session has left. Where no budget is configured nothing is counted and no answer is
// touched.

// metaTokensLeft is how many tokens are left until the nearest bound of the session, estimated.
const metaTokensLeft = "mcpschedd/tokens_left"

// spending is a session as the budgets know it.
type spending struct {
	joining sync.Once
	agent   atomic.Pointer[budget.Agent] // nil: nothing was counted yet
}

// join is the session in its pool, from its first answer on: a session that calls nothing keeps
// no share from others.
func (s *session) join() *budget.Agent {
	own := &s.observed.spending
	own.joining.Do(func() {
		client := s.client.facts()
		name, _ := jsonrpc.String(jsonrpc.Get(client.Info, "name"))
		bid := jsonrpc.Get(jsonrpc.Get(jsonrpc.Get(client.Capabilities, "experimental"), "mcpschedd/budget"), "weight")
		weight, _ := strconv.ParseFloat(string(bid), 64) // else it declares none
		own.agent.Store(s.srv.common.budgets.Join(budget.Session{Client: name, Weight: weight, Several: s.identity.Pool}))
	})
	return own.agent.Load()
}

// leave takes the session out of its pool.
func (o *spending) leave() {
	if a := o.agent.Load(); a != nil {
		a.Leave()
	}
}

// room is what may be added to what the session's client asks for now.
func (s *session) room(p *policy) budget.Room {
	if !p.Budgets.On() {
		return budget.Unlimited
	}
	return s.join().Room(s.observed.turns.current())
}

// room is how many tokens may be added to the call's answer.
func (c *upstreamCall) room(result []byte) int {
	room := c.s.room(c.policy).Extras
	if room == budget.Unbounded {
		return room
	}
	return room - c.s.srv.common.meter.estimate(c.lease.Name()+"/"+c.tool, deliver.ContentOf(result))
}

// planLimits bound a plan of the session's.
func (s *session) planLimits() plan.Limits {
	p := s.srv.policy.Load()
	l := p.Plans.Limits
	l.NoOptional = !s.room(p).Optional
	return l
}

// spend counts an answer that is about to be written, and adds to it what is left. The answer
// to a step goes to its plan, and counts with that.
func (x *request) spend(result []byte) []byte {
	of := result
	switch x.msg.Method {
	case "tools/call", "tasks/result":
	case "tasks/get":
		of = jsonrpc.Get(result, "result") // where it has ended, and the result is told at once
	default:
		return result
	}
	if x.part != nil || of == nil || !x.policy.Budgets.On() || isWithdrawn(x.ctx) {
		return result
	}
	agent, turn, meter := x.s.join(), x.s.observed.turns.current(), x.s.srv.common.meter
	tool, c := x.calledTool(), deliver.ContentOf(of)
	tokens := meter.estimate(tool, c)
	agent.Delivered(turn, tokens)
	meter.count(&x.s.running, tool, c, func(counted int) { agent.Correct(turn, counted-tokens) })
	room := agent.Room(turn)
	if room.Left == budget.Unbounded {
		return result
	}
	members := jsonrpc.NewIndex(result)
	meta := jsonrpc.Set(object(members.Get("_meta")), metaTokensLeft, strconv.AppendInt(nil, int64(room.Left), 10))
	return members.Set("_meta", meta)
}

// calledTool names the tool that the request calls, for texts of the same kind.
func (x *request) calledTool() string {
	if x.call != nil {
		return x.call.lease.Name() + "/" + x.call.tool
	}
	return toolName(&x.msg.Index)
}

// meter estimates the tokens of answers, for all servers of a process. It learns in the
// background how many bytes a token of each tool's answers has, from samples that it counts.
type meter struct {
	*budget.Meter
	samples *rate.Limiter // what comes beyond goes by the estimate: to count one takes some ms
	one     sync.Mutex    // held while one is counted
}

func newMeter() *meter { return &meter{Meter: budget.NewMeter(), samples: rate.NewLimiter(10, 16)} }

func (m *meter) estimate(tool string, c deliver.Content) int {
	return m.Tokens(tool, c.Bytes) + c.Media*deliver.MediaTokens
}

// count has a sample of the content counted, which is copied before count returns, and calls
// correct with what that makes of the whole. The vocabulary is loaded there, where no answer
// waits.
func (m *meter) count(running *sync.WaitGroup, tool string, c deliver.Content, correct func(tokens int)) {
	if c.Bytes == 0 || !m.samples.Allow() {
		return
	}
	sample := c.Sample()
	running.Go(func() {
		m.one.Lock()
		defer m.one.Unlock()
		tokens := sample.Tokens()
		m.Counted(tool, sample.Bytes, tokens)
		correct(int(float64(tokens)*float64(c.Bytes)/float64(sample.Bytes)+0.5) + c.Media*deliver.MediaTokens)
	})
}

// spendings are how much of the budgets the open sessions have used, and the pool where whole
// is set; nil: there are no budgets.
func (s *Server) spendings(whole bool) *record.BudgetStatus {
	rules := &s.policy.Load().Budgets
	if !rules.On() {
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
	if whole && rules.Pool > 0 {
		used, left := s.common.budgets.Used()
		out.Pool = &record.PoolBudget{Tokens: int64(rules.Pool), Used: int64(used), LeftS: int64(left.Seconds())}
	}
	return out
}
