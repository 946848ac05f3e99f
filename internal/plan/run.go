package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/schedule"
)

// Runner runs a plan. Run's goroutine makes all scheduling decisions; calls run on other
// goroutines.
type Runner struct {
	Limits   Limits
	Call     func(ctx context.Context, c Call) Result // makes one call; returns when it is answered or ctx ends
	Progress func(done float64, of int, what string)  // receives the number of ended steps, with fractions for items; called on Run's goroutine; may be nil
	Tokens   func(text []byte) int                    // counts tokens; nil means bytes/4

	refused func(c Call) error // see Call.Refused; nil allows all calls
}

// Run runs a plan returned by [Parse], and returns after its last call has. A step starts when
// all its dependencies have ended. Of several ready steps the one with the longest remaining path
// starts first.
//
// Failures are in the report. When ctx ends or the plan times out, calls in flight are cancelled
// and no other starts. A write that is cut short is in doubt.
func (r *Runner) Run(ctx context.Context, p *Plan) *Report {
	began := time.Now()
	if r.Limits.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, r.Limits.Timeout, fmt.Errorf("a plan may take %s (timeout)", r.Limits.Timeout))
		defer stop()
	}
	x := newExecution(r, p)
	for x.advance(ctx) {
		x.answered(ctx, <-x.answers)
	}
	x.calls.Wait()
	for _, g := range x.stages {
		if g.State == "" {
			x.cut(ctx, g)
		}
	}
	x.report.Makespan = time.Since(began)
	return x.report
}

// execution is a running plan. It is used on Run's goroutine only. A step without for_each is run
// as one with one item.
//
//	queue.Next ──► begin ──► start ──► a goroutine: perform ──► answers ──► answered ──► end ──► queue.Done
type execution struct {
	*Runner
	plan     *Plan
	report   *Report  // outcomes so far
	stages   []*stage // step index → stage
	queue    *schedule.Queue
	answers  chan answer
	calls    sync.WaitGroup
	inFlight int      // calls in flight
	held     int      // bytes of stored results; responses in flight and arguments are not counted
	ended    int      // steps that have ended
	told     struct { // the last report of progress
		value float64
		at    time.Time
	}
}

func newExecution(r *Runner, p *Plan) *execution {
	x := &execution{
		Runner: r, plan: p, queue: schedule.NewQueue(p.tasks(r.Limits.Parallel)), report: &Report{}, answers: make(chan answer),
	}
	for _, s := range p.Steps {
		output := slices.Contains(p.Outputs, s)
		g := &stage{Status: &Status{Step: s, Output: output}, items: items{needed: output}}
		x.report.Steps, x.stages = append(x.report.Steps, g.Status), append(x.stages, g)
	}
	for _, s := range p.Steps {
		for _, i := range s.Needs {
			x.stages[i].items.needed = true
		}
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
		tasks[i] = schedule.Task{After: slices.Concat(s.Waits, s.Order), Mean: t.Mean, Host: t.Host}
		if t.Capacity > 0 && t.Host != "" {
			slots.Hosts[t.Host] = t.Capacity
		}
	}
	return tasks, slots
}

// advance starts all calls that can start, and reports whether there are calls in flight. Ready
// steps start before further items of other steps.
func (x *execution) advance(ctx context.Context) bool {
	for ctx.Err() == nil {
		i, ok := x.queue.Next()
		if !ok {
			break
		}
		x.begin(ctx, x.stages[i])
	}
	for _, g := range x.stages {
		for g.State == "" && g.items.more() && ctx.Err() == nil && x.acquireSlot(g) {
			x.start(ctx, g)
		}
	}
	return x.inFlight > 0
}

// acquireSlot acquires a slot for another call of a step. The step already has the first one.
func (x *execution) acquireSlot(g *stage) bool {
	if g.items.inFlight == 0 {
		return true
	}
	if limit := g.Step.Parallel; g.Step.Writes || limit > 0 && g.items.inFlight >= limit {
		return false
	}
	return x.queue.AcquireExtra(g.Step.Index)
}

// begin starts a step whose dependencies have ended, or skips it.
func (x *execution) begin(ctx context.Context, g *stage) {
	s := g.Step
	if why, benign := x.report.skipReason(s); why != "" {
		x.skip(g, why, benign)
		return
	}
	if s.When != nil {
		switch holds, err := s.When.holds(x.outcome); {
		case err != nil:
			x.end(g, Failed, "when: "+err.Error())
			return
		case !holds:
			x.skip(g, "when: false", true)
			return
		}
	}
	var err error
	var array *Value
	if r := s.ForEach; r != nil {
		array, err = r.resolve(x.outcome(r.Step))
	}
	if err == nil {
		err = g.items.open(s, array)
	}
	if err != nil {
		x.end(g, Failed, "for_each: "+err.Error())
		return
	}
	g.inputs = x.inputs(s)
	if !g.items.more() {
		x.finish(g)
		return
	}
	g.items.began = time.Now()
	x.start(ctx, g)
}

// outcome returns the result of a step that has ended, or the parameters, as references see it:
// nil for a failed step with on_error "continue", to which references are null.
func (x *execution) outcome(id string) (*Value, error) {
	if id == params && x.plan.Params != nil {
		return &Value{JSON: x.plan.Params}, nil
	}
	i := slices.IndexFunc(x.plan.Steps, func(s *Step) bool { return s.ID == id })
	switch st := x.report.Steps[i]; {
	case st.State == OK:
		return &Value{st.Result.JSON, st.Result.Text}, nil
	case st.Benign:
	case st.Step.OnError == Default:
		return &Value{JSON: st.Step.Default}, nil
	case st.Step.OnError == Continue:
		return nil, nil
	}
	return nil, fmt.Errorf("step %q has no result", id)
}

// inputs are the values of references, except item and index.
type inputs map[*Ref]func() (*Value, error)

// inputs returns the values of the references in a step's arguments. Each is resolved once, on
// the goroutine of the first call that needs it: evaluating a pointer into a large result for
// each of thousands of items would take seconds.
func (x *execution) inputs(s *Step) inputs {
	all := make(inputs)
	for _, r := range refsIn(s.arguments) {
		if s.ForEach == nil || r.Step != item && r.Step != index {
			v, err := x.outcome(r.Step)
			all[r] = sync.OnceValues(func() (*Value, error) { return r.resolve(v, err) })
		}
	}
	return all
}

// start makes the next call of a step on a new goroutine. The goroutine also fills in the
// arguments, because searching large results takes long. The call keeps its slot between retries.
func (x *execution) start(ctx context.Context, g *stage) {
	c := Call{Step: g.Step, Item: -1}
	value := g.items.values[g.items.next]
	if g.Step.ForEach != nil {
		c.Item = g.items.next
	}
	g.items.next++
	g.items.inFlight++
	x.inFlight++
	output, inputs := g.Output, g.inputs
	x.calls.Go(func() {
		a := x.perform(ctx, c, inputs, value)
		if a.Err == "" && output {
			a.tokens = x.countTokens(a.JSON) // here because it does not block the run
		}
		x.answers <- a
	})
}

// countTokens counts the tokens of a result. One that is far too long to be returned is only
// estimated.
func (r *Runner) countTokens(text []byte) int {
	if len(text) > 4*maxChars {
		return len(text) / 4
	}
	return excerpt.Limit{Count: r.Tokens}.CountTokens(text)
}

// answered handles the outcome of a call.
func (x *execution) answered(ctx context.Context, a answer) {
	s, g, i := a.Step, x.stages[a.Step.Index], max(a.Item, 0)
	x.inFlight--
	if g.items.inFlight--; g.items.inFlight > 0 {
		x.queue.ReleaseExtra(s.Index)
	}
	if a.calls > 0 {
		g.Calls += a.calls
		g.Bytes += a.Bytes
		g.Source = a.Source
		g.Took = max(g.Took, a.ended.Sub(g.items.began))
	}
	if a.Err != "" && ctx.Err() != nil {
		x.report.Ended = endReason(ctx)
	}
	if a.Err == "" {
		if err := x.keep(g, i, a.Result, a.tokens); err != nil {
			a.Err, a.InDoubt, g.items.stopped = err.Error(), true, true // it ran, but its result is lost
		}
	}
	if a.Err != "" {
		g.InDoubt = g.InDoubt || a.InDoubt && s.Writes
		x.failItem(g, i, a.Err)
	}
	if ctx.Err() != nil && g.items.more() {
		x.cut(ctx, g)
	} else if g.items.inFlight == 0 && !g.items.more() {
		x.finish(g)
	} else if time.Since(x.told.at) >= time.Second {
		x.told.at = time.Now()
		done, of := g.items.done(), len(g.items.values)
		x.tell(float64(x.ended)+float64(done)/float64(of+1), fmt.Sprintf("%s: %d of %d items", s.ID, done, of))
	}
}

// keep stores the result of an item if a step or the client needs it.
func (x *execution) keep(g *stage, i int, res Result, tokens int) error {
	if !g.items.needed {
		return nil
	}
	if !g.Output {
		res.Blocks = nil
	}
	size := len(res.JSON)
	for _, b := range res.Blocks {
		size += len(b)
	}
	if limit := x.maxBytes(); size > limit-x.held {
		return fmt.Errorf("answer of %d bytes: all results of a plan may have %d (max_result_bytes)", size, limit)
	}
	x.held += size
	g.items.results[i] = res
	if g.Tokens += tokens; g.Step.ForEach != nil {
		g.Tokens++ // the comma
	}
	return nil
}

// maxBytes returns the limit of stored results, and of the arguments of one call.
func (r *Runner) maxBytes() int { return cmp.Or(r.Limits.Bytes, noLimit) }

// failItem applies the step's on_error to a failed item.
func (x *execution) failItem(g *stage, i int, why string) {
	var err error
	switch s := g.Step; {
	case s.ForEach == nil || s.Writes || s.OnError == Fail:
		g.items.stopped = true
	case s.OnError == Default:
		err = x.keep(g, i, Result{JSON: s.Default}, len(s.Default))
	case s.OnError == Continue:
		err = x.keep(g, i, Result{JSON: []byte("null")}, 1)
	}
	if err != nil {
		why, g.items.stopped = err.Error(), true
	}
	if g.items.failed++; g.items.failed == 1 || i < g.items.firstBad || err != nil {
		g.items.firstBad, g.items.why = i, why
	}
}

// finish ends a step whose calls have ended.
func (x *execution) finish(g *stage) {
	if g.fails() {
		x.end(g, Failed, g.reason())
		return
	}
	if g.items.needed {
		g.Result = g.result()
	}
	x.end(g, OK, g.reason())
}

// cut ends a step that is left when the plan ends.
func (x *execution) cut(ctx context.Context, g *stage) {
	x.report.Ended = endReason(ctx)
	if g.items.values == nil {
		x.end(g, Cancelled, x.report.Ended)
		return
	}
	if g.items.stopped = true; g.items.failed == 0 {
		g.items.why = "cut short: " + x.report.Ended
	}
	if g.items.inFlight == 0 {
		x.finish(g)
	}
}

// skip ends a step that does not run. benign means that nothing has failed.
func (x *execution) skip(g *stage, why string, benign bool) {
	g.Benign = benign
	x.end(g, Skipped, why)
}

// maxReason is the maximum length of Status.Reason in characters.
const maxReason = 500

// end records the outcome of a step.
func (x *execution) end(g *stage, state State, reason string) {
	g.State, g.Reason = state, excerpt.Shorten(reason, maxReason)
	g.items.results, g.inputs = nil, nil
	g.chain = min(g.Calls, 1)
	for _, i := range g.Step.Waits {
		g.chain = max(g.chain, x.stages[i].chain+min(g.Calls, 1))
	}
	x.queue.Done(g.Step.Index)
	x.ended++
	what := g.Step.ID + ": " + string(state)
	if g.Calls > 0 {
		what += fmt.Sprintf(" (%d ms)", g.Took.Milliseconds())
	}
	x.tell(float64(x.ended), what)
}

// tell reports progress. Reported values never decrease, also when several steps process items.
func (x *execution) tell(done float64, what string) {
	if x.Progress != nil && done > x.told.value {
		x.told.value = done
		x.Progress(done, len(x.plan.Steps), what)
	}
}

// endReason returns the reason why a plan ended early.
func endReason(ctx context.Context) string {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, context.Canceled):
		return "cancelled"
	case errors.Is(cause, context.DeadlineExceeded):
		return "timeout"
	default:
		return cause.Error()
	}
}
