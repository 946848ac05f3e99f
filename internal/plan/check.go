package plan

import (
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// readTool looks up the tool of a step.
func (src *source) readTool(d *draft, v node) {
	name, isText := jsonrpc.String(v.raw)
	switch {
	case v.raw == nil:
		d.place.errorf(`missing member "tool"`)
		return
	case !isText:
		v.errorf("want a string, have %s", kindOf(v.raw))
		return
	case isOwnTool(name):
		v.errorf("a plan cannot contain a plan: %s is not a tool of a server", quoted(name))
		return
	}
	o := &src.options
	if d.called = name; o.Find != nil {
		d.step.Tool = o.Find(name)
	}
	if d.step.Tool == nil {
		if src.tools == nil && o.Names != nil {
			src.tools = newNames(o.Names())
		}
		v.errorf("unknown tool %s%s", quoted(name), src.suggest(name, src.tools))
	}
}

// isOwnTool reports whether a tool belongs to the proxy. Some clients prefix it with their name
// for the proxy.
func isOwnTool(tool string) bool {
	last := tool
	if i := strings.LastIndex(tool, "__"); i >= 0 {
		last = tool[i+len("__"):]
	}
	return strings.HasPrefix(last, "mcpschedd_") || last == "execute_tool_plan" ||
		strings.HasPrefix(tool, "plan__") || strings.Contains(tool, "__plan__")
}

// check validates the constants of each step against its tool's schema, and its references
// against the output schemas.
func (src *source) check() {
	for _, d := range src.drafts {
		if d.step.Tool == nil {
			continue
		}
		if d.step.Writes = d.mayWrite(); d.step.Writes {
			src.refuseWrite(d)
		}
		if d.step.Arguments != nil {
			for _, one := range d.step.Arguments.CheckConstants(d.step.Tool.Input) {
				d.place.at(one.Pointer).errorf("%s (input schema of %s)", one.Message, quoted(d.called))
			}
		}
		for _, s := range d.scopes {
			src.checkTarget(d, s)
		}
	}
}

// mayWrite reports whether a call of the step may have side effects. If not all arguments are
// known, the tool decides without them.
func (d *draft) mayWrite() bool {
	if d.step.Tool.Writes == nil {
		return true // assume that it writes
	}
	var known []byte
	if d.step.Arguments != nil {
		known = d.step.Arguments.Constant()
	}
	return d.step.Tool.Writes(known)
}

// refuseWrite reports the members that a writing step cannot have.
func (src *source) refuseWrite(d *draft) {
	if d.step.Retry > 0 {
		d.place.below("retry").errorf("%s may change something: such a call is not retried", quoted(d.called))
	}
	if d.step.Optional {
		d.place.below("optional").errorf("%s may change something: only reads are optional", quoted(d.called))
	}
	if src.options.ReadOnly {
		why := "may change something"
		if d.step.Tool.Unclassified {
			why = "is unclassified, so it may change something"
		}
		d.place.below("tool").errorf("%s %s: plans may only read ([plan].mutations)", quoted(d.called), why)
	}
}

// checkTarget reports a reference to a value that the result of a step can never have. A
// reference with a default may refer to a missing value.
func (src *source) checkTarget(d *draft, s scope) {
	to := src.byID[s.ref.Step]
	if to == nil || to == d || to.step.Tool == nil || s.ref.Default != nil || src.loops && (s.ref.Step == item || s.ref.Step == index) {
		return
	}
	why := src.whyMissing(to, s.ref, s.loop)
	if why == "" || to.step.OnError == Default && jsonrpc.At(to.step.Default, s.ref.Pointer) != nil {
		return
	}
	d.place.at(s.ref.At).errorf("the result of %s %s", quoted(to.step.ID), why)
}
