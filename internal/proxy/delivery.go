package proxy

import (
	"context"
	"time"

	"mcpschedd/internal/deliver"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
)

// decisionTime is how long an answer waits to be told what is on its way, where it
// is to say so. What it names must really have begun.
const decisionTime = 50 * time.Millisecond

// announced reports whether the answer to this request may say what is run early
// because of it: then it cannot be written by whoever brings it.
func (x *exchange) announced() bool {
	e := &x.s.srv.policy.Load().Enrichment
	return x.job.id != 0 && !x.stateless && x.s.delivered != nil && e.Mode == "on" &&
		(e.Delivery == "hint" || e.Delivery == "inline") && !x.structured()
}

// structured reports whether the tool promises a schema that its answers have:
// nothing is ever added to one of those.
func (x *exchange) structured() bool {
	offer := x.lease.Offer()
	if offer == nil {
		return true
	}
	item, ok := offer.Find(upstream.Tools, x.tool)
	return !ok || jsonrpc.Get(item.Raw, "outputSchema") != nil
}

// announcement is what was begun because of an answer.
type announcement struct {
	begun  []started
	intent []string // what the model is after
}

// accompanied is the answer with what delivery adds to it: a line that names the
// calls that have been begun, or their answers.
func (x *exchange) accompanied(answer upstream.Answer) upstream.Answer {
	e := x.s.srv.policy.Load().Enrichment
	ctx, cancel := context.WithTimeout(x.ctx, max(decisionTime, e.Wait)) // one deadline, whatever is waited for
	defer cancel()
	reply := make(chan announcement, 1)
	if !x.sightEnd(answer, nil, reply) {
		return answer
	}
	var a announcement
	select {
	case a = <-reply:
	case <-ctx.Done():
		return answer
	}
	if e.Delivery == "hint" {
		answer.Result = hint(answer.Result, a.begun)
	} else {
		answer.Result = x.inlined(ctx, answer.Result, a, &e)
	}
	return answer
}

func hint(result []byte, begun []started) []byte {
	var names []string
	for _, b := range begun {
		names = append(names, deliver.Name(b.Tool, []byte(b.Arguments)))
	}
	if len(names) == 0 {
		return result
	}
	return deliver.Hint(result, names)
}

// inlined adds the answers of the guesses that are near certain, as far as they
// come in time.
func (x *exchange) inlined(ctx context.Context, result []byte, a announcement, e *Enrichment) []byte {
	var add []deliver.Addition
	var of []*job
	for i := range a.begun {
		b := &a.begun[i]
		if b.P < e.InlineFrom {
			continue
		}
		select {
		case <-b.ended:
		case <-ctx.Done(): // what is there is there
		}
		if body, ok := x.s.srv.store.Peek(b.j.query); ok {
			add = append(add, deliver.Addition{Tool: b.Tool, Arguments: b.Arguments, Result: body, Model: b.Model})
			of = append(of, b.j)
		}
	}
	if len(add) == 0 {
		return result
	}
	out, taken := deliver.Inline(result, add, e.Budget, a.intent)
	for _, i := range taken {
		x.s.srv.store.Show(of[i].query)
	}
	x.s.srv.foresight.tally.inline(len(taken))
	return out
}
