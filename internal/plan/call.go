package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"mcpschedd/internal/age"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schema"
)

// Call is one call of a step.
type Call struct {
	Step      *Step
	Item      int    // index of the for_each item; -1 without for_each
	Arguments []byte // a JSON object

	// Refused returns why the call may not be made now, or nil. It is called again just before the
	// request is sent, as the settings and the tool may have changed since the user confirmed the
	// plan. It is nil if calls are not refused.
	Refused func() error

	Progress func() // reports that the call has made progress; may be called on any goroutine, and does not block
}

// retryDelay is the wait before the first retry of a call; it doubles with each further one.
const retryDelay = 250 * time.Millisecond

// answer is the outcome of a call, including its retries.
type answer struct {
	Call
	Result
	tokens int       // of the result, if it is an output
	calls  int       // number of tries
	ended  time.Time // end of the last
}

// perform makes a call, and retries it while it fails, its step allows another try and the plan
// has not ended.
func (r *Runner) perform(ctx context.Context, c Call, in inputs, value []byte) answer {
	a := answer{Call: c}
	var err error
	if a.Arguments, err = r.arguments(ctx, c, in, value); err == nil && r.refused != nil {
		c.Arguments = a.Arguments
		a.Refused = func() error { return r.refused(c) }
		err = a.Refused()
	}
	if err != nil && ctx.Err() == nil {
		a.Err = err.Error()
		return a
	}
	for wait := retryDelay; ctx.Err() == nil; wait *= 2 {
		a.Result = r.tryOnce(ctx, a.Call)
		a.calls, a.ended = a.calls+1, time.Now()
		if a.Err == "" || a.calls > c.Step.Retry {
			return a
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	a.Err = cmp.Or(a.Err, "cut short: "+endReason(ctx))
	return a
}

// OutcomeUnknown begins the error of a call that may write and was sent.
const OutcomeUnknown = "outcome unknown: the call may have run; "

// tryOnce makes a call with the timeout of its step. An answer that arrives at the timeout is
// still used.
func (r *Runner) tryOnce(ctx context.Context, c Call) Result {
	within, limit := ctx, c.Step.Timeout
	if limit > 0 {
		var stop context.CancelFunc
		within, stop = context.WithTimeout(ctx, limit)
		defer stop()
	}
	res := r.Call(within, c)
	switch {
	case res.Err == "":
		if fault := jsonrpc.Fault(res.JSON); fault != "" {
			res.Err = "the result is " + fault
		}
	case within.Err() == nil:
	default:
		why := "no answer within " + age.Text(limit)
		if ctx.Err() != nil {
			why = "cut short: " + endReason(ctx)
		}
		if res.MayHaveRun && c.Step.Writes {
			why = OutcomeUnknown + why
		}
		res.Err = why
	}
	return res
}

// arguments returns the arguments of one call, with the values of the references in them.
func (r *Runner) arguments(ctx context.Context, c Call, in inputs, value []byte) ([]byte, error) {
	s := c.Step
	if s.constant != nil {
		return s.constant, nil
	}
	missing := "" // what short references did not find, for an error
	f := &filler{input: s.Tool.Input, limit: r.Bytes, value: func(ref *Ref, _ []string) (v *Value, err error) {
		known, ok := in[ref]
		switch {
		case ctx.Err() != nil: // the plan is ending
			return nil, ctx.Err()
		case ok:
			v, err = known()
		case ref.Step == index:
			v, err = ref.in(Value{JSON: strconv.AppendInt(nil, int64(c.Item), 10)})
		default:
			v, err = ref.in(Value{JSON: value})
		}
		if v != nil && v.missing != nil && len(missing) < maxReason {
			missing += "; " + v.missing.Error()
		}
		return v, err
	}}
	arguments, err := f.append(nil, s.arguments, nil)
	if err != nil {
		return nil, err
	}
	if !jsonrpc.Valid(arguments) {
		return nil, errors.New("not called: the arguments are nested too deep")
	}
	if kind := kindOf(arguments); kind != "object" {
		return nil, fmt.Errorf("not called: want an object as arguments, have %s%s", kind, missing)
	}
	if err := misfit(s.Tool.Name, s.Tool.Input, arguments); err != nil {
		return nil, fmt.Errorf("%w%s", err, missing) // a mistyped short reference is null, which a tool that writes might write
	}
	return arguments, nil
}

// misfit returns why a tool does not take arguments. Those that take too much effort to check are
// sent unchecked.
func misfit(tool string, input *schema.Schema, arguments []byte) error {
	var wrong []string
	for _, f := range input.Faults(arguments, nil) {
		wrong = append(wrong, f.Error())
	}
	if wrong == nil {
		return nil
	}
	return fmt.Errorf("not called: %s (input schema of %s)", strings.Join(wrong, "; "), tool)
}
