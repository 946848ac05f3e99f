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

// servePlan serves a call of execute_tool_plan.
func servePlan(x *request, arguments []byte) (outcome, error) { return runPlan(x, arguments, nil) }

// serveNamed serves a call of a plan in the configuration.
func serveNamed(x *request, n *plan.Named, arguments []byte) (outcome, error) {
	params, err := n.Fill(arguments)
	if err != nil {
		return outcome{}, err
	}
	return runPlan(x, n.Body(), params)
}

// runPlan checks and runs a plan.
func runPlan(x *request, body, params []byte) (outcome, error) {
	x.s.awaitOffers(x.ctx)
	p, defects := plan.Parse(body, planOptions(x.ctx, x.s, params))
	switch {
	case len(defects) > 0:
		return outcome{}, defects
	case p.DryRun:
		return ownOutcome(structuredResult(p.Forecast(x.s.planLimits()).Answer(), nil, false)), nil
	}
	r := newPlanRun(x, p)
	x.s.running.Go(r.run)
	return r.work.serve(x), nil
}

// planRun is the run of one plan. Its work is suspended while a stateless client is asked
// questions.
//
//	runPlan ──► run: confirm, plan.Runner ──► call: a request for each step
//	  │                                          │ questions
//	  └─► serve ◄──────────── work ◄─────────────┘
type planRun struct {
	s      *session
	work   *work
	plan   *plan.Plan
	number int    // sequence number in the session
	tool   string // tool that the client called
	meta   []byte // trace context of the client's request, for the steps' calls; nil if it has none

	servers map[string]string // tool → serverOf when the plan started
	consent plan.Consent      // nil if the user was not asked
	calls   atomic.Int32      // number of calls so far

	report   *plan.Report // nil until the plan has run
	refuse   error        // why the plan was not run
	recorded atomic.Bool  // the plan's event has been recorded
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

// run confirms and runs the plan.
func (r *planRun) run() {
	defer close(r.work.done)
	r.s.srv.running.Go(loadVocabulary) // in parallel with the plan; no list may have loaded it yet
	if r.refuse = r.confirm(); r.refuse != nil {
		return
	}
	runner := plan.Runner{Limits: r.s.planLimits(), Call: r.call, Progress: r.progress, Tokens: countTokens}
	r.report = runner.Run(r.work.ctx, r.plan)
	if x, _ := r.work.currentRequest(); x == nil { // the client has not replied to a question
		r.record(nil, nil, true)
	}
}

// confirm asks the user to confirm the plan's writes and disclosures to third parties, if
// there are any. It returns the reason why the plan must not run.
func (r *planRun) confirm() error {
	risks := r.plan.Risks(r.s.srv.policy.Load().Plans.Mutations == "confirm") // with "deny", plan.Parse has refused writes
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

// progress sends a progress notification to the client, if its current request has a token.
func (r *planRun) progress(done float64, of int, what string) {
	x, _ := r.work.currentRequest()
	if x == nil || x.msg.Index.Token() == nil {
		return
	}
	params := fmt.Appendf(nil, `{"progress":%s,"total":%d,"message":`, strconv.FormatFloat(done, 'f', -1, 64), of)
	x.forward(nil, "notifications/progress", append(jsonrpc.AppendString(params, what), '}'))
}

// finish returns the plan's result for the request x. It keeps a result that the client may not
// receive, so that the client can find out what was written.
func (r *planRun) finish(x *request) outcome {
	if r.refuse != nil {
		return failedOutcome(r.refuse)
	}
	structured, blocks := r.answer()
	cancelled := x.ctx.Err() != nil
	r.record(structured, blocks, cancelled)
	switch {
	case cancelled:
		r.keep("result of a cancelled run", structured)
	case x.s.identity.ID != "" && r.wrote(): // the client may have lost its connection, and can reconnect to the session
		r.keep("result that may not have arrived", structured)
	}
	return ownOutcome(structuredResult(structured, blocks, r.report.Failed()))
}

// abandoned keeps the result of a plan that its client did not resume.
func (r *planRun) abandoned(error) {
	if r.report != nil {
		structured, _ := r.answer()
		r.keep("result of a cancelled run", structured)
	}
}

// record records the plan's event, once.
func (r *planRun) record(structured []byte, blocks [][]byte, cancelled bool) {
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

// wrote reports whether a step that writes was called.
func (r *planRun) wrote() bool {
	return slices.ContainsFunc(r.report.Steps, func(st *plan.Status) bool { return st.Step.Writes && st.Calls > 0 })
}

// answer returns the structured result and content blocks of a plan that has run.
func (r *planRun) answer() (structured []byte, blocks [][]byte) {
	p := r.s.srv.policy.Load()
	return r.report.Answer(r.plan, excerptLimit(min(p.Plans.ResultTokens(r.plan.Budget), r.s.room(p).Excerpts)), func(all []byte) string {
		return r.keep("all results", all)
	})
}

// keep keeps a value for mcpschedd_read_result and returns the handle, or "" if it is not kept.
func (r *planRun) keep(what string, value []byte) (handle string) {
	srv := r.s.srv
	ttl := srv.policy.Load().Plans.KeepFor
	if ttl < 0 {
		return ""
	}
	return srv.kept.add(r.s, fmt.Sprintf("plan %d, %s", r.number, what), value, time.Now(), ttl)
}

// planStep describes the step of a plan that a request belongs to.
type planStep struct {
	plan  int         // number of the plan
	id    string      // id of the step
	needs []string    // ids of the steps whose results feed the step
	gate  gate        // asked before the call is sent; nil if there is none
	doubt atomic.Bool // the call may have run although it failed
}

// noteDoubt records that the call may have run. p may be nil.
func (p *planStep) noteDoubt() {
	if p != nil {
		p.doubt.Store(true)
	}
}

// samePlan reports whether two requests are steps of one plan.
func (p *planStep) samePlan(q *planStep) bool { return p != nil && q != nil && p.plan == q.plan }

// prefix returns the prefix of the keys of a request's questions.
func (p *planStep) prefix() string {
	if p == nil {
		return "q"
	}
	return p.id + "."
}

// call makes one call of a plan as a request of its own, which takes the same path as a
// client's: it is classified, cached, limited, counted and learned from.
func (r *planRun) call(ctx context.Context, c plan.Call) plan.Result {
	disclosed := r.plan.Discloses(c.Step)
	if err := r.check(c, disclosed); err != nil {
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
		key: fmt.Sprintf("plan %d call %d", r.number, r.calls.Add(1)), // not a raw JSON id, so it cannot equal a client's
		out: to, stateless: r.work.first.stateless, hop: r.work.first.hop,
		work: r.work, step: &planStep{plan: r.number, id: c.Step.ID, needs: r.plan.Inputs(c.Step)},
	}
	if c.Step.Writes || disclosed != nil {
		x.step.gate = func() (retry <-chan struct{}, err error) {
			if _, resumed := r.work.currentRequest(); resumed != nil { // without an open request the client could not cancel
				return resumed, nil
			}
			return nil, r.check(c, r.plan.Discloses(c.Step))
		}
	}
	if err := x.admit(ctx); err != nil {
		return plan.Result{Err: err.Message}
	}
	func() {
		defer x.leave()
		x.serve()
	}()
	return to.result(ctx, x.step.doubt.Load())
}

// check refuses a call that writes, or that discloses results of the given steps to third
// parties, unless it is covered by the plan's confirmation. The arguments may not have been
// known at that time, and the policy or the tool's server may have changed since.
func (r *planRun) check(c plan.Call, disclosed []*plan.Step) error {
	p := &r.s.srv.policy.Load().Plans
	if !p.Enabled {
		return errors.New("not called: plans have been switched off since the plan started ([plan].enabled)")
	}
	if c.Step.Writes || disclosed != nil {
		was, now := r.servers[c.Step.Tool.Name], r.serverOf(c.Step.Tool.Name)
		if was != now && was != "" && now != "" {
			return errors.New("not called: the tool's server has been replaced since the plan started")
		}
	}
	return r.consent.Check(c, disclosed, p.Mutations)
}

// serverOf returns the key of a tool's server, which includes how the server is reached, or "".
func (r *planRun) serverOf(tool string) string {
	_, l := r.s.resolveName(r.s.srv.policy.Load(), upstream.Tools, tool)
	if l == nil {
		return ""
	}
	return l.member.key
}

// result returns the step's result. doubt means that the call may have run although it failed.
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

// stepOutlet receives the response to one call of a plan. It forwards other messages to the
// outlet of the work's current request.
type stepOutlet struct {
	work *work
	line []byte // the response; nil if there was none
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
