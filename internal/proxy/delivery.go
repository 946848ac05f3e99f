package proxy

import (
	"context"
	"time"

	"mcpschedd/internal/dedup"
	"mcpschedd/internal/deliver"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
)

// decisionTime is how long an answer waits to be told what is on its way, where it
// is to say so. What it names must really have begun.
const decisionTime = 50 * time.Millisecond

// announces reports whether the answer to this request may say what is run early
// because of it: then the goroutine that brings it cannot write it, for it would wait.
func (x *request) announces(p *policy) bool {
	e := &p.Enrichment
	return !x.stateless && x.delivered() != nil && e.Mode == "on" &&
		(e.Delivery == "hint" || e.Delivery == "inline") && !x.lease.structured(x.tool)
}

// structured reports whether a tool promises a schema that its answers have:
// nothing is ever added to one of those, nor taken from it.
func (l *leased) structured(tool string) bool {
	offer := l.Offer()
	if offer == nil {
		return true
	}
	item, ok := offer.Find(upstream.Tools, tool)
	return !ok || jsonrpc.Get(item.Raw, "outputSchema") != nil
}

// called is the name by which the client calls a tool of the same upstream.
func (x *request) called(tool string) string {
	return x.s.identity.view.nameOf(x.s.srv.policy.Load(), upstream.Tools, target{x.lease.Name(), tool})
}

// announcement is what was begun because of an answer.
type announcement struct {
	begun  []started
	intent []string // what the model is after
}

// accompanied is the answer with what delivery adds to it: a line that names the
// calls that have been begun, or their answers.
func (x *request) accompanied(answer upstream.Answer) upstream.Answer {
	e := x.s.srv.policy.Load().Enrichment
	ctx, cancel := context.WithTimeout(x.ctx, decisionTime)
	defer cancel()
	reply := make(chan announcement, 1)
	r := x.resultNow(answer, nil)
	if !x.prefetcherLooks() || !x.observeForPrefetch(&r, reply) {
		return answer
	}
	var a announcement
	select {
	case a = <-reply:
	case <-ctx.Done():
		return answer
	}
	if e.Delivery == "hint" {
		answer.Result = x.hint(answer.Result, a.begun)
	} else {
		answer.Result = x.inlined(answer.Result, a, &e)
	}
	return answer
}

func (x *request) hint(result []byte, begun []started) []byte {
	var names []string
	for _, b := range begun {
		if tool := x.called(b.Tool); tool != "" && !b.query.Use.Trial { // what is tried is not served
			names = append(names, deliver.Name(tool, []byte(b.Arguments)))
		}
	}
	if len(names) == 0 {
		return result
	}
	return deliver.Hint(result, names)
}

// inlined adds the answers of the prefetches that are near certain, as far as they
// come in time.
func (x *request) inlined(result []byte, a announcement, e *Enrichment) []byte {
	ctx, cancel := context.WithTimeout(x.ctx, e.Wait) // one deadline, whatever is waited for
	defer cancel()
	var add []deliver.Addition
	var of []dedup.Query
	for i := range a.begun {
		b := &a.begun[i]
		tool := x.called(b.Tool)
		if u := &b.query.Use; b.P < e.InlineFrom || tool == "" || u.Trial || u.File != "" || x.lease.structured(b.Tool) {
			continue
		}
		select {
		case <-b.ended:
		case <-ctx.Done(): // what is there is there
		}
		if body, ok := x.s.srv.store.Peek(b.query); ok {
			add = append(add, deliver.Addition{Tool: tool, Arguments: b.Arguments, Result: body, Model: b.Model})
			of = append(of, b.query)
		}
	}
	if len(add) == 0 {
		return result
	}
	out, taken := deliver.Inline(result, add, e.Budget, a.intent)
	for _, i := range taken {
		x.s.srv.store.Show(of[i])
	}
	x.result.inlined = len(taken)
	return out
}
