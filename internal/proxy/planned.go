package proxy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/deliver"
	"mcpschedd/internal/events"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/revision"
)

// servePlan answers a call of execute_tool_plan.
func (x *request) servePlan() {
	raw, err := x.ownArguments()
	if err != nil {
		x.told("", err)
		return
	}
	x.plan(raw, raw, nil)
}

// serveNamed answers a call of a plan that the operator wrote.
func (x *request) serveNamed(n *NamedPlan) {
	raw, err := x.ownArguments()
	if err == nil {
		if params, fillErr := n.filled(raw); fillErr == nil {
			x.plan(raw, n.body(), params)
			return
		} else {
			err = fillErr
		}
	}
	x.told("", err)
}

// plan checks a plan and runs it, or takes up one that its client has answers for.
func (x *request) plan(arguments, body, params []byte) {
	if x.resumePlan(arguments) {
		return
	}
	x.s.awaitOffers(x.ctx)
	p, defects := plan.Parse(body, x.planOptions(params))
	switch {
	case len(defects) > 0:
		x.told("", defects)
	case p.DryRun:
		x.shown(dryRun(p.Outlook(x.s.srv.policy.Load().Plans.Limits)), nil, false)
	default:
		r := x.s.newPlanRun(x, p, arguments, body)
		x.s.work.Go(r.run)
		x.attend(r)
	}
}

// planRun is a plan under way. It outlives the request that began it if its client
// is stateless and is asked something: then that answers with the questions, and
// the client's next request takes the plan up.
//
//	plan ──► run: confirm, plan.Runner ──► call: a request for each step
//	  │                                       │ ask: nothing goes on without the client
//	  └─► attend ◄── done ── asking ◄─────────┘
type planRun struct {
	s         *session
	plan      *plan.Plan
	number    int               // of the session's plans
	own       *ownTool          // that it was called by
	arguments [sha256.Size]byte // digest of what it was called with
	body      []byte            // the plan as it was written
	servers   map[string]string // tool → whose it was when the plan began, as member.known
	stateless bool
	hop       revision.Hop
	meta      []byte // trace context of the request that began it, for its calls; nil: it has none
	ctx       context.Context
	cancel    context.CancelCauseFunc

	asking chan struct{} // capacity 1: all calls under way wait for the client
	done   chan struct{} // closed when one of these is there:
	report *plan.Report
	refuse error // why it was not run

	recorded atomic.Bool // what became of it

	over    int       // steps that have ended; with the next two of the runner's goroutine alone
	reached float64   // of the steps, as last told
	told    time.Time // when something was last told of items

	confirmed map[*plan.Step]risk // what the user has read and agreed to; nil: nothing was asked

	mu        sync.Mutex
	x         *request         // the request that is to be answered; nil: its client fetches answers
	back      chan struct{}    // closed when it has come back with them
	calls     int              // so far
	running   int              // calls under way
	blocked   int              // of those: wait for the client
	open      map[string]*held // key in inputRequests → question
	gathering bool             // it is waited for further ones
	asked     int              // questions so far
	expiry    *time.Timer      // while the client fetches answers
}

func (s *session) newPlanRun(x *request, p *plan.Plan, arguments, body []byte) *planRun {
	r := &planRun{
		s: s, plan: p, own: x.own, stateless: x.stateless, hop: x.hop,
		arguments: digest(arguments), body: bytes.Clone(body),
		asking: make(chan struct{}, 1), done: make(chan struct{}),
		x: x, open: make(map[string]*held), servers: make(map[string]string),
	}
	x.token = revision.Token(x.msg.Params)
	for _, name := range []string{"traceparent", "tracestate"} {
		if value := jsonrpc.Get(jsonrpc.Get(x.msg.Params, "_meta"), name); value != nil {
			r.meta = jsonrpc.Set(r.meta, name, value)
		}
	}
	for _, st := range p.Steps {
		r.servers[st.Tool.Name] = s.serverOf(st.Tool.Name)
	}
	r.ctx, r.cancel = context.WithCancelCause(s.ctx)
	s.mu.Lock()
	s.plansBegun++
	r.number = s.plansBegun
	s.mu.Unlock()
	return r
}

// run runs the plan, once it may be.
func (r *planRun) run() {
	defer close(r.done)
	r.s.srv.work.Go(loadVocabulary) // meanwhile, if no list has had it loaded yet
	if r.refuse = r.confirm(); r.refuse != nil {
		return
	}
	runner := plan.Runner{
		Limits: r.s.srv.policy.Load().Plans.Limits,
		Call:   r.call, Ended: r.ended, Item: r.item, Idle: r.idle, Tokens: tokens,
	}
	r.report = runner.Run(r.ctx, r.plan)
	if r.current() == nil { // its client was asked something, and has not come back
		r.tell(nil, nil, true)
	}
}

// attend waits until the plan has ended or cannot go on without its client, and
// answers the request with what there is.
func (x *request) attend(r *planRun) {
	for {
		select {
		case <-r.done:
			x.finishPlan(r)
			return
		case <-r.asking:
			if x.shelvePlan(r) {
				return
			}
		case <-x.ctx.Done():
			r.cancel(context.Cause(x.ctx))
			<-r.done
			x.finishPlan(r)
			return
		}
	}
}

// finishPlan answers with what became of the plan. If nobody reads the answer, it
// can be read for a while: the client must be able to learn what was written.
func (x *request) finishPlan(r *planRun) {
	r.cancel(nil)
	if r.refuse != nil {
		x.told("", r.refuse)
		return
	}
	structured, blocks := r.answer()
	r.tell(structured, blocks, x.ctx.Err() != nil)
	x.shown(structured, blocks, r.report.Failed())
	switch {
	case x.ctx.Err() != nil:
		r.keepAnswer("which was cancelled", structured)
	case x.s.id != "" && r.wrote(): // a client that has lost its connection comes back, and asks
		r.keepAnswer("whose answer may have been lost", structured)
	}
}

// tell records what became of the plan, once.
func (r *planRun) tell(structured []byte, blocks [][]byte, cancelled bool) {
	if r.recorded.Swap(true) {
		return
	}
	e := events.Event{
		Kind: events.Plan, At: time.Now().Add(-r.report.Makespan), Session: r.s.recordName, Plan: r.number, Tool: r.own.name,
		LatencyMS: ms(r.report.Makespan), Depth: r.report.Chain(), BytesOut: int64(len(structured)), Cancelled: cancelled,
	}
	for _, st := range r.report.Steps {
		e.Steps += st.Calls
		e.BytesIn += int64(st.Bytes)
		if st.State == plan.Failed {
			e.StepsBad++
		}
	}
	for _, b := range blocks {
		e.BytesOut += int64(len(b))
	}
	r.s.srv.events.Add(e)
}

// needs are the steps whose results a step uses, or that it is said to wait for.
func (r *planRun) needs(st *plan.Step) (ids []string) {
	for _, i := range st.After {
		if !slices.Contains(st.Order, i) {
			ids = append(ids, r.plan.Steps[i].ID)
		}
	}
	return ids
}

// wrote reports whether the plan may have changed something.
func (r *planRun) wrote() bool {
	return slices.ContainsFunc(r.report.Steps, func(st *plan.Status) bool { return st.Step.Writes && st.Calls > 0 })
}

// answer is what the client gets of a plan that has been run.
func (r *planRun) answer() (structured []byte, blocks [][]byte) {
	p := &r.s.srv.policy.Load().Plans
	return r.report.Answer(r.plan, p.Brings(r.plan.Budget), mostBrought, deliver.Tokens, func(v plan.Value) string {
		return r.keep(fmt.Sprintf("plan %d, all results", r.number), v.JSON)
	})
}

// keepAnswer keeps an answer that nobody may have read.
func (r *planRun) keepAnswer(why string, structured []byte) {
	r.keep(fmt.Sprintf("plan %d, %s", r.number, why), structured)
}

func (r *planRun) keep(of string, value []byte) (handle string) {
	srv := r.s.srv
	return srv.kept.add(r.s, of, value, time.Now(), srv.policy.Load().Plans.KeepFor)
}

// ended tells the client how far the plan has come, if it wants to know.
func (r *planRun) ended(st *plan.Status, ended, _ int) {
	r.over = ended
	x := r.current()
	if x == nil || x.token == nil {
		return
	}
	text := fmt.Sprintf("%s: %s", st.Step.ID, st.State)
	if st.Calls > 0 {
		text += fmt.Sprintf(" (%d ms)", st.Took.Milliseconds())
	}
	r.progress(x, float64(ended), text)
}

// item tells the client how far a step with many items is, once a second at most.
func (r *planRun) item(st *plan.Step, done, of int) {
	now := time.Now()
	x := r.current()
	if x == nil || x.token == nil || now.Sub(r.told) < time.Second {
		return
	}
	r.told = now
	r.progress(x, float64(r.over)+float64(done)/float64(of+1), fmt.Sprintf("%s: %d of %d items", st.ID, done, of))
}

// progress tells the client that the plan has got further; never that it has got less
// far, as when another step begins its items.
func (r *planRun) progress(x *request, to float64, what string) {
	if to <= r.reached {
		return
	}
	r.reached = to
	params := fmt.Appendf(nil, `{"progress":%s,"total":%d,"message":`, strconv.FormatFloat(to, 'f', -1, 64), len(r.plan.Steps))
	x.hear("notifications/progress", append(jsonrpc.AppendString(params, what), '}'))
}

// current is the request that the plan is served for at this moment; nil: none.
func (r *planRun) current() *request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.x
}
