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
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schedule"
)

// State is the final state of a step.
type State string

// A step that has not started when its plan ends is cancelled.
const (
	OK        State = "ok"
	Failed    State = "failed"
	Skipped   State = "skipped"
	Cancelled State = "cancelled"
)

// Status is the outcome of a step.
type Status struct {
	Step    *Step
	State   State
	Reason  string        // why it is not ok or what was omitted; may be empty
	Took    time.Duration // from the start of its first call to its last answer
	Tokens  int           // tokens of its output; with ForEach, of each item plus one separator each
	Bytes   int           // bytes of its responses
	Calls   int           // number of calls
	Source  string        // source of its last result
	InDoubt bool          // its writes may or may not have been made
	Result  Result        // stored if a step or the client needs it; with ForEach a JSON array
	Benign  bool          // skipped without a failure: because of a condition, the budget or another benign skip
	Output  bool          // its result is an output
	chain   int           // calls of the longest chain of steps up to this one
}

// Report is the outcome of a plan.
type Report struct {
	Steps    []*Status // as in the plan
	Makespan time.Duration
	Ended    string // why the plan ended early; empty if it completed

	// Set by Host.Serve.
	Structured []byte   // the answer
	Blocks     [][]byte // see Answer
	Cancelled  bool     // by the client
}

// ChainLength returns the length of the longest chain of calls that needed each other: the
// minimum number of turns for a client without plans. Steps that only keep the order within a
// domain do not need each other, and all items of a step count as one call.
func (r *Report) ChainLength() (longest int) {
	for _, st := range r.Steps {
		longest = max(longest, st.chain)
	}
	return longest
}

// Inputs returns the ids of the steps whose results a step uses or that it waits for by
// depends_on.
func (p *Plan) Inputs(s *Step) (ids []string) {
	for _, i := range s.Waits {
		ids = append(ids, p.Steps[i].ID)
	}
	return ids
}

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
	inFlight int     // calls in flight
	held     int     // bytes of stored results; responses in flight and arguments are not counted
	ended    int     // steps that have ended
	told     float64 // last reported progress
	toldAt   time.Time
}

// stage is the progress of a step.
type stage struct {
	*Status
	needed   bool      // a step or the client needs the result
	items    [][]byte  // elements to call for, as written in the array; nil before it has begun
	length   int       // length of the array
	inputs   inputs    // of its arguments
	results  []Result  // of each item; without JSON if there is none
	next     int       // index of the next item to start
	inFlight int       // its calls in flight
	failed   int       // items
	firstBad int       // lowest index of a failed item
	why      string    // error of that item, or why the step was cut short
	stopped  bool      // no further items start; the step fails
	began    time.Time // start of its first call
}

// more reports whether items are left to start.
func (g *stage) more() bool { return !g.stopped && g.next < len(g.items) }

// done returns the number of items that have ended.
func (g *stage) done() int { return g.next - g.inFlight }

func newExecution(r *Runner, p *Plan) *execution {
	x := &execution{
		Runner: r, plan: p, queue: schedule.NewQueue(p.tasks(r.Limits.Parallel)), report: &Report{}, answers: make(chan answer),
	}
	for _, s := range p.Steps {
		output := slices.Contains(p.Outputs, s)
		g := &stage{Status: &Status{Step: s, Output: output}, needed: output}
		x.report.Steps, x.stages = append(x.report.Steps, g.Status), append(x.stages, g)
	}
	for _, s := range p.Steps {
		for _, i := range s.Needs {
			x.stages[i].needed = true
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
		for g.State == "" && g.more() && ctx.Err() == nil && x.acquireSlot(g) {
			x.start(ctx, g)
		}
	}
	return x.inFlight > 0
}

// acquireSlot acquires a slot for another call of a step. The step already has the first one.
func (x *execution) acquireSlot(g *stage) bool {
	if g.inFlight == 0 {
		return true
	}
	if limit := g.Step.Parallel; g.Step.Writes || limit > 0 && g.inFlight >= limit {
		return false
	}
	return x.queue.AcquireExtra(g.Step.Index)
}

// begin starts a step whose dependencies have ended, or skips it.
func (x *execution) begin(ctx context.Context, g *stage) {
	s := g.Step
	if why, benign := x.skipReason(s); why != "" {
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
	if err := x.openItems(g); err != nil {
		x.end(g, Failed, "for_each: "+err.Error())
		return
	}
	g.inputs = x.inputs(s)
	if !g.more() {
		x.finish(g)
		return
	}
	g.began = time.Now()
	x.start(ctx, g)
}

// openItems sets the items of a step.
func (x *execution) openItems(g *stage) error {
	g.items, g.length = [][]byte{nil}, 1
	if r := g.Step.ForEach; r != nil {
		v, err := r.resolve(x.outcome(r.Step))
		if err != nil {
			return err
		}
		if kindOf(v.JSON) != "array" {
			return fmt.Errorf("want an array, have %s", kindOf(v.JSON))
		}
		g.items = slices.Collect(jsonrpc.Elements(v.JSON))
		g.length = len(g.items)
		g.items = g.items[:min(g.length, g.Step.MaxItems)]
	}
	g.results = make([]Result, len(g.items))
	return nil
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
	c := Call{Step: g.Step, Item: -1, Needs: x.plan.Inputs(g.Step)}
	value := g.items[g.next]
	if g.Step.ForEach != nil {
		c.Item = g.next
	}
	g.next++
	g.inFlight++
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
	if g.inFlight--; g.inFlight > 0 {
		x.queue.ReleaseExtra(s.Index)
	}
	if a.calls > 0 {
		g.Calls += a.calls
		g.Bytes += a.Bytes
		g.Source = a.Source
		g.Took = max(g.Took, a.ended.Sub(g.began))
	}
	if a.Err != "" && ctx.Err() != nil {
		x.report.Ended = endReason(ctx)
	}
	if a.Err == "" {
		if err := x.keep(g, i, a.Result, a.tokens); err != nil {
			a.Err, a.InDoubt, g.stopped = err.Error(), true, true // it ran, but its result is lost
		}
	}
	if a.Err != "" {
		g.InDoubt = g.InDoubt || a.InDoubt && s.Writes
		x.failItem(g, i, a.Err)
	}
	if ctx.Err() != nil && g.more() {
		x.cut(ctx, g)
	} else if g.inFlight == 0 && !g.more() {
		x.finish(g)
	} else if time.Since(x.toldAt) >= time.Second {
		x.toldAt = time.Now()
		done, of := g.done(), len(g.items)
		x.tell(float64(x.ended)+float64(done)/float64(of+1), fmt.Sprintf("%s: %d of %d items", s.ID, done, of))
	}
}

// keep stores the result of an item if a step or the client needs it.
func (x *execution) keep(g *stage, i int, res Result, tokens int) error {
	if !g.needed {
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
	g.results[i] = res
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
		g.stopped = true
	case s.OnError == Default:
		err = x.keep(g, i, Result{JSON: s.Default}, len(s.Default))
	case s.OnError == Continue:
		err = x.keep(g, i, Result{JSON: []byte("null")}, 1)
	}
	if err != nil {
		why, g.stopped = err.Error(), true
	}
	if g.failed++; g.failed == 1 || i < g.firstBad || err != nil {
		g.firstBad, g.why = i, why
	}
}

// finish ends a step whose calls have ended. With on_error "skip" it succeeds unless all items
// failed.
func (x *execution) finish(g *stage) {
	if g.stopped || g.Step.OnError == Skip && g.failed > 0 && g.failed == g.done() {
		x.end(g, Failed, g.reason())
		return
	}
	switch {
	case !g.needed:
	case g.Step.ForEach == nil:
		g.Result = g.results[0]
	default:
		var parts [][]byte
		for _, res := range g.results {
			parts = append(parts, res.JSON)
			g.Result.Blocks = append(g.Result.Blocks, res.Blocks...)
		}
		g.Result.JSON = array(parts)
	}
	x.end(g, OK, g.reason())
}

// reason describes the failed items and those that were not called.
func (g *stage) reason() string {
	why := g.why
	switch {
	case g.Step.ForEach == nil:
		return why
	case g.failed > 0:
		why = fmt.Sprintf("; %d failed; item %d: %s", g.failed, g.firstBad, why)
	case why != "":
		why = "; " + why
	case g.next == g.length:
		return ""
	}
	return fmt.Sprintf("%d of %d items called", g.next, g.length) + why
}

// cut ends a step that is left when the plan ends.
func (x *execution) cut(ctx context.Context, g *stage) {
	x.report.Ended = endReason(ctx)
	if g.items == nil {
		x.end(g, Cancelled, x.report.Ended)
		return
	}
	if g.stopped = true; g.failed == 0 {
		g.why = "cut short: " + x.report.Ended
	}
	if g.inFlight == 0 {
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
	g.results, g.inputs = nil, nil
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
	if x.Progress != nil && done > x.told {
		x.told = done
		x.Progress(done, len(x.plan.Steps), what)
	}
}

// skipReason returns the reason why a step must be skipped because of its dependencies, or "".
// benign means that none of them failed.
func (x *execution) skipReason(s *Step) (why string, benign bool) {
	for _, i := range s.Waits {
		st, refers := x.report.Steps[i], slices.Contains(s.Needs, i)
		d := st.Step
		switch {
		case st.State == OK:
		case st.Benign: // continue, as another dependency may have failed
			if refers && slices.ContainsFunc(s.refs, func(r *Ref) bool { return r.Step == d.ID && r.Default == nil }) {
				why, benign = fmt.Sprintf("Skipped because dependency '%s' was skipped", d.ID), true
			}
		case d.OnError == Default || d.OnError == Continue || d.OnError == Skip && !refers:
		case st.State == Skipped:
			return fmt.Sprintf("Skipped because dependency '%s' was skipped", d.ID), false
		default:
			return fmt.Sprintf("Skipped because dependency '%s' failed", d.ID), false
		}
	}
	if why == "" && s.Writes {
		return x.failedWrite(s), false
	}
	return why, benign
}

// failedWrite returns the reason why a writing step must not run after a failed write: one
// earlier in the plan, or one that it follows.
func (x *execution) failedWrite(s *Step) string {
	for i, st := range x.report.Steps {
		switch {
		case st.State != Failed || !st.Step.stopsWrites() || i > s.Index && !s.follows(i):
		case st.InDoubt:
			return fmt.Sprintf("Skipped because '%s' may have changed something", st.Step.ID)
		default:
			return fmt.Sprintf("Skipped because '%s' failed", st.Step.ID)
		}
	}
	return ""
}

// stopsWrites reports whether a failure of the step prevents later writes: it may leave a change
// half done.
func (s *Step) stopsWrites() bool { return s.Writes && s.OnError != Continue }

// follows reports whether a step starts only after another one has ended.
func (s *Step) follows(i int) bool { return slices.Contains(s.Waits, i) || slices.Contains(s.Order, i) }

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
