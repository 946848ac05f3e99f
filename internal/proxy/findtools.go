package proxy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/nearest"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// Tools that are not listed are found by find_tools and called through two wrapper tools.
// route.go replaces a call of a wrapper with the call that its arguments describe, which then
// takes the path of any call under the tool's own name.
//
//	call_read_tool  calls that are certainly read-only, according to the operator or to a
//	                provider table that the operator's configuration selects
//	call_tool       any call; the user first confirms one that may write
//
// Clients grant permissions by tool name. There are two wrappers, and writes are confirmed, so
// that a user's permission to always call a wrapper does not cover every tool behind it.
const findTool = "find_tools"

// serveFind serves a call of find_tools.
func serveFind(x *request, arguments []byte) outcome {
	x.s.awaitOffers(x.ctx)
	v := x.s.view()
	found, err := v.FindTools(arguments)
	if err != nil {
		return outcome{err: err}
	}
	return ownOutcome(textResult(string(found)))
}

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
		arguments = bytes.TrimSpace([]byte(text)) // some models quote the object
		jsonrpc.Flatten(arguments)
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

// routeTool routes a call of a tool that may not be listed, or returns why it is refused. wrapper is the
// name of the wrapper tool that it was called with, or "".
func (x *request) routeTool(c *upstreamCall, wrapper string) error {
	p := x.view.policy
	t := catalog.Target{Upstream: c.lease.Name(), Name: c.tool}
	listed := wrapper == "" && x.view.Listed(t)       // the client's own permissions apply
	planned := x.step != nil && !p.Selection.OnlyRead // the plan's confirmation applies
	switch {
	case listed, planned:
		x.view.Called(t)
		x.bind(c)
	case !c.lease.Lacks(c.tool) && c.certainlyReads(p): // a tool that its server does not list may do anything
		x.view.Called(t)
		c.gate = c.stillReads(c.gate)
		x.bind(c)
	case x.msg.Replayed: // the user may have confirmed it
		return errOutcomeUnknown
	case c.lease.Lacks(c.tool):
		return x.view.unknownTool(x.msg.Index.Text("name"))
	case p.Selection.OnlyRead:
		return fmt.Errorf("not called: %q is not certainly read-only, and [server].search_reach allows only read-only calls", x.msg.Index.Text("name"))
	case wrapper == catalog.CallReadTool:
		return fmt.Errorf("not called: %q is not certainly read-only; use %s", x.msg.Index.Text("name"), catalog.CallTool)
	case !c.params.Unambiguous():
		return errors.New("not called: its params repeat a member, so the user cannot confirm them")
	default:
		x.handler = func(x *request) outcome { return serveConfirmed(x, c.lease, t) }
	}
	return nil
}

// unknownTool returns the error for a call of a tool that no server has.
func (v *view) unknownTool(name string) error {
	if v.ownTool(name) != nil {
		return fmt.Errorf("%q is a tool of the list: call it by itself", name)
	}
	question := nearest.Question(name, v.ToolNames())
	return fmt.Errorf("unknown tool %q%s", name, cmp.Or(question, "; use "+findTool+" to search for tools"))
}

// certainlyReads reports whether the call is read-only according to the operator or to a
// provider table that the operator's configuration selects. The server's annotations do not
// count.
func (c *upstreamCall) certainlyReads(p *policy) bool {
	m := c.s.srv.catalog.Tool(p.Policy, c.lease, c.tool).Model
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
func serveConfirmed(x *request, l *catalog.Lease, t catalog.Target) outcome {
	s := x.s
	name := x.msg.Index.Text("name")
	refused := func(cause error) outcome {
		recordRefusal(s, x.msg)
		return outcome{err: cause}
	}
	if !x.client.ElicitsByForm() {
		return refused(fmt.Errorf("not called: %q may change something, so the user has to confirm it, and this client cannot be asked (it declares no elicitation by form). "+
			"The operator can pin it ([server].pinned) or, if it only reads, set side_effect_class = \"read_only\" in [tools.%q]; trust = true does not suffice", name, t.Key()))
	}
	raw, _ := arguments(&x.msg.Index)
	input, _ := x.view.Tool(l, t.Name).Schema() // if it is not supported, arguments are not checked
	message, err := plan.ConfirmCall(name, input, raw)
	if err != nil {
		return refused(err)
	}
	if err = confirm(x, message); err == nil {
		err = bindConfirmed(x, l)
	}
	if err != nil {
		return refused(fmt.Errorf("not called: %w", err))
	}
	return waitFor(x.makeCall)
}

// bindConfirmed binds the call that the user has confirmed. It refuses if the tool's name now
// belongs to another server than the confirmed one.
func bindConfirmed(x *request, confirmed *catalog.Lease) error {
	x.view = x.s.view() // the policy may have changed before the user answered
	name := x.msg.Index.Text("name")
	t, l := x.view.Resolve(upstream.Tools, name)
	if l == nil || l.Member.Key != confirmed.Member.Key {
		return errors.New("the server that the user confirmed has been replaced")
	}
	c := newCall(x, l, rawName(t.Name, name))
	c.tool = t.Name
	x.view.Called(t)
	x.bind(c)
	return nil
}
