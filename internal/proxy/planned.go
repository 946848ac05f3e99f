package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"mcpschedd/internal/deliver"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/revision"
)

// servePlan answers a call of execute_tool_plan.
func (x *exchange) servePlan() {
	raw, err := x.ownArguments()
	if err != nil {
		x.told("", err)
		return
	}
	x.plan(raw, raw, nil)
}

// serveNamed answers a call of a plan that the operator wrote.
func (x *exchange) serveNamed(n *NamedPlan) {
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
func (x *exchange) plan(arguments, body, params []byte) {
	if x.resumePlan(arguments) {
		return
	}
	x.s.settle(x.ctx)
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
//	plan ──► run: confirm, plan.Runner ──► call: an exchange for each step
//	  │                                       │ ask: nothing goes on without the client
//	  └─► attend ◄── done ── asking ◄─────────┘
type planRun struct {
	s         *session
	plan      *plan.Plan
	number    int      // of the session's plans
	own       *ownTool // that it was called by
	arguments []byte   // it was called with
	body      []byte   // the plan as it was written
	stateless bool
	hop       revision.Hop
	ctx       context.Context
	cancel    context.CancelCauseFunc

	asking chan struct{} // capacity 1: all calls under way wait for the client
	done   chan struct{} // closed when one of these is there:
	report *plan.Report
	refuse error // why it was not run

	confirmed bool // the user agrees to what it may change

	mu        sync.Mutex
	x         *exchange        // the request that is to be answered; nil: its client fetches answers
	calls     int              // so far
	running   int              // calls under way
	blocked   int              // of those: wait for the client
	open      map[string]*held // key in inputRequests → question
	gathering bool             // it is waited for further ones
	asked     int              // questions so far
	expiry    *time.Timer      // while the client fetches answers
}

func (s *session) newPlanRun(x *exchange, p *plan.Plan, arguments, body []byte) *planRun {
	r := &planRun{
		s: s, plan: p, own: x.own, stateless: x.stateless, hop: x.hop,
		arguments: bytes.Clone(arguments), body: bytes.Clone(body),
		asking: make(chan struct{}, 1), done: make(chan struct{}),
		x: x, open: make(map[string]*held),
	}
	x.token = revision.Token(x.msg.Params)
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
		Call:   r.call, Ended: r.ended, Idle: r.idle, Tokens: tokens,
	}
	r.report = runner.Run(r.ctx, r.plan)
}

// attend waits until the plan has ended or cannot go on without its client, and
// answers the request with what there is.
func (x *exchange) attend(r *planRun) {
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
func (x *exchange) finishPlan(r *planRun) {
	r.cancel(nil)
	if r.refuse != nil {
		x.told("", r.refuse)
		return
	}
	structured, blocks := r.answer()
	x.shown(structured, blocks, r.report.Failed())
	switch {
	case x.ctx.Err() != nil:
		r.record("which was cancelled", structured)
	case x.s.id != "" && r.wrote(): // a client that has lost its connection comes back, and asks
		r.record("whose answer may have been lost", structured)
	}
}

// wrote reports whether the plan may have changed something.
func (r *planRun) wrote() bool {
	return slices.ContainsFunc(r.report.Steps, func(st *plan.Status) bool { return st.Step.Writes && st.Calls > 0 })
}

// answer is what the client gets of a plan that has been run.
func (r *planRun) answer() (structured []byte, blocks [][]byte) {
	p := &r.s.srv.policy.Load().Plans
	return r.report.Answer(r.plan, p.brings(r.plan.Budget), mostBrought, deliver.Tokens, func(id string, v plan.Value) string {
		return r.keep(fmt.Sprintf("plan %d, step %s", r.number, id), v.JSON)
	})
}

// record keeps an answer that nobody may have read.
func (r *planRun) record(why string, structured []byte) {
	r.keep(fmt.Sprintf("plan %d, %s", r.number, why), structured)
}

func (r *planRun) keep(of string, value []byte) (handle string) {
	srv := r.s.srv
	return srv.kept.add(r.s, of, value, time.Now(), srv.policy.Load().Plans.KeepFor)
}

// ended tells the client how far the plan has come, if it wants to know.
func (r *planRun) ended(st *plan.Status, ended, of int) {
	x := r.current()
	if x == nil || x.token == nil {
		return
	}
	text := fmt.Sprintf("%s: %s", st.Step.ID, st.State)
	if st.Calls > 0 {
		text += fmt.Sprintf(" (%d ms)", st.Took.Milliseconds())
	}
	params := fmt.Appendf(nil, `{"progress":%d,"total":%d,"message":`, ended, of)
	x.hear("notifications/progress", append(jsonrpc.AppendString(params, text), '}'))
}

// current is the request that the plan is served for at this moment; nil: none.
func (r *planRun) current() *exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.x
}

// confirm has the user agree to what the plan may change, where the operator wants
// that. The error says why the plan is not run.
func (r *planRun) confirm() error {
	if r.s.srv.policy.Load().Plans.Mutations != "confirm" {
		return nil // what is denied did not get here
	}
	var writes []*plan.Step
	for _, st := range r.plan.Steps {
		if st.Writes {
			writes = append(writes, st)
		}
	}
	if writes == nil {
		return nil
	}
	if !r.canElicit() {
		return fmt.Errorf("the plan was not run: %s may change something, and this client cannot be asked to confirm that. Call such tools by themselves; or the operator sets [plan].mutations to \"allow\"", listed(writes))
	}
	params := jsonrpc.Set(nil, "message", jsonrpc.AppendString(nil, r.request(writes)))
	params = jsonrpc.Set(params, "requestedSchema", []byte(`{"type":"object","properties":{}}`))
	r.idle(1) // nothing else is under way
	answers, err := r.ask(r.ctx, []asked{{"confirm", "elicitation/create", params}})
	if err != nil {
		return fmt.Errorf("the plan was not run: it could not be confirmed: %s", err.Message)
	}
	if action, _ := jsonrpc.String(jsonrpc.Get(answers[0], "action")); action != "accept" {
		return errors.New("the plan was not run: the user did not confirm it; nothing was called")
	}
	r.confirmed = true
	return nil
}

// canElicit reports whether the client said that it can ask its user. One that says
// no more of it than that it can, can by a form.
func (r *planRun) canElicit() bool {
	capabilities := r.hop.Capabilities
	if !r.stateless {
		r.s.mu.Lock()
		capabilities = r.s.client.Capabilities
		r.s.mu.Unlock()
	}
	elicitation := jsonrpc.Get(capabilities, "elicitation")
	onlyURLs := jsonrpc.Get(elicitation, "url") != nil && jsonrpc.Get(elicitation, "form") == nil
	return elicitation != nil && !onlyURLs
}

func listed(steps []*plan.Step) string {
	var names []string
	for _, st := range steps {
		names = append(names, fmt.Sprintf("step %q (%s)", st.ID, legible([]byte(st.Tool.Name))))
	}
	return strings.Join(names, ", ")
}

// Bounds of what a user is asked to read.
const (
	mostConfirmed = 20  // steps
	mostShown     = 400 // bytes of a step's arguments
)

// request is what the user is asked.
func (r *planRun) request(writes []*plan.Step) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Run this plan? %d of its %d steps may change something:\n", len(writes), len(r.plan.Steps))
	if r.plan.Params != nil {
		fmt.Fprintf(&b, "with params %s\n", legible(r.plan.Params))
	}
	for i, st := range writes {
		if i == mostConfirmed {
			fmt.Fprintf(&b, "and %d more\n", len(writes)-i)
			break
		}
		each := ""
		if st.ForEach != nil {
			each = fmt.Sprintf(" for each of up to %d items", st.MaxItems)
		}
		arguments := jsonrpc.At(r.body, fmt.Sprintf("/steps/%d/arguments", st.Index))
		fmt.Fprintf(&b, "- %s: %s%s %s\n", st.ID, legible([]byte(st.Tool.Name)), each, legible(arguments))
	}
	return b.String()
}

// legible shows what others wrote, a step's arguments for one, so that nothing in it
// looks like anything else: on one line, without marks that cannot be seen.
func legible(written []byte) string {
	text := strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return '·'
	}, string(written))
	if len(text) > mostShown {
		text = strings.ToValidUTF8(text[:mostShown], "") + fmt.Sprintf("… (%d bytes)", len(written))
	}
	return text
}
