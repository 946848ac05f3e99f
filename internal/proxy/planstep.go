package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

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

// gate is asked whether a call may be sent, when there is a slot for it: it may have
// waited long for that. It returns why not, or a channel that is closed when it is to be
// asked again; nil: the call may be sent now.
type gate func() (again <-chan struct{}, err error)

// enter finds the call a slot with which the gate lets it pass.
func (g gate) enter(ctx context.Context, c *upstreamCall, wait bool) (*limit.Slot, error) {
	for wait {
		slot, err := enterHost(ctx, c, true)
		if err != nil {
			return nil, err
		}
		again, err := g()
		if again == nil && err == nil {
			return slot, nil
		}
		slot.Leave(notSent) // which others need meanwhile
		if err != nil {
			return nil, err
		}
		select {
		case <-again:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return nil, nil
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
		to:  to, stateless: r.work.began.stateless, hop: r.work.began.hop,
		work: r.work, part: &planPart{plan: r.number, step: c.Step.ID, needs: r.plan.Feeds(c.Step)},
	}
	if c.Step.Writes || told != nil {
		x.part.gate = func() (again <-chan struct{}, err error) {
			if _, back := r.work.attended(); back != nil { // its client has no request open, which it could withdraw
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
	return r.consent.Refuses(c, told, p.Mutations)
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
		return plan.Result{Err: context.Cause(ctx).Error(), Doubt: doubt}
	}
	m, err := jsonrpc.Parse(o.line)
	switch {
	case err != nil:
		return plan.Result{Err: err.Error(), Doubt: true}
	case m.Error != nil:
		return plan.Result{Err: message(m.Error), Doubt: doubt}
	}
	if goesOn(m.Result) {
		return plan.Result{Err: "the call goes on as a task, which a plan does not wait for", Doubt: true}
	}
	out := plan.ResultOf(m.Result)
	if how, ok := jsonrpc.String(jsonrpc.Get(jsonrpc.Get(m.Result, "_meta"), metaDisposition)); ok {
		out.Source = how
	}
	out.Doubt = out.Err != "" && (out.Doubt || doubt)
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
	x, _ := o.work.attended()
	if x == nil || x.answered.Load() {
		return errNoRequest
	}
	return x.to.Send(line)
}

func (o *stepOutlet) Answer(line []byte) error {
	o.line = bytes.Clone(line)
	return nil
}
