package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// unwrap replaces a call of call_read_tool or call_tool with the call that its arguments
// describe.
func (x *request) unwrap() error {
	raw, rival := x.msg.Index.Sole("arguments")
	if rival != nil {
		return fmt.Errorf("params.%s: ambiguous with params.arguments", rival)
	}
	outer := parsedParams(raw)
	name, refused := routingMember(outer, "name")
	if refused != nil {
		return errors.New(strings.Replace(refused.Message, "params.", "arguments.", 1))
	}
	arguments, rival := outer.Sole("arguments")
	if text, quoted := jsonrpc.String(arguments); quoted && json.Valid([]byte(text)) {
		arguments = []byte(text) // some models quote the object
	}
	switch {
	case rival != nil:
		return fmt.Errorf("arguments.%s: ambiguous with arguments.arguments", rival)
	case arguments == nil && outer.Len() > 1:
		return errors.New("arguments.arguments: missing; want the tool's arguments there")
	case arguments == nil || string(arguments) == "null":
		arguments = noArguments
	case arguments[0] != '{':
		return errors.New("arguments.arguments: want an object")
	}
	m := *x.msg
	m.Params = jsonrpc.Set(jsonrpc.Set(m.Params, "name", jsonrpc.AppendString(nil, name)), "arguments", arguments)
	m.Index, m.Header = revision.NewParams(m.Params), nil // the header may describe the wrapper's params
	x.msg = &m
	return nil
}

// routeTool routes a call of a tool that may not be listed. wrapper is the name of the wrapper
// tool that it was called with, or "".
func (x *request) routeTool(c *upstreamCall, wrapper string) {
	p := x.policy
	chosen := x.s.choose(p)
	if chosen == &allTools {
		x.bind(c)
		return
	}
	t := target{c.lease.Name(), c.tool}
	listed := !chosen.search || wrapper == "" && chosen.pinned(p, t) != "" // the client's own permissions apply
	planned := x.step != nil && !p.Selection.OnlyRead                      // the plan's confirmation applies
	switch {
	case listed, planned:
		chosen.session.Called(t.key())
		x.bind(c)
	case c.lease.lacks(c.tool): // an unlisted tool of a server may do anything
		x.refuseTool(unknownTool(toolName(&x.msg.Index)))
	case c.certainlyReads(p):
		chosen.session.Called(t.key())
		c.gate = c.stillReads(c.gate)
		x.bind(c)
	case p.Selection.OnlyRead:
		x.refuseTool(fmt.Errorf("not called: %q is not certainly read-only, and [server].search_reach allows only read-only calls", c.tool))
	case wrapper == callReadTool:
		x.refuseTool(fmt.Errorf("not called: %q is not certainly read-only with these arguments; use %s", c.tool, callTool))
	case x.msg.Repeated:
		x.refuseRepeat()
	case !c.params.Unambiguous():
		x.refuseTool(errors.New("not called: its params repeat a member, so the user cannot confirm them"))
	default:
		x.handler = func(x *request) outcome { return serveConfirmed(x, c.lease) }
	}
}

// unknownTool returns the error for a call of a tool that does not exist.
func unknownTool(name string) error {
	return fmt.Errorf("unknown tool %q; use %s to search for tools", name, findTool)
}

// refuseTool makes the response an error result instead of calling the tool.
func (x *request) refuseTool(cause error) {
	recordRefusal(x.s, x.msg)
	x.handler = func(*request) outcome { return failedOutcome(cause) }
}

// certainlyReads reports whether the call is read-only according to the operator or to a
// provider table that the operator's configuration selects. The server's annotations do not
// count.
func (c *upstreamCall) certainlyReads(p *policy) bool {
	m := c.s.srv.catalog.model(p, c.lease, c.tool)
	raw, _ := arguments(c.params)
	return m.Vouched && reading(m, raw)
}

// stillReads returns a gate that checks once more, before the call is sent, that the call is
// read-only: the policy may have changed. It then asks next, the call's own gate, unless nil.
func (c *upstreamCall) stillReads(next gate) gate {
	return func() error {
		switch {
		case !c.certainlyReads(c.s.srv.policy.Load()):
			return errors.New("not called: it is no longer certainly read-only")
		case next == nil:
			return nil
		}
		return next()
	}
}

// serveConfirmed makes a call after the user has confirmed it.
func serveConfirmed(x *request, l *sessionLease) outcome {
	s := x.s
	name := toolName(&x.msg.Index)
	refused := func(cause error) outcome {
		recordRefusal(s, x.msg)
		return failedOutcome(cause)
	}
	if !x.canElicit() {
		return refused(fmt.Errorf("not called: %q may change something, so the user has to confirm it, and this client cannot be asked (it declares no elicitation by form). "+
			"The operator can pin it ([server].pinned) or configure it as read-only", name))
	}
	raw, _ := arguments(&x.msg.Index)
	message, err := plan.ConfirmCall(name, raw)
	if err != nil {
		return refused(err)
	}
	w := newWork(x)
	s.running.Go(func() {
		err := w.confirm(message)
		if err == nil {
			err = w.bindConfirmed(l)
		}
		if err != nil {
			w.end(refused(fmt.Errorf("not called: %w", err)))
			return
		}
		w.startCall(x.upstreamRequest())
	})
	return w.serve(x)
}

// bindConfirmed assigns the call that the user has confirmed to the work's requests. It refuses
// if the tool's name now belongs to another server than the confirmed one.
func (w *work) bindConfirmed(confirmed *sessionLease) error {
	x := w.first
	x.policy = x.s.srv.policy.Load() // may have changed before the user answered
	name := toolName(&x.msg.Index)
	t, l := x.s.resolveName(x.policy, upstream.Tools, name)
	if l == nil || l.member.key != confirmed.member.key {
		return errors.New("the server that the user confirmed has been replaced")
	}
	c := newCall(x, l, rawName(t.name, name))
	c.tool = t.name
	x.s.choose(x.policy).session.Called(t.key())
	x.bind(c)
	if current := w.currentRequest(); current != nil {
		x.s.requests.bind(current, c)
	}
	return nil
}
