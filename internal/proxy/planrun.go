package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/record"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// servePlan answers a call of execute_tool_plan.
func servePlan(x *request, arguments []byte) { runPlan(x, arguments, nil) }

// serveNamed answers calls of a plan that the operator wrote.
func serveNamed(n *plan.Named) func(x *request, arguments []byte) {
	return func(x *request, arguments []byte) {
		params, err := n.Fill(arguments)
		if err != nil {
			x.finish(failedResult(err))
			return
		}
		runPlan(x, n.Body(), params)
	}
}

// runPlan checks a plan and runs it, or takes up one that its client has answers for.
func runPlan(x *request, body, params []byte) {
	if x.resume(x.answer) {
		return
	}
	x.s.awaitOffers(x.ctx)
	p, defects := plan.Parse(body, planOptions(x.ctx, x.s, params))
	switch {
	case len(defects) > 0:
		x.finish(failedResult(defects))
	case p.DryRun:
		x.finish(structuredResult(p.Forecast(x.s.planLimits()).Answer(), nil, false))
	default:
		r := newPlanRun(x, p)
		x.s.running.Go(r.run)
		r.work.serve(x, x.answer)
	}
}

// planRun is a plan under way. Its work is suspended when the client is asked something
// and can be asked only by an answer.
//
//	runPlan ──► run: confirm, plan.Runner ──► call: a request for each step
//	  │                                          │ questions
//	  └─► attend ◄─────────── work ◄─────────────┘
type planRun struct {
	s      *session
	work   *work
	plan   *plan.Plan
	number int    // of the session's plans
	tool   string // that it was called by
	meta   []byte // trace context of the request that began it, for its calls; nil: it has none

	servers map[string]string // tool → its server when the plan began, as serverOf names it
	consent plan.Consent      // nil: nothing was asked
	calls   atomic.Int32      // so far

	report   *plan.Report // once it has been run
	refuse   error        // why it was not run
	recorded atomic.Bool  // what became of it
}

func newPlanRun(x *request, p *plan.Plan) *planRun {
	r := &planRun{
		s: x.s, plan: p, number: int(x.s.plans.Add(1)), tool: toolName(&x.msg.Index),
		servers: make(map[string]string),
	}
	for _, name := range []string{"traceparent", "tracestate"} {
		if value := x.msg.Index.Meta.Get(name); value != nil {
			r.meta = jsonrpc.Set(r.meta, name, value)
		}
	}
	for _, st := range p.Steps {
		if name := st.Tool.Name; r.servers[name] == "" {
			r.servers[name] = r.serverOf(name)
		}
	}
	r.work = newWork(x, r.finish, r.abandoned)
	return r
}

// run runs the plan, once it may be.
func (r *planRun) run() {
	defer close(r.work.done)
	r.s.srv.running.Go(loadVocabulary) // meanwhile, if no list has had it loaded yet
	if r.refuse = r.confirm(); r.refuse != nil {
		return
	}
	runner := plan.Runner{Limits: r.s.planLimits(), Call: r.call, Progress: r.progress, Tokens: tokens}
	r.report = runner.Run(r.work.ctx, r.plan)
	if x, _ := r.work.currentRequest(); x == nil { // its client was asked something, and has not come back
		r.tell(nil, nil, true)
	}
}

// confirm has the user agree to what the plan may change or tells third parties. The
// error says why the plan is not run.
func (r *planRun) confirm() error {
	risks := r.plan.Risks(r.s.srv.policy.Load().Plans.Mutations == "confirm") // what is denied did not get here
	if len(risks) == 0 {
		return nil
	}
	if !r.work.first.canElicit() {
		return plan.Unconfirmed(risks, "this client cannot be asked (it declares no elicitation by form)")
	}
	message, err := r.plan.Confirmation(risks)
	if err != nil {
		return err
	}
	switch err := r.work.confirm(message); {
	case err == nil:
		r.consent = plan.NewConsent(risks)
		return nil
	case errors.Is(err, errUnread):
		return plan.Unconfirmed(risks, errUnread.Error())
	default:
		return fmt.Errorf("the plan was not run: %w", err)
	}
}

// progress tells the client how far the plan is, if it has a request open and wants to know.
func (r *planRun) progress(done float64, of int, what string) {
	x, _ := r.work.currentRequest()
	if x == nil || x.msg.Index.Token() == nil {
		return
	}
	params := fmt.Appendf(nil, `{"progress":%s,"total":%d,"message":`, strconv.FormatFloat(done, 'f', -1, 64), of)
	x.forward(nil, "notifications/progress", append(jsonrpc.AppendString(params, what), '}'))
}

// finish answers the request with what became of the plan. An answer that the client may
// not have read can be read for a while: it must be able to learn what was written.
func (r *planRun) finish(x *request, _ func(outcome)) {
	if r.refuse != nil {
		x.finish(failedResult(r.refuse))
		return
	}
	structured, blocks := r.answer()
	r.tell(structured, blocks, x.ctx.Err() != nil)
	x.finish(structuredResult(structured, blocks, r.report.Failed()))
	switch {
	case x.ctx.Err() != nil:
		r.keep("which was cancelled", structured)
	case x.s.identity.ID != "" && r.wrote(): // a client that has lost its connection comes back, and asks
		r.keep("whose answer may have been lost", structured)
	}
}

// abandoned keeps the answer of a plan that its client did not come back for.
func (r *planRun) abandoned(error) {
	if r.report != nil {
		structured, _ := r.answer()
		r.keep("which was cancelled", structured)
	}
}

// tell records what became of the plan, once.
func (r *planRun) tell(structured []byte, blocks [][]byte, cancelled bool) {
	if r.recorded.Swap(true) {
		return
	}
	e := record.Event{
		Kind: record.Plan, At: time.Now().Add(-r.report.Makespan), Session: r.s.observed.Name, Plan: r.number, Tool: r.tool,
		LatencyMS: ms(r.report.Makespan), Depth: r.report.ChainLength(), BytesOut: int64(len(structured)), Cancelled: cancelled,
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
	r.s.srv.recorder.log.Add(e)
}

// wrote reports whether the plan may have changed something.
func (r *planRun) wrote() bool {
	return slices.ContainsFunc(r.report.Steps, func(st *plan.Status) bool { return st.Step.Writes && st.Calls > 0 })
}

// answer is what the client gets of a plan that has been run.
func (r *planRun) answer() (structured []byte, blocks [][]byte) {
	p := r.s.srv.policy.Load()
	return r.report.Answer(r.plan, limits(min(p.Plans.ResultTokens(r.plan.Budget), r.s.room(p).Excerpts)), func(all []byte) string {
		return r.keep("all results", all)
	})
}

// keep keeps results, or an answer that the client may not have read, and returns the handle;
// "": they are not kept.
func (r *planRun) keep(what string, value []byte) (handle string) {
	srv := r.s.srv
	span := srv.policy.Load().Plans.KeepFor
	if span < 0 {
		return ""
	}
	return srv.kept.add(r.s, fmt.Sprintf("plan %d, %s", r.number, what), value, time.Now(), span)
}

// planPart says which call of a plan a request is.
type planPart struct {
	plan  int    // its number
	step  string // its id
	needs []string
	gate  gate        // asked before the call is sent; nil: it may be
	doubt atomic.Bool // it may have been run although it failed
}

// noteDoubt notes that the call may have been run.
func (p *planPart) noteDoubt() {
	if p != nil {
		p.doubt.Store(true)
	}
}

// samePlan reports whether two requests are of one plan: then one client waits for both.
func (p *planPart) samePlan(q *planPart) bool { return p != nil && q != nil && p.plan == q.plan }

// prefix is what the keys of a request's questions begin with.
func (p *planPart) prefix() string {
	if p == nil {
		return "q"
	}
	return p.step + "."
}

// call makes one call of a plan, the way a client's call is made: it is a request
// of its own, so that it is classified, stored, limited, counted and learned from as any
// other.
func (r *planRun) call(ctx context.Context, c plan.Call) plan.Result {
	told := r.plan.Discloses(c.Step)
	if err := r.may(c, told); err != nil {
		return plan.Result{Err: err.Error()}
	}
	params := jsonrpc.AppendString([]byte(`{"name":`), c.Step.Tool.Name)
	params = append(append(params, `,"arguments":`...), c.Arguments...)
	if r.meta != nil {
		params = append(append(params, `,"_meta":`...), r.meta...)
	}
	params = append(params, '}')
	to := &stepOutlet{work: r.work}
	x := &request{
		s: r.s,
		msg: &front.Message{
			Message: jsonrpc.Message{ID: []byte("0"), Method: "tools/call", Params: params}, Index: revision.NewParams(params),
		},
		key: fmt.Sprintf("plan %d call %d", r.number, r.calls.Add(1)), // no id of a client's looks like that
		out: to, stateless: r.work.first.stateless, hop: r.work.first.hop,
		work: r.work, part: &planPart{plan: r.number, step: c.Step.ID, needs: r.plan.Inputs(c.Step)},
	}
	if c.Step.Writes || told != nil {
		x.part.gate = func() (again <-chan struct{}, err error) {
			if _, back := r.work.currentRequest(); back != nil { // its client has no request open, which it could withdraw
				return back, nil
			}
			return nil, r.may(c, r.plan.Discloses(c.Step))
		}
	}
	if err := x.admit(ctx); err != nil {
		return plan.Result{Err: err.Message}
	}
	func() {
		defer x.leave()
		x.serve()
	}()
	return to.result(ctx, x.part.doubt.Load())
}

// may refuses a call that writes or tells third parties what came of others, if its plan
// was not let through for one: its arguments were not known then, or the rules, or the
// server, are others by now.
func (r *planRun) may(c plan.Call, told []*plan.Step) error {
	p := &r.s.srv.policy.Load().Plans
	if !p.Enabled {
		return errors.New("not called: plans have been switched off meanwhile ([plan].enabled)")
	}
	if c.Step.Writes || told != nil {
		was, now := r.servers[c.Step.Tool.Name], r.serverOf(c.Step.Tool.Name)
		if was != now && was != "" && now != "" {
			return errors.New("not called: another server has taken the place of the one that the plan was meant for")
		}
	}
	return r.consent.Check(c, told, p.Mutations)
}

// serverOf names the server of a tool together with how it is reached; "": none.
func (r *planRun) serverOf(tool string) string {
	_, l := r.s.named(r.s.srv.policy.Load(), upstream.Tools, tool)
	if l == nil {
		return ""
	}
	return l.member.key
}

// result is what a plan makes of the answer. doubt: the call may have been run although
// it failed.
func (o *stepOutlet) result(ctx context.Context, doubt bool) plan.Result {
	if o.line == nil {
		return plan.Result{Err: context.Cause(ctx).Error(), InDoubt: doubt}
	}
	m, err := jsonrpc.Parse(o.line)
	switch {
	case err != nil:
		return plan.Result{Err: err.Error(), InDoubt: true}
	case m.Error != nil:
		return plan.Result{Err: message(m.Error), InDoubt: doubt}
	}
	if isTask(m.Result) {
		return plan.Result{Err: "the call goes on as a task, which a plan does not wait for", InDoubt: true}
	}
	out := plan.ResultOf(m.Result)
	if how, ok := jsonrpc.String(jsonrpc.Get(jsonrpc.Get(m.Result, "_meta"), metaDisposition)); ok {
		out.Source = how
	}
	out.InDoubt = out.Err != "" && (out.InDoubt || doubt)
	return out
}

// stepOutlet is where the answer to one call of a plan goes. What is said besides
// goes to the client, with the request that the plan is served for.
type stepOutlet struct {
	work *work
	line []byte // the answer; nil: there was none
}

var errNoRequest = errors.New("the client has no request open for its plan")

func (o *stepOutlet) Send(line []byte) error {
	x, _ := o.work.currentRequest()
	if x == nil || x.answered.Load() {
		return errNoRequest
	}
	return x.out.Send(line)
}

func (o *stepOutlet) Answer(line []byte) error {
	o.line = bytes.Clone(line)
	return nil
}
