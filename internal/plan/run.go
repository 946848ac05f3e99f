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
	Ended  func(s *Status, ended, of int)           // told after each step, on the goroutine of Run; nil: nobody is
	Item   func(s *Step, done, of int)              // told after each item of for_each, on the goroutine of Run; nil: nobody is
	Idle   func(running int)                        // told, on the goroutine of Run, before it waits for so many calls; nil: nobody is
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
	ctx, stop := r.within(ctx)
	defer stop()
	x := newExecution(r, p)
	for x.advance(ctx) {
		x.await(ctx)
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

// within bounds the time of a plan.
func (r *Runner) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.Timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, r.Timeout, fmt.Errorf("a plan may take %s (timeout)", r.Timeout))
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
	changed bool           // a step has ended since the optional ones were chosen
	gated   int            // optional steps that have not been let through
	unused  int            // tokens of the room for optional steps that were left when they were last picked; -1: never
	held    int            // bytes of the results that are kept
	params  *source        // nil: the plan has none
	broken  *stage         // first in the plan of the writing steps that failed; nil: none has
	why     string         // the plan ended before its end
}

// stage is how far a step is.
type stage struct {
	*Step
	status *Status
	output bool
	users  int       // steps that refer to its result and have not ended
	result *source   // as long as somebody needs it; nil: it has none
	held   int       // bytes of it
	first  time.Time // its first call began
	last   time.Time // its last call ended
	open   int       // its calls under way
	mixed  bool      // its answers have several sources
	spent  bool      // it no longer needs the results that it refers to
	items  *items    // of a step with ForEach that has begun
	optional
}

// done reports whether the step has ended.
func (g *stage) done() bool { return g.status.State != "" }

func newExecution(r *Runner, p *Plan) *execution {
	x := &execution{
		Runner: r, plan: p, changed: true, unused: -1, answers: make(chan answer),
		stages: make([]*stage, len(p.Steps)), named: make(map[string]*stage, len(p.Steps)),
	}
	for i, s := range p.Steps {
		x.stages[i] = &stage{Step: s, status: &Status{Step: s}}
		x.named[s.ID] = x.stages[i]
	}
	if p.Params != nil {
		x.params = newSource(Value{JSON: p.Params})
	}
	for _, id := range p.Outputs {
		x.named[id].output = true
		x.named[id].status.Output = true
	}
	for _, s := range p.Steps {
		for _, d := range s.Needs {
			x.stages[d].users++
		}
	}
	x.classify()
	x.decideDisclosing()
	x.enqueue()
	return x
}

// tasks are the steps as the queue knows them.
func (x *execution) tasks() ([]schedule.Task, schedule.Slots) {
	tasks := make([]schedule.Task, len(x.stages))
	slots := schedule.Slots{Total: x.Parallel, Hosts: make(map[string]int)}
	for i, g := range x.stages {
		t := g.Tool
		tasks[i] = schedule.Task{After: g.After, Mean: t.Mean, P90: t.P90, Host: t.Host, Conflicts: g.Conflicts}
		if t.Capacity > 0 {
			slots.Hosts[t.Host] = t.Capacity
		}
	}
	return tasks, slots
}

// advance begins what can begin, and reports whether there is a call to wait for.
func (x *execution) advance(ctx context.Context) bool {
	for ctx.Err() == nil {
		x.choose()
		if i, ok := x.queue.Next(); ok {
			x.begin(ctx, x.stages[i])
			continue
		}
		x.continueItems(ctx)
		if !x.changed && (x.open > 0 || !x.leaveOut()) {
			break
		}
	}
	return x.open > 0
}

// await waits for what one call has to tell, and takes it in.
func (x *execution) await(ctx context.Context) {
	if x.Idle != nil {
		x.Idle(x.open)
	}
	a := <-x.answers
	g := x.stages[a.Step.Index]
	if a.made {
		x.spend(g)
		return
	}
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
	x.settle(g, a)
}

// settle ends a step of one call.
func (x *execution) settle(g *stage, a answer) {
	res := a.Result
	if res.Err != "" {
		g.status.Doubt = res.Doubt && g.Writes
		x.end(g, Failed, res.Err)
		return
	}
	if err := x.keep(g, res, a.tokens); err != nil {
		g.status.Doubt = g.Writes // it was run, and nobody sees what it said
		x.end(g, Failed, err.Error())
		return
	}
	x.end(g, OK, "")
}

// end is the end of a step.
func (x *execution) end(g *stage, state State, reason string) {
	g.status.State, g.status.Reason = state, excerpt.Shorten(reason, maxReason)
	if g.broke() && (x.broken == nil || g.Index < x.broken.Index) {
		x.broken = g
	}
	if state != OK {
		x.release(g)
	}
	g.items = nil
	x.queue.Done(g.Index)
	x.spend(g)
	x.ended++
	x.changed = true
	if x.Ended != nil {
		x.Ended(g.status, x.ended, len(x.stages))
	}
}

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
