package plan

import (
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// readTool finds what a step calls.
func (src *source) readTool(d *draft, v node) {
	name, isText := jsonrpc.String(v.raw)
	switch {
	case v.raw == nil:
		d.place.say(`missing member "tool"`)
		return
	case !isText:
		v.say("want a string, have %s", kindOf(v.raw))
		return
	case own(name):
		v.say("a plan cannot hold a plan: %s is no tool of a server", quoted(name))
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
		v.say("unknown tool %s%s", quoted(name), src.meant(name, src.tools))
	}
}

// own reports whether a tool is one of the proxy's, which some clients put their
// name for the proxy in front of.
func own(tool string) bool {
	last := tool
	if i := strings.LastIndex(tool, "__"); i >= 0 {
		last = tool[i+len("__"):]
	}
	return strings.HasPrefix(last, "mcpschedd_") || last == "execute_tool_plan" ||
		strings.HasPrefix(tool, "plan__") || strings.Contains(tool, "__plan__")
}

// check holds each step against its tool, and its references against what they
// lead to.
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
				d.place.at(one.Pointer).say("%s (input schema of %s)", one.Message, quoted(d.called))
			}
		}
		for _, s := range d.scopes {
			src.checkTarget(d, s)
		}
	}
}

// mayWrite reports whether a call of the step may change something. Arguments that
// are not all known yet are judged by the tool as such.
func (d *draft) mayWrite() bool {
	if d.step.Tool.Writes == nil {
		return true // nothing says that it does not
	}
	var known []byte
	if d.step.Arguments != nil {
		known = d.step.Arguments.Constant()
	}
	return d.step.Tool.Writes(known)
}

// refuseWrite names what a step that may change something cannot have.
func (src *source) refuseWrite(d *draft) {
	if d.step.Retry > 0 {
		d.place.below("retry").say("%s may change something: such a call is not made again", quoted(d.called))
	}
	if d.step.Optional {
		d.place.below("optional").say("%s may change something: only reads are optional", quoted(d.called))
	}
	if src.options.ReadOnly {
		why := "may change something"
		if d.step.Tool.Unclassified {
			why = "is unclassified, so it may change something"
		}
		d.place.below("tool").say("%s %s: plans only read here ([plan].mutations)", quoted(d.called), why)
	}
}

// checkTarget refuses a reference to what can never be in the result of a step.
// One with a default says itself that it may be missing.
func (src *source) checkTarget(d *draft, s scope) {
	to := src.byID[s.ref.Step]
	if to == nil || to == d || to.step.Tool == nil || s.ref.Default != nil || src.loops && (s.ref.Step == item || s.ref.Step == index) {
		return
	}
	why := src.lacks(to, s.ref, s.loop)
	if why == "" || to.step.OnError == Default && jsonrpc.At(to.step.Default, s.ref.Pointer) != nil {
		return
	}
	d.place.at(s.ref.At).say("the result of %s %s", quoted(to.step.ID), why)
}
