package plan

import (
	"context"
	"fmt"
	"strings"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// firstWait is how long it takes before a call is tried again; the next time it is twice
// as long.
const firstWait = 250 * time.Millisecond

// answer is what came of a call, tried as often as its step allows.
type answer struct {
	Call
	Result
	tokens int       // of the result, if it comes back
	calls  int       // made
	began  time.Time // the first of them
	ended  time.Time // the last of them
	cut    bool      // the plan ended first
}

// perform makes a call, and again as long as it fails, its step allows it and the plan
// has not ended.
func (r *Runner) perform(ctx context.Context, c Call, resolve Resolver) answer {
	a := answer{Call: c}
	var err error
	a.Arguments, err = r.arguments(c.Step, func(ref *Ref) (Value, error) {
		if ctx.Err() != nil {
			return Value{}, ctx.Err() // it ends soon
		}
		return resolve(ref)
	})
	if err != nil && ctx.Err() == nil {
		a.Err = err.Error()
		return a
	}
	for wait := firstWait; ctx.Err() == nil; wait *= 2 {
		if a.calls == 0 {
			a.began = time.Now()
		}
		a.Result = r.once(ctx, a.Call)
		a.calls++
		a.ended = time.Now()
		if a.Err == "" || c.Step.Writes || a.calls > c.Step.Retry {
			a.cut = a.Err != "" && ctx.Err() != nil
			return a
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	if a.calls == 0 {
		a.Err = "cut short: " + ending(ctx)
	}
	a.cut = true
	return a
}

// once makes a call within its time. An answer that comes at the last moment
// counts.
func (r *Runner) once(ctx context.Context, c Call) Result {
	within, limit := ctx, c.Step.Timeout
	if limit > 0 {
		var stop context.CancelFunc
		within, stop = context.WithTimeout(ctx, limit)
		defer stop()
	}
	res := r.Call(within, c)
	switch {
	case res.Err == "" && !jsonrpc.Valid(res.JSON):
		res.Err, res.InDoubt = "no result that is JSON", true
	case res.Err == "" || within.Err() == nil:
	case ctx.Err() != nil:
		res.Err, res.InDoubt = "cut short: "+ending(ctx), true
	default:
		res.Err, res.InDoubt = fmt.Sprintf("no answer within %s", limit), true
	}
	return res
}

// arguments are those of one call of a step. It may be called on any goroutine.
func (r *Runner) arguments(s *Step, resolve Resolver) ([]byte, error) {
	if s.Arguments == nil {
		return []byte("{}"), nil
	}
	arguments, err := s.Arguments.Resolve(resolve, s.Tool.Input, r.Limits.Bytes)
	if err != nil {
		return nil, err
	}
	if s.Arguments.Constant() == nil {
		// A slip in a reference is null, and a tool that writes would write that. What is
		// too much to be checked is sent.
		var wrong []string
		for _, f := range s.Tool.Input.Faults(arguments, nil) {
			wrong = append(wrong, f.Error())
		}
		if wrong != nil {
			return nil, fmt.Errorf("not called: %s (input schema of %s)", strings.Join(wrong, "; "), s.Tool.Name)
		}
	}
	if !s.Writes && s.Tool.Writes != nil && s.Tool.Writes(arguments) {
		// It was not confirmed, and it has no place in the order of the writes.
		return nil, fmt.Errorf("with these arguments %s may change something, which was not known before", s.Tool.Name)
	}
	return arguments, nil
}

// note adds an answer to what is known of its step.
func (g *stage) note(a answer) {
	st := g.status
	if st.Source == "" && st.Calls == 0 {
		st.Source = a.Source
	} else if st.Source != a.Source {
		st.Source = "" // they have none in common
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
