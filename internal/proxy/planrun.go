package proxy

import (
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
}

func newPlanRun(x *request, p *plan.Plan) *planRun {
	r := &planRun{
		s: x.s, work: newWork(x), plan: p, number: int(x.s.plans.Add(1)), tool: toolName(&x.msg.Index),
		servers: make(map[string]string),
	}
	for _, name := range []string{"traceparent", "tracestate"} {
		if value := x.msg.Index.Meta.Get(name); value != nil {
			r.meta = jsonrpc.Set(r.meta, name, value)
		}
	}
	for _, st := range p.Steps {
		r.servers[st.Tool.Name] = r.serverOf(st.Tool.Name)
	}
	return r
}

// run confirms and runs the plan. It keeps a result that the client may not receive, so that
// the client can find out what was written.
func (r *planRun) run() {
	if err := r.confirm(); err != nil {
		r.work.end(failedOutcome(err))
		return
	}
	runner := plan.Runner{Limits: r.s.planLimits(), Call: r.call, Progress: r.progress, Tokens: countTokens}
	report := runner.Run(r.work.ctx, r.plan)
	p := r.s.srv.policy.Load()
	limit := excerptLimit(min(p.Plans.ResultTokens(r.plan.Budget), r.s.room(p).Excerpts))
	structured, blocks := report.Answer(r.plan, limit, func(all []byte) string { return r.keep("all results", all) })
	cancelled := r.work.ctx.Err() != nil
	wrote := slices.ContainsFunc(report.Steps, func(st *plan.Status) bool { return st.Step.Writes && st.Calls > 0 })
	if cancelled || wrote {
		r.keep("result", structured)
	}
	r.record(report, structured, blocks, cancelled)
	r.work.end(ownOutcome(structuredResult(structured, blocks, report.Failed())))
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
	if x := r.work.currentRequest(); x != nil && x.msg.Index.Token() != nil {
		params := fmt.Appendf(nil, `{"progress":%s,"total":%d,"message":`, strconv.FormatFloat(done, 'f', -1, 64), of)
		x.forward(nil, "notifications/progress", append(jsonrpc.AppendString(params, what), '}'))
	}
}

// record records the plan's event.
func (r *planRun) record(report *plan.Report, structured []byte, blocks [][]byte, cancelled bool) {
	e := record.Event{
		Kind: record.Plan, At: time.Now().Add(-report.Makespan), Session: r.s.observed.Name, Plan: r.number, Tool: r.tool,
		LatencyMS: ms(report.Makespan), Depth: report.ChainLength(), BytesOut: int64(len(structured)), Cancelled: cancelled,
	}
	for _, st := range report.Steps {
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

// keep keeps a value for mcpschedd_read_result and returns the handle, or "" if it is not kept.
func (r *planRun) keep(what string, value []byte) (handle string) {
	srv := r.s.srv
	ttl := srv.policy.Load().Plans.KeepFor
	if ttl < 0 {
		return ""
	}
	return srv.kept.Add(r.s, fmt.Sprintf("plan %d, %s", r.number, what), value, ttl)
}

// planStep describes the step of a plan that a request belongs to.
type planStep struct {
	plan  int      // number of the plan
	id    string   // id of the step
	needs []string // ids of the steps whose results feed the step
	gate  gate     // asked before the call is sent; nil if there is none
}

// samePlan reports whether two requests are steps of one plan.
func (p *planStep) samePlan(q *planStep) bool { return p != nil && q != nil && p.plan == q.plan }

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
	first := r.work.first
	x := &request{
		s:   r.s,
		msg: &front.Message{Message: jsonrpc.Message{ID: []byte("0"), Method: "tools/call", Params: params}, Index: *parsedParams(params), Client: first.msg.Client},
		key: fmt.Sprintf("plan %d call %d", r.number, r.calls.Add(1)), // not a raw JSON id, so it cannot equal a client's
		out: first.out, client: first.client,
		work: r.work, step: &planStep{plan: r.number, id: c.Step.ID, needs: r.plan.Inputs(c.Step)},
	}
	if c.Step.Writes || disclosed != nil {
		x.step.gate = func() error { return r.check(c, r.plan.Discloses(c.Step)) }
	}
	if err := x.admit(ctx); err != nil {
		return plan.Result{Err: err.Message}
	}
	defer x.leave()
	o := x.respond()
	if x.call != nil {
		x.call.observeResult(x.ctx, o)
	}
	return stepResult(x, o)
}

// stepResult returns the result of a step's request.
func stepResult(x *request, o outcome) (out plan.Result) {
	defer o.answer.Buffer.Release()
	switch {
	case o.err != nil:
		return plan.Result{Err: x.explain(o.err).Error(), InDoubt: o.answer.Sent && !o.answer.Limited}
	case o.answer.Error != nil:
		return plan.Result{Err: message(o.answer.Error)}
	case o.kind == startedTask:
		return plan.Result{Err: "the call goes on as a task, which a plan does not wait for", InDoubt: true}
	}
	out = plan.ResultOf(o.answer.Result)
	if x.call != nil {
		out.Source = string(x.call.observed.source.How)
	}
	return out
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
