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
// of Run alone; calls are made on others. It may run several plans at once if its
// functions may be called so.
type Runner struct {
	Limits   Limits
	Call     func(ctx context.Context, c Call) Result // makes one call; returns when it is answered or ctx has ended
	Progress func(done float64, of int, what string)  // told how many steps have ended, and between the items of one; on the goroutine of Run; may be nil
	Tokens   func(text []byte) int                    // counts; nil: bytes/4
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
	if r.Limits.Timeout > 0 {
		ctx, stop = context.WithTimeoutCause(ctx, r.Limits.Timeout, fmt.Errorf("a plan may take %s (timeout)", r.Limits.Timeout))
	}
	defer stop()
	x := newExecution(r, p)
	for x.advance(ctx) {
		x.answered(ctx, <-x.answers)
	}
	x.calls.Wait()
	x.close(ctx)
	x.report.Makespan = time.Since(began)
	return x.report
}

// execution is a plan that runs. All of it belongs to the goroutine of Run.
//
//	queue.Next ──► begin ──► start ──► a goroutine: perform ──► answers ──► answered ──► end ──► queue.Done
type execution struct {
	run     *Runner
	plan    *Plan
	report  *Report  // what became of the steps so far
	stages  []*stage // by the steps' indexes
	queue   *schedule.Queue
	results *results
	answers chan answer
	calls   sync.WaitGroup
	open    int // calls under way
	told    progress
}

// stage is how far a step is.
type stage struct {
	step   *Step
	status *Status
	open   int       // its calls under way
	first  time.Time // its first call began
	last   time.Time // its last call ended
	items  *items    // of a step with ForEach that has begun
}

// done reports whether the step has ended.
func (g *stage) done() bool { return g.status.State != "" }

func newExecution(r *Runner, p *Plan) *execution {
	x := &execution{
		run: r, plan: p, queue: schedule.NewQueue(p.tasks(r.Limits.Parallel)),
		report: &Report{}, answers: make(chan answer), told: progress{tell: r.Progress, steps: len(p.Steps)},
	}
	x.results = newResults(p, x.report, r.Limits.Bytes)
	for i, s := range p.Steps {
		st := &Status{Step: s, Output: x.results.of[i].output}
		x.report.Steps = append(x.report.Steps, st)
		x.stages = append(x.stages, &stage{step: s, status: st})
	}
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
			x.startItems(ctx)
			break
		}
		x.begin(ctx, x.stages[i])
	}
	return x.open > 0
}

// begin begins a step that all it waits for has ended for, or ends it if it must
// not run.
func (x *execution) begin(ctx context.Context, g *stage) {
	if why, void := x.report.barred(g.step); why != "" {
		x.skip(g, why, void)
		return
	}
	if g.step.When != nil {
		holds, err := g.step.When.Holds(x.look)
		switch {
		case err != nil:
			x.end(g, Failed, "when: "+err.Error())
			return
		case !holds:
			x.skip(g, "when: false", true)
			return
		}
	}
	if g.step.ForEach != nil {
		x.openItems(g)
		return
	}
	x.start(ctx, g, -1, x.inputs(g.step))
}

// start has a call made, and its arguments too: to find them in large results takes long.
// It has its slot until it is answered, be it in between two tries.
func (x *execution) start(ctx context.Context, g *stage, item int, resolve Resolver) {
	g.open++
	x.open++
	c, output := Call{Step: g.step, Item: item}, g.status.Output
	x.calls.Go(func() {
		a := x.run.perform(ctx, c, resolve)
		if a.Err == "" && output {
			a.tokens = excerpt.Limit{Count: x.run.Tokens}.CountTokens(a.JSON) // here, where nothing else waits for it
		}
		x.answers <- a
	})
}

// answered takes in what came of a call.
func (x *execution) answered(ctx context.Context, a answer) {
	g := x.stages[a.Step.Index]
	x.open--
	g.open--
	g.note(a)
	if a.cut {
		x.report.Ended = ending(ctx)
	}
	if g.items != nil {
		x.itemAnswered(ctx, g, a)
		return
	}
	x.results.spend(g.step)
	if a.Err == "" {
		if err := x.keep(g, a); err != nil {
			a.Err, a.InDoubt = err.Error(), true // it was run, and what it said is lost
		}
	}
	if a.Err != "" {
		g.status.InDoubt = a.InDoubt && g.step.Writes
		x.end(g, Failed, a.Err)
		return
	}
	x.end(g, OK, "")
}

// keep keeps the result of a step for the steps and the client that need it.
func (x *execution) keep(g *stage, a answer) error {
	if !x.results.needed(g.step) {
		return nil
	}
	size := len(a.JSON)
	if a.Text != "" && string(trimmed([]byte(a.Text))) != string(a.JSON) {
		size += len(a.Text)
	}
	if err := x.results.hold(g.step, size, a.Blocks); err != nil {
		return err
	}
	g.status.Result, g.status.Tokens = a.Result, a.tokens
	if !g.status.Output {
		g.status.Result.Blocks = nil // which were not counted
	}
	return nil
}

// skip ends a step that does not run. void: nothing has failed.
func (x *execution) skip(g *stage, why string, void bool) {
	g.status.Benign = void
	x.end(g, Skipped, why)
}

// end is the end of a step.
func (x *execution) end(g *stage, state State, reason string) {
	g.status.State, g.status.Reason = state, excerpt.Shorten(reason, maxReason)
	if state != OK {
		x.results.release(g.step.Index)
	}
	g.items = nil
	x.queue.Done(g.step.Index)
	x.results.spend(g.step)
	x.told.stepEnded(g.status)
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
			x.report.Ended = ending(ctx)
			x.end(g, Cancelled, x.report.Ended)
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
