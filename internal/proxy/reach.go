package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// unwrap puts the request that a call of call_read_tool or call_tool names in its place.
func (x *request) unwrap() error {
	given, twice := x.msg.Index.Sole("arguments")
	if twice != nil {
		return fmt.Errorf("params.%s: stands beside, or in place of, params.arguments", twice)
	}
	outer := parsedParams(given)
	name, refused := routingMember(outer, "name")
	if refused != nil {
		return errors.New(strings.Replace(refused.Message, "params.", "arguments.", 1))
	}
	arguments, rival := outer.Sole("arguments")
	if text, quoted := jsonrpc.String(arguments); quoted && json.Valid([]byte(text)) {
		arguments = []byte(text) // as some models write it
	}
	switch {
	case rival != nil:
		return fmt.Errorf("arguments.%s: stands beside, or in place of, arguments.arguments", rival)
	case arguments == nil && outer.Len() > 1:
		return errors.New("arguments.arguments: missing; what the tool takes belongs there")
	case arguments == nil || string(arguments) == "null":
		arguments = noArguments
	case arguments[0] != '{':
		return errors.New("arguments.arguments: want an object")
	}
	params := jsonrpc.Set(x.msg.Params, "name", jsonrpc.AppendString(nil, name))
	x.replaceParams(jsonrpc.Set(params, "arguments", arguments))
	return nil
}

// replaceParams has the request say something else. A header that speaks of what it said
// before counts no more.
func (x *request) replaceParams(params []byte) {
	m := *x.msg
	m.Params, m.Index, m.Header = params, revision.NewParams(params), nil
	x.msg = &m
}

// routeTool routes a call of a tool, which may not be listed. by is the own tool that it was
// called with; "": none.
func (x *request) routeTool(c *upstreamCall, by string) {
	p := x.policy
	chosen := x.s.choose(p)
	if chosen == &allTools {
		x.bind(c)
		return
	}
	t := target{c.lease.Name(), c.tool}
	listed := !chosen.search || by == "" && chosen.pinned(p, t) != "" // then the client's own rules are about it
	asks := x.part != nil && !p.Selection.OnlyRead                    // its plan does
	switch {
	case listed, asks:
		chosen.session.Called(t.key())
		x.bind(c)
	case c.lease.lacks(c.tool): // one that its server does not show may be anything
		x.refuseFound(unknownTool(toolName(&x.msg.Index)))
	case c.certainlyReads(p):
		chosen.session.Called(t.key())
		c.gate = c.stillReads(c.gate)
		x.bind(c)
	case p.Selection.OnlyRead:
		x.refuseFound(fmt.Errorf("not called: %q does not certainly only read, and [server].search_reach allows nothing else", c.tool))
	case by == callReadTool:
		x.refuseFound(fmt.Errorf("not called: %q does not certainly only read with these arguments; use %s", c.tool, callTool))
	case x.msg.Repeated:
		x.refuseRepeat()
	case !c.params.Unambiguous():
		x.refuseFound(errors.New("not called: a member of its params is written twice, so what would be confirmed is not certain"))
	default:
		x.local = func() { serveConfirmed(x, c.lease) }
	}
}

// unknownTool is why a call is not made of a tool that there is not, or not any more.
func unknownTool(name string) error {
	return fmt.Errorf("unknown tool %q; %s finds those that there are now", name, findTool)
}

// refuseFound has a call that is not to be made be answered with why.
func (x *request) refuseFound(why error) {
	x.s.srv.recorder.recordRefused(x.s.observed, toolName(&x.msg.Index))
	x.local = func() { x.finish(failedResult(why)) }
}

// certainlyReads reports whether the call only reads, by the word of the operator or of a
// table that his words name. What a server says of itself does not count.
func (c *upstreamCall) certainlyReads(p *policy) bool {
	m := c.s.srv.catalog.model(p, c.lease, c.tool)
	raw, _ := arguments(c.params)
	return m.Vouched && reading(m, raw)
}

// stillReads is the gate of a call that was let through because it only reads, before the one it
// has: the rules may be others by the time it is sent. then nil: it has none.
func (c *upstreamCall) stillReads(then gate) gate {
	return func() (again <-chan struct{}, err error) {
		switch {
		case !c.certainlyReads(c.s.srv.policy.Load()):
			return nil, errors.New("not called: it does not certainly only read any more")
		case then == nil:
			return nil, nil
		}
		return then()
	}
}

// serveConfirmed makes a call once the user has agreed to it.
func serveConfirmed(x *request, l *leased) {
	s := x.s
	if x.resume(x.answer) {
		return
	}
	refuse := func(x *request, why error) {
		s.srv.recorder.recordRefused(s.observed, toolName(&x.msg.Index))
		x.finish(failedResult(why))
	}
	name := toolName(&x.msg.Index)
	if !x.canElicit() {
		refuse(x, fmt.Errorf("not called: %q may change something, so the user has to confirm it, and this client cannot be asked (it declares no elicitation by form). "+
			"The operator can have it listed ([server].pinned), or say that it only reads", name))
		return
	}
	raw, _ := arguments(&x.msg.Index)
	message, err := plan.ConfirmCall(name, raw)
	if err != nil {
		refuse(x, err)
		return
	}
	w := newWork(x, func(at *request, done func(outcome)) {
		if err != nil {
			refuse(at, fmt.Errorf("not called: %w", err))
			return
		}
		if at != x { // it has brought the user's answer, which is not its server's
			at.replaceParams(without(&at.msg.Index, "requestState", "inputResponses"))
		}
		at.work = nil
		at.callConfirmed(l, done)
	}, func(error) {})
	s.running.Go(func() {
		defer close(w.done)
		err = w.confirm(message)
	})
	w.serve(x, x.answer)
}

// callConfirmed makes the call that the user has agreed to, of the server that he was asked
// about.
func (x *request) callConfirmed(asked *leased, done func(outcome)) {
	x.policy = x.s.srv.policy.Load() // the user took time to agree
	t, l := x.s.named(x.policy, upstream.Tools, toolName(&x.msg.Index))
	if l == nil || l.member.key != asked.member.key {
		x.finish(failedResult(errors.New("not called: another server has taken the place of the one that the user was asked about")))
		return
	}
	c := newCall(x, l, rawName(t.name, toolName(&x.msg.Index)))
	c.tool = t.name
	x.s.choose(x.policy).session.Called(t.key())
	x.confirmed = true
	x.bind(c)
	done(waitFor(x.serveCall))
}

// without are params without some members.
func without(params *revision.Params, names ...string) []byte {
	out := []byte("{}")
	for m := range params.All() {
		if !slices.Contains(names, string(m.Name)) {
			out = jsonrpc.Set(out, string(m.Name), m.Value)
		}
	}
	return out
}
