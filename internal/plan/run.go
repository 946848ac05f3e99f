package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"mcpschedd/internal/age"
	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/schedule"
)

// Runner forecasts a plan, or confirms, runs and answers it. With embedded ones it has more than 15
// fields, as the limits of a plan are among them.
type Runner struct {
	Limits
	NoOptional bool // run no optional steps, because the client's budget is used up

	// For Run.
	Call     func(ctx context.Context, c Call) Result // makes one call; returns when it is answered or ctx ends
	Progress func(done float64, of int, what string)  // receives the number of ended steps, with fractions for items; called on Run's goroutine; may be nil
	Tokens   func(text []byte) int                    // counts tokens; nil means bytes/4

	// For Serve.
	Settings func() *Settings                       // in force now; a reload may change them while the plan runs
	Ask      func(question string) error            // asks the user to confirm, and returns why not; nil if the client cannot be asked
	Keep     func(what string, value []byte) string // stores a result of the plan and returns its handle; "" if it does not
	Room     func() int                             // tokens that the client's budget leaves for the answer

	refused func(c Call) error // see Call.Refused; nil allows all calls
}

// Run runs a plan returned by [Parse], and returns after its last call has. A step starts when
// all its dependencies have ended. Of several ready steps the one with the longest remaining path
// starts first. Run's goroutine makes all scheduling decisions; calls run on other goroutines.
//
// Failures are in the report. When ctx ends or the plan times out, calls in flight are cancelled
// and no other starts.
func (r *Runner) Run(ctx context.Context, p *Plan) *Report {
	began := time.Now()
	if r.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, r.Timeout, fmt.Errorf("a plan may take %s (timeout)", age.Text(r.Timeout)))
		defer stop()
	}
	x := newExecution(r, p)
	for x.advance(ctx) {
		select {
		case a := <-x.answers:
			x.answered(ctx, a)
		case s := <-x.alive:
			x.tellRunning(x.runs[s.Index], time.Second/10)
		}
	}
	for _, run := range x.runs {
		if run.State == "" {
			x.cut(ctx, run)
		}
	}
	x.report.Makespan = time.Since(began)
	return x.report
}

// execution is a running plan. It is used on Run's goroutine only. A step without for_each is run
// as one with one item. With embedded ones it has more than 15 fields, as the limits of a plan are among them.
//
//	queue.Next ──► begin ──► start ──► a goroutine: perform ──► answers ──► answered ──► end ──► queue.Done
type execution struct {
	*Runner
	plan    *Plan
	report  *Report    // outcomes so far
	runs    []*stepRun // step index → run
	queue   *schedule.Queue
	answers chan answer
	alive   chan *Step // a step of which a call has made progress; further ones are dropped until it is read
	held    int        // bytes of the results stored so far, also of steps that failed later; responses in flight and arguments are not counted
	ended   int        // steps that have ended
	told    struct {   // the last report of progress
		value float64
		at    time.Time
	}
}

func newExecution(r *Runner, p *Plan) *execution {
	x := &execution{
		Runner: r, plan: p, queue: schedule.NewQueue(p.tasks(r.Parallel)), report: &Report{}, answers: make(chan answer), alive: make(chan *Step, 1),
	}
	for _, s := range p.Steps {
		output := slices.Contains(p.Outputs, s)
		run := &stepRun{Status: &Status{Step: s, Output: output}, items: items{needed: output}}
		x.report.Steps, x.runs = append(x.report.Steps, run.Status), append(x.runs, run)
	}
	for _, s := range p.Steps {
		for _, i := range s.Needs {
			x.runs[i].items.needed = true
		}
	}
	for i, why := range r.leftOut(p) {
		if why != "" {
			x.skip(x.runs[i], why, true)
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
		tasks[i] = schedule.Task{After: slices.Concat(s.Waits, s.OrderAfter), Mean: t.Mean, Host: t.Host}
		slots.Hosts[t.Host] = t.Capacity
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
		x.begin(ctx, x.runs[i])
	}
	for _, run := range x.runs {
		for run.State == "" && run.items.more() && ctx.Err() == nil && x.acquireSlot(run) {
			x.start(ctx, run)
		}
	}
	return slices.ContainsFunc(x.runs, func(run *stepRun) bool { return run.items.inFlight > 0 })
}

// acquireSlot acquires a slot for another call of a step. The step already has the first one.
func (x *execution) acquireSlot(run *stepRun) bool {
	if run.items.inFlight == 0 {
		return true
	}
	if limit := run.Step.Parallel; run.Step.Writes || limit > 0 && run.items.inFlight >= limit {
		return false
	}
	return x.queue.AcquireExtra(run.Step.Index)
}

// begin starts a step once its dependencies have ended, or skips it.
func (x *execution) begin(ctx context.Context, run *stepRun) {
	s := run.Step
	if why, benign := x.report.skipReason(s); why != "" {
		x.skip(run, why, benign)
		return
	}
	if s.When != nil {
		switch holds, why, err := s.When.holds(x.outcome); {
		case err != nil:
			x.end(run, Failed, "when: "+err.Error())
			return
		case !holds:
			x.skip(run, "when: false"+why, true)
			return
		}
	}
	var err error
	var array *Value
	if r := s.ForEach; r != nil {
		array, err = r.resolve(x.outcome(r.Step))
	}
	if err == nil {
		err = run.items.open(s, array)
	}
	if err != nil {
		x.end(run, Failed, "for_each: "+err.Error())
		return
	}
	run.inputs = x.inputs(s)
	if !run.items.more() {
		x.finish(run)
		return
	}
	run.items.began = time.Now()
	x.start(ctx, run)
}

// outcome returns the result of a step that has ended, or the parameters. It returns nil and no error for
// a failed step with on_error "continue": references to it are null in arguments, and missing in conditions.
// The default of a step with for_each that failed as a whole, such as without an array, is its whole result.
func (x *execution) outcome(id string) (*Value, error) {
	if id == params && x.plan.Params != nil {
		return &Value{JSON: x.plan.Params}, nil
	}
	i := slices.IndexFunc(x.plan.Steps, func(s *Step) bool { return s.ID == id })
	switch st := x.report.Steps[i]; {
	case st.State == OK:
		return &st.Result.Value, nil
	case st.Benign:
	case st.defaulted():
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
func (x *execution) start(ctx context.Context, run *stepRun) {
	c := Call{Step: run.Step, Item: -1, Progress: func() {
		select {
		case x.alive <- run.Step:
		default:
		}
	}}
	value := run.items.values[run.items.next]
	if run.Step.ForEach != nil {
		c.Item = run.items.next
	}
	run.items.next++
	run.items.inFlight++
	output, inputs := run.Output, run.inputs
	go func() {
		a := x.perform(ctx, c, inputs, value)
		if a.Err == "" && output {
			a.tokens = x.countTokens(a.JSON) // here because it does not block the run
		}
		x.answers <- a
	}()
}

// countTokens counts the tokens of a result. One that is far too long to be returned is only
// estimated.
func (r *Runner) countTokens(text []byte) int {
	limit := excerpt.Limit{Count: r.Tokens}
	if len(text) > utf8.UTFMax*maxChars {
		limit.Count = nil
	}
	return limit.CountTokens(text)
}

// answered handles the outcome of a call.
func (x *execution) answered(ctx context.Context, a answer) {
	s, run, i := a.Step, x.runs[a.Step.Index], max(a.Item, 0)
	if run.items.inFlight--; run.items.inFlight > 0 {
		x.queue.ReleaseExtra(s.Index)
	}
	if a.calls > 0 {
		run.Calls += a.calls
		run.Bytes += a.Bytes
		run.Source = a.Source
		run.Took = max(run.Took, a.ended.Sub(run.items.began))
	}
	if a.Err != "" && ctx.Err() != nil {
		x.report.Ended = endReason(ctx)
	}
	if a.Err == "" {
		if err := x.storeResult(run, i, a.Result, a.tokens); err != nil {
			a.Err, run.items.stopped = err.Error(), true
		}
	}
	if a.Err != "" {
		x.failItem(run, i, a.Err)
	}
	if ctx.Err() != nil && run.items.more() {
		x.cut(ctx, run)
	} else if run.items.inFlight == 0 && !run.items.more() {
		x.finish(run)
	} else {
		x.tellRunning(run, time.Second)
	}
}

// tellRunning reports the progress of a running step, unless the last such report is more recent than the interval.
// Without any items since then the value increases by next to nothing: what counts is that a client with a
// timeout goes on waiting.
func (x *execution) tellRunning(run *stepRun, interval time.Duration) {
	if run.State != "" || time.Since(x.told.at) < interval {
		return
	}
	x.told.at = time.Now()
	what, done, of := run.Step.ID+": running", run.items.done(), len(run.items.values)
	if run.Step.ForEach != nil {
		what = fmt.Sprintf("%s: %d of %d items", run.Step.ID, done, of)
	}
	ended, last := float64(x.ended), x.told.value
	x.tell(max(ended+float64(done)/float64(of+1), last+(ended+1-last)/10_000), what)
}

// storeResult stores the result of an item if a step or the client needs it.
func (x *execution) storeResult(run *stepRun, i int, res Result, tokens int) error {
	if !run.items.needed {
		return nil
	}
	if !run.Output {
		res.Blocks = nil
	}
	if run.Step.ForEach != nil {
		res.Text = "" // an array of results has none
	}
	size := max(len(res.JSON), len(res.Text)) // usually JSON was parsed from the text
	for _, b := range res.Blocks {
		size += len(b)
	}
	if size > x.Bytes-x.held {
		return fmt.Errorf("answer of %d bytes: all results of a plan may have %d (max_result_bytes)", size, x.Bytes)
	}
	x.held += size
	run.items.results[i] = res
	if run.Output {
		run.Tokens += tokens
		if run.Step.ForEach != nil {
			run.Tokens++ // the comma
		}
	}
	return nil
}

// failItem applies the step's on_error to a failed item.
func (x *execution) failItem(run *stepRun, i int, why string) {
	var err error
	switch s := run.Step; {
	case s.ForEach == nil || s.Writes || s.OnError == Fail:
		run.items.stopped = true
	case s.OnError == Default:
		err = x.storeResult(run, i, Result{Value: Value{JSON: s.Default}}, len(s.Default)) // a token has at least one byte
	case s.OnError == Continue:
		err = x.storeResult(run, i, Result{Value: Value{JSON: []byte("null")}}, 1)
	}
	if err != nil {
		why, run.items.stopped = err.Error(), true
	}
	if run.items.failed++; run.items.failed == 1 || i < run.items.firstBad || err != nil {
		run.items.firstBad, run.items.why = i, why
	}
}

// finish ends a step once its calls have ended.
func (x *execution) finish(run *stepRun) {
	if run.fails() {
		x.end(run, Failed, run.reason())
		return
	}
	if run.items.needed {
		run.Result = run.result()
	}
	x.end(run, OK, run.reason())
}

// cut ends a step that is left when the plan ends.
func (x *execution) cut(ctx context.Context, run *stepRun) {
	x.report.Ended = endReason(ctx)
	if run.items.values == nil {
		x.end(run, Cancelled, x.report.Ended)
		return
	}
	if run.items.stopped = true; run.items.failed == 0 {
		run.items.why = "cut short: " + x.report.Ended
	}
	if run.items.inFlight == 0 {
		x.finish(run)
	}
}

// skip ends a step that does not run. benign means that nothing has failed.
func (x *execution) skip(run *stepRun, why string, benign bool) {
	run.Benign = benign
	x.end(run, Skipped, why)
}

// maxReason is the maximum length of Status.Reason in bytes.
const maxReason = 500

// end records the outcome of a step.
func (x *execution) end(run *stepRun, state State, reason string) {
	run.State, run.Reason = state, excerpt.Shorten(reason, maxReason)
	run.items.results, run.inputs = nil, nil
	run.chain = min(run.Calls, 1)
	for _, i := range run.Step.Waits {
		run.chain = max(run.chain, x.runs[i].chain+min(run.Calls, 1))
	}
	x.queue.Done(run.Step.Index)
	x.ended++
	what := run.Step.ID + ": " + string(state)
	if run.Calls > 0 {
		what += fmt.Sprintf(" (%d ms)", run.Took.Milliseconds())
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
	cause := context.Cause(ctx)
	if errors.Is(cause, context.Canceled) {
		return "cancelled"
	}
	return cause.Error()
}
