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

// Runner runs plans. Run's goroutine makes all scheduling decisions; calls run on other
// goroutines. A Runner may run several plans concurrently if its functions are safe for
// concurrent use.
type Runner struct {
	Limits   Limits
	Call     func(ctx context.Context, c Call) Result // makes one call; returns when it is answered or ctx ends
	Progress func(done float64, of int, what string)  // receives the number of ended steps, with fractions for items; called on Run's goroutine; may be nil
	Tokens   func(text []byte) int                    // counts tokens; nil means bytes/4
}

// Call is one call of a step.
type Call struct {
	Step      *Step
	Item      int    // index of the for_each item; -1 without for_each
	Arguments []byte // a JSON object
}

// Run runs a plan returned by [Parse], and returns after its last call has. A step starts when
// all its dependencies have ended. Of several ready steps the one with the longest remaining path
// starts first.
//
// Failures are in the report. When ctx ends or the plan times out, calls in flight are cancelled
// and no other starts. A write that is cut short is in doubt.
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

// execution is a running plan. It is used on Run's goroutine only.
//
//	queue.Next ──► begin ──► start ──► a goroutine: perform ──► answers ──► answered ──► end ──► queue.Done
type execution struct {
	run      *Runner
	plan     *Plan
	report   *Report  // outcomes so far
	stages   []*stage // step index → stage
	queue    *schedule.Queue
	results  *results
	answers  chan answer
	calls    sync.WaitGroup
	inFlight int // calls in flight
	progress progress
}

// stage is the progress of a step.
type stage struct {
	step     *Step
	status   *Status
	inFlight int       // its calls in flight
	first    time.Time // start of its first call
	last     time.Time // end of its last call
	items    *items    // nil unless a step with ForEach has started
}

// done reports whether the step has ended.
func (g *stage) done() bool { return g.status.State != "" }

func newExecution(r *Runner, p *Plan) *execution {
	x := &execution{
		run: r, plan: p, queue: schedule.NewQueue(p.tasks(r.Limits.Parallel)),
		report: &Report{}, answers: make(chan answer), progress: progress{report: r.Progress, steps: len(p.Steps)},
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

// tasks converts the steps for the queue.
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

// advance starts all steps that can start, and reports whether there are calls in flight.
func (x *execution) advance(ctx context.Context) bool {
	for ctx.Err() == nil {
		i, ok := x.queue.Next()
		if !ok {
			x.startItems(ctx)
			break
		}
		x.begin(ctx, x.stages[i])
	}
	return x.inFlight > 0
}

// begin starts a step whose dependencies have ended, or skips it.
func (x *execution) begin(ctx context.Context, g *stage) {
	if why, benign := x.report.skipReason(g.step); why != "" {
		x.skip(g, why, benign)
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

// start makes a call on a new goroutine. The goroutine also resolves the arguments, because
// searching large results takes long. The call keeps its slot between retries.
func (x *execution) start(ctx context.Context, g *stage, item int, resolve Resolver) {
	g.inFlight++
	x.inFlight++
	c, output := Call{Step: g.step, Item: item}, g.status.Output
	x.calls.Go(func() {
		a := x.run.perform(ctx, c, resolve)
		if a.Err == "" && output {
			a.tokens = excerpt.Limit{Count: x.run.Tokens}.CountTokens(a.JSON) // counted here because it does not block the run
		}
		x.answers <- a
	})
}

// answered handles the outcome of a call.
func (x *execution) answered(ctx context.Context, a answer) {
	g := x.stages[a.Step.Index]
	x.inFlight--
	g.inFlight--
	g.note(a)
	if a.interrupted {
		x.report.Ended = endReason(ctx)
	}
	if g.items != nil {
		x.itemAnswered(ctx, g, a)
		return
	}
	x.results.releaseInputs(g.step)
	if a.Err == "" {
		if err := x.keep(g, a); err != nil {
			a.Err, a.InDoubt = err.Error(), true // it ran, but its result is lost
		}
	}
	if a.Err != "" {
		g.status.InDoubt = a.InDoubt && g.step.Writes
		x.end(g, Failed, a.Err)
		return
	}
	x.end(g, OK, "")
}

// keep stores the result of a step if a step or the client needs it.
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
		g.status.Result.Blocks = nil // the blocks were not counted
	}
	return nil
}

// skip ends a step that does not run. benign means that nothing has failed.
func (x *execution) skip(g *stage, why string, benign bool) {
	g.status.Benign = benign
	x.end(g, Skipped, why)
}

// end records the outcome of a step and releases its results.
func (x *execution) end(g *stage, state State, reason string) {
	g.status.State, g.status.Reason = state, excerpt.Shorten(reason, maxReason)
	if state != OK {
		x.results.release(g.step.Index)
	}
	g.items = nil
	x.queue.Done(g.step.Index)
	x.results.releaseInputs(g.step)
	x.progress.stepEnded(g.status)
}

// maxReason is the maximum length of Status.Reason in characters.
const maxReason = 500

// close ends the steps that are left when the plan ends.
func (x *execution) close(ctx context.Context) {
	for _, g := range x.stages {
		switch {
		case g.done():
		case g.items != nil:
			x.interruptItems(ctx, g)
			x.endItems(g)
		default:
			x.report.Ended = endReason(ctx)
			x.end(g, Cancelled, x.report.Ended)
		}
	}
}

// endReason returns the reason why a plan ended early.
func endReason(ctx context.Context) string {
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return "no remaining step could start" // only for a plan not made by Parse
	case errors.Is(cause, context.Canceled):
		return "cancelled"
	case errors.Is(cause, context.DeadlineExceeded):
		return "timeout"
	default:
		return cause.Error()
	}
}
