package plan

import (
	"context"
	"fmt"
	"time"

	"mcpschedd/internal/jsonrpc"
)

const (
	firstWait = 250 * time.Millisecond // before a call is tried again; the next one is twice as long
	maxReason = 500                    // characters of why a step is not ok
)

// answer is what came of a call, tried as often as its step allows.
type answer struct {
	Call
	Result
	tokens int       // of the result; counted if it comes back
	calls  int       // made
	began  time.Time // the first of them
	ended  time.Time // the last of them
	cut    bool      // the plan ended first
	made   bool      // not of the call: its arguments are there, so what they were made of need not be
}

// call makes a call on a goroutine of its own, and its arguments too: to find them
// in large results takes long. It has its slot until it is answered, be it in between
// two tries.
func (x *execution) call(ctx context.Context, g *stage, item int, look Lookup, tell bool) {
	g.open++
	x.open++
	c := Call{Step: g.Step, Item: item}
	counted := g.output && (g.items == nil || g.items.tokens <= x.plan.Budget) // of what is too much anyway, the rest need not be
	x.calls.Go(func() {
		a := x.perform(ctx, c, look, tell)
		switch {
		case a.Err != "":
		case counted:
			a.tokens = x.count(a.JSON) // here, where nothing else waits for it
		default:
			a.tokens = len(a.JSON) / 4
		}
		x.answers <- a
	})
}

// perform makes the arguments of a call, tells that they are there, if that is wanted,
// and then makes the call.
func (x *execution) perform(ctx context.Context, c Call, look Lookup, tell bool) answer {
	var err error
	c.Arguments, err = x.arguments(c.Step, func(r *Ref) (Value, error) {
		if ctx.Err() != nil {
			return Value{}, ctx.Err() // it ends soon
		}
		return look(r)
	})
	if err != nil && ctx.Err() == nil {
		return answer{Call: c, Result: Result{Err: err.Error()}}
	}
	if tell {
		x.answers <- answer{Call: c, made: true}
	}
	return x.try(ctx, c)
}

// try makes a call, and again as long as it fails, its step allows it and the plan
// has not ended.
func (r *Runner) try(ctx context.Context, c Call) answer {
	a := answer{Call: c}
	for wait := firstWait; ; wait *= 2 {
		if ctx.Err() != nil {
			if a.calls == 0 {
				a.Err = "cut short: " + ending(ctx)
			}
			a.cut = true
			return a
		}
		if a.calls == 0 {
			a.began = time.Now()
		}
		a.Result = r.once(ctx, c)
		a.calls++
		a.ended = time.Now()
		if a.Err == "" || c.Step.Writes || a.calls > c.Step.Retry {
			a.cut = a.Err != "" && ctx.Err() != nil
			return a
		}
		pause(ctx, wait)
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
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
		res.Err, res.Doubt = "no result that is JSON", true
	case res.Err == "" || within.Err() == nil:
	case ctx.Err() != nil:
		res.Err, res.Doubt = "cut short: "+ending(ctx), true
	default:
		res.Err, res.Doubt = fmt.Sprintf("no answer within %s", limit), true
	}
	return res
}

// note adds an answer to what is known of its step.
func (g *stage) note(a answer) {
	st := g.status
	switch {
	case a.Source == "" || g.mixed:
	case st.Source == "":
		st.Source = a.Source
	case st.Source != a.Source:
		st.Source, g.mixed = "", true
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
