package plan

import (
	"context"
	"fmt"
	"strings"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// retryDelay is the wait before the first retry of a call; it doubles with each further one.
const retryDelay = 250 * time.Millisecond

// answer is the outcome of a call, including its retries.
type answer struct {
	Call
	Result
	tokens      int       // of the result, if it is an output
	calls       int       // number of tries
	began       time.Time // start of the first try
	ended       time.Time // end of the last try
	interrupted bool      // the plan ended before the call succeeded
}

// perform makes a call, and retries it while it fails, its step allows another try and the plan
// has not ended.
func (r *Runner) perform(ctx context.Context, c Call, resolve Resolver) answer {
	a := answer{Call: c}
	var err error
	a.Arguments, err = r.arguments(c.Step, func(ref *Ref) (Value, error) {
		if ctx.Err() != nil {
			return Value{}, ctx.Err() // the plan is ending
		}
		return resolve(ref)
	})
	if err != nil && ctx.Err() == nil {
		a.Err = err.Error()
		return a
	}
	for wait := retryDelay; ctx.Err() == nil; wait *= 2 {
		if a.calls == 0 {
			a.began = time.Now()
		}
		a.Result = r.tryOnce(ctx, a.Call)
		a.calls++
		a.ended = time.Now()
		if a.Err == "" || c.Step.Writes || a.calls > c.Step.Retry {
			a.interrupted = a.Err != "" && ctx.Err() != nil
			return a
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	if a.calls == 0 {
		a.Err = "cut short: " + endReason(ctx)
	}
	a.interrupted = true
	return a
}

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
	case res.Err == "" && !jsonrpc.Valid(res.JSON):
		res.Err, res.InDoubt = "the result is not valid JSON", true
	case res.Err == "" || within.Err() == nil:
	case ctx.Err() != nil:
		res.Err, res.InDoubt = "cut short: "+endReason(ctx), true
	default:
		res.Err, res.InDoubt = fmt.Sprintf("no answer within %s", limit), true
	}
	return res
}

// arguments returns the arguments of one call of a step. It may be called on any goroutine.
func (r *Runner) arguments(s *Step, resolve Resolver) ([]byte, error) {
	if s.Arguments == nil {
		return []byte("{}"), nil
	}
	arguments, err := s.Arguments.Resolve(resolve, s.Tool.Input, r.Limits.Bytes)
	if err != nil {
		return nil, err
	}
	if s.Arguments.Constant() == nil {
		// A mistyped short reference resolves to null, which a tool that writes might write.
		// Arguments that take too much effort to check are sent unchecked.
		var wrong []string
		for _, f := range s.Tool.Input.Faults(arguments, nil) {
			wrong = append(wrong, f.Error())
		}
		if wrong != nil {
			return nil, fmt.Errorf("not called: %s (input schema of %s)", strings.Join(wrong, "; "), s.Tool.Name)
		}
	}
	if !s.Writes && s.Tool.Writes != nil && s.Tool.Writes(arguments) {
		// The call was neither confirmed nor ordered among the writes.
		return nil, fmt.Errorf("with these arguments %s may change something, which was not known before", s.Tool.Name)
	}
	return arguments, nil
}

// note adds an answer to the status of the step.
func (g *stage) note(a answer) {
	st := g.status
	if st.Source == "" && st.Calls == 0 {
		st.Source = a.Source
	} else if st.Source != a.Source {
		st.Source = "" // the calls have different sources
	}
	st.Calls += a.calls
	st.Bytes += a.Bytes
	if a.calls == 0 {
		return
	}
	if g.first.IsZero() || a.began.Before(g.first) {
		g.first = a.began
	}
	if a.ended.After(g.last) {
		g.last = a.ended
	}
	st.Took = g.last.Sub(g.first)
}
