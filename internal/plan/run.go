package plan

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/schedule"
)

// Runner runs plans. What is a step's place in time is decided on the goroutine
// of Run alone; each call has a goroutine of its own. It may run several plans at
// once if its functions may be called so.
type Runner struct {
	Limits
	Call   func(ctx context.Context, c Call) Result // makes one call; returns when it is answered or ctx has ended
	Ended  func(s *Status, ended, of int)           // told after each step, on the goroutine of Run; may be nil
	Item   func(s *Step, done, of int)              // told after each item of for_each, on the goroutine of Run; may be nil
	Tokens func(text []byte) int                    // counts; nil: bytes/4
}

// Call is one call of a step.
type Call struct {
	Step      *Step
	Item      int    // of for_each; -1: the step has none
	Arguments []byte // a JSON object
}

// Run runs a plan that [Parse] has made, and returns after its last call has. A
// step begins when all that it waits for has ended, of several that could the one
// with the longest way to the end.
//
// What fails is told in the report, never by an error. Where ctx ends, or the plan
// has taken as long as plans may, calls under way are cut short and nothing else
// begins; a writing call that was cut short is in doubt.
func (r *Runner) Run(ctx context.Context, p *Plan) *Report {
	began := time.Now()
	ctx, stop := context.WithCancel(ctx)
	if r.Timeout > 0 {
		ctx, stop = context.WithTimeoutCause(ctx, r.Timeout, fmt.Errorf("a plan may take %s (timeout)", r.Timeout))
	}
	defer stop()
	x := newExecution(r, p)
	for x.advance(ctx) {
		x.answered(ctx, <-x.answers)
	}
	x.calls.Wait()
	x.close(ctx)
	report := &Report{Ended: x.why}
	for _, g := range x.stages {
		report.Steps = append(report.Steps, g.status)
	}
	report.Makespan = time.Since(began)
	return report
}

// count is the number of tokens of a text.
func (r *Runner) count(text []byte) int {
	if r.Tokens == nil {
		return len(text) / 4
	}
	return r.Tokens(text)
}

// execution is a plan that runs. All of it belongs to the goroutine of Run.
type execution struct {
	*Runner
	plan    *Plan
	stages  []*stage          // by the steps' indexes
	named   map[string]*stage // id → its step's
	queue   *schedule.Queue
	answers chan answer
	calls   sync.WaitGroup // the goroutines of calls
	open    int            // calls under way
	ended   int            // steps
	held    int            // bytes of the results that are kept
	why     string         // the plan ended before its end
}

// stage is how far a step is.
type stage struct {
	*Step
	status *Status
	users  int       // steps that refer to its result and have not ended
	result Value     // as long as a step or the client needs it
	held   int       // bytes of it
	first  time.Time // its first call began
	last   time.Time // its last call ended
	open   int       // its calls under way
	spent  bool      // it no longer needs the results that it refers to
	items  *items    // of a step with ForEach that has begun
}

// done reports whether the step has ended.
func (g *stage) done() bool { return g.status.State != "" }

// needed reports whether a step or the client will read the step's result.
func (g *stage) needed() bool { return g.status.Output || g.users > 0 }

func newExecution(r *Runner, p *Plan) *execution {
	x := &execution{Runner: r, plan: p, answers: make(chan answer), named: make(map[string]*stage, len(p.Steps))}
	for _, s := range p.Steps {
		g := &stage{Step: s, status: &Status{Step: s}}
		x.stages = append(x.stages, g)
		x.named[s.ID] = g
	}
	for _, id := range p.Outputs {
		x.named[id].status.Output = true
	}
	for _, s := range p.Steps {
		for _, d := range s.Needs {
			x.stages[d].users++
		}
	}
	x.queue = schedule.NewQueue(p.tasks(r.Parallel))
	for i, why := range p.leftOut(&r.Limits) {
		if why != "" {
			x.skip(x.stages[i], why, true)
		}
	}
	return x
}

// tasks are the steps as the queue knows them.
func (p *Plan) tasks(parallel int) ([]schedule.Task, schedule.Slots) {
	tasks := make([]schedule.Task, len(p.Steps))
	slots := schedule.Slots{Total: parallel, Hosts: make(map[string]int)}
	for i, s := range p.Steps {
		t := s.Tool
		tasks[i] = schedule.Task{After: s.After, Mean: t.Mean, P90: t.P90, Host: t.Host}
		if t.Capacity > 0 && t.Host != "" {
			slots.Hosts[t.Host] = t.Capacity
		}
	}
	return tasks, slots
}

// advance begins what can begin, and reports whether there is a call to wait for.
func (x *execution) advance(ctx context.Context) bool {
	for ctx.Err() == nil {
		i, ok := x.queue.Next()
		if !ok {
			x.beginItems(ctx)
			break
		}
		x.begin(ctx, x.stages[i])
	}
	return x.open > 0
}

// answered takes in what came of a call.
func (x *execution) answered(ctx context.Context, a answer) {
	g := x.stages[a.Step.Index]
	x.open--
	g.open--
	g.note(a)
	if a.cut {
		x.why = ending(ctx)
	}
	if g.items != nil {
		x.itemAnswered(ctx, g, a)
		return
	}
	x.spend(g)
	if a.Err == "" {
		if err := x.keep(g, a); err != nil {
			a.Err, a.Doubt = err.Error(), true // it was run, and what it said is lost
		}
	}
	if a.Err != "" {
		g.status.Doubt = a.Doubt && g.Writes
		x.end(g, Failed, a.Err)
		return
	}
	x.end(g, OK, "")
}

// end is the end of a step.
func (x *execution) end(g *stage, state State, reason string) {
	g.status.State, g.status.Reason = state, excerpt.Shorten(reason, maxReason)
	if state != OK {
		x.release(g)
	}
	g.items = nil
	x.queue.Done(g.Index)
	x.spend(g)
	x.ended++
	if x.Ended != nil {
		x.Ended(g.status, x.ended, len(x.stages))
	}
}

// maxReason is how many characters are said of why a step is not ok.
const maxReason = 500

// close ends the steps that the plan's end has left.
func (x *execution) close(ctx context.Context) {
	for _, g := range x.stages {
		switch {
		case g.done():
		case g.items != nil:
			x.cutItems(ctx, g)
			x.endItems(g)
		default:
			x.why = ending(ctx)
			x.end(g, Cancelled, x.why)
		}
	}
}

// ending is why a plan ended before its end.
func ending(ctx context.Context) string {
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return "no step of those left could begin" // a plan that Parse has not seen
	case errors.Is(cause, context.Canceled):
		return "cancelled"
	case errors.Is(cause, context.DeadlineExceeded):
		return "timeout"
	default:
		return cause.Error()
	}
}

// keep keeps the result of a step for the steps and the client that need it.
func (x *execution) keep(g *stage, a answer) error {
	if !g.needed() {
		return nil
	}
	size := len(a.JSON)
	if a.Text != "" && string(trimmed([]byte(a.Text))) != string(a.JSON) {
		size += len(a.Text)
	}
	if err := x.hold(g, size, a.Blocks); err != nil {
		return err
	}
	g.result = Value{JSON: a.JSON, Text: a.Text}
	if g.status.Output {
		a.Text = "" // references alone read it
		g.status.Result, g.status.Tokens = a.Result, a.tokens
	}
	return nil
}

// hold counts bytes of a step's result. What is on its way to us is not counted,
// nor are arguments, of which there is one for each call at most.
func (x *execution) hold(g *stage, size int, blocks [][]byte) error {
	if g.status.Output {
		for _, b := range blocks {
			size += len(b)
		}
	}
	if x.Bytes > 0 && size > x.Bytes-x.held {
		return fmt.Errorf("answer of %d bytes: all results of a plan may have %d (max_result_bytes)", size, x.Bytes)
	}
	g.held += size
	x.held += size
	return nil
}

// spend notes that a step no longer needs what it refers to.
func (x *execution) spend(g *stage) {
	if g.spent {
		return
	}
	g.spent = true
	for _, i := range g.Needs {
		d := x.stages[i]
		if d.users--; !d.needed() {
			x.release(d)
		}
	}
}

// release forgets a step's result.
func (x *execution) release(g *stage) {
	x.held -= g.held
	g.held, g.result, g.status.Result = 0, Value{}, Result{}
}
