package plan

import (
	"slices"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// What a reference may lead to besides steps.
const (
	params = "params" // of a named plan
	item   = "item"   // the one of for_each that a call is for
	index  = "index"  // its place, from 0 on
)

// find is the step that is mentioned; nil, and a defect, if there is none.
func (r *reading) find(d *draft, m mention) *draft {
	to := r.byID[m.id]
	if to == nil {
		r.say(d, m.at, "unknown step %s%s", quoted(m.id), r.meant(m.id, r.ids))
	}
	return to
}

// known says what a reference of a step may lead to.
func (r *reading) known(d *draft) func(id string) bool {
	return func(id string) bool {
		return r.byID[id] != nil || id == params && r.o.Params != nil || d.loop && (id == item || id == index)
	}
}

// findTool finds what a step calls.
func (r *reading) findTool(d *draft) {
	if own(d.called) {
		r.say(d, d.at+"/tool", "a plan cannot hold a plan: %s is no tool of a server", quoted(d.called))
		return
	}
	if r.o.Find != nil {
		d.Tool = r.o.Find(d.called)
	}
	if d.Tool == nil {
		if r.tools == nil && r.o.Names != nil {
			r.tools = newNames(r.o.Names())
		}
		r.say(d, d.at+"/tool", "unknown tool %s%s", quoted(d.called), r.meant(d.called, r.tools))
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
func (r *reading) check() {
	for _, d := range r.steps {
		if d.Tool == nil {
			continue
		}
		d.Writes = d.mayWrite()
		if d.Writes {
			r.refuseWrite(d)
		}
		if d.Arguments != nil {
			for _, one := range d.Arguments.CheckConstants(d.Tool.Input) {
				r.say(d, one.Pointer, "%s (input schema of %s)", one.Message, quoted(d.called))
			}
		}
		for _, at := range d.scope {
			r.checkTarget(d, at)
		}
	}
}

// mayWrite reports whether a call of the step may change something. Arguments that
// are not all known yet are judged by the tool as such.
func (d *draft) mayWrite() bool {
	if d.Tool.Writes == nil {
		return true // nothing says that it does not
	}
	var known []byte
	if d.Arguments != nil {
		known = d.Arguments.Constant()
	}
	return d.Tool.Writes(known)
}

// refuseWrite names what a step that may change something cannot have.
func (r *reading) refuseWrite(d *draft) {
	if d.Retry > 0 {
		r.say(d, d.at+"/retry", "%s may change something: such a call is not made again", quoted(d.called))
	}
	if d.Optional {
		r.say(d, d.at+"/optional", "%s may change something: only reads are optional", quoted(d.called))
	}
	if r.o.ReadOnly {
		why := "may change something"
		if d.Tool.Unclassified {
			why = "is unclassified, so it may change something"
		}
		r.say(d, d.at+"/tool", "%s %s: plans only read here ([plan].mutations)", quoted(d.called), why)
	}
}

// refer makes a reference to a step an edge, and refuses one to what is not there.
func (r *reading) refer(d *draft, s scope) {
	ref := s.ref
	switch {
	case ref.Step == params && r.o.Params != nil:
		r.checkParam(d, s)
	case d.loop && s.item && ref.Step == index && ref.Pointer != "":
		r.say(d, ref.At, `"index" is a number: there is nothing at %s in it`, ref.Pointer)
	case d.loop && s.item && (ref.Step == item || ref.Step == index):
	case ref.Step == d.ID:
		r.say(d, ref.At, "refers to itself")
	case r.byID[ref.Step] != nil:
		to := r.byID[ref.Step]
		d.Needs = append(d.Needs, to.Index)
		if ref.Default == nil {
			d.must = append(d.must, to.Index)
		}
	case ref.Step == params:
		r.say(d, ref.At, "there are no parameters: only a named plan has them")
	case ref.Step == item || ref.Step == index:
		r.say(d, ref.At, "%s means something only in the arguments of a step with for_each", quoted(ref.Step))
	default:
		r.find(d, mention{ref.Step, ref.At})
	}
}

// checkParam looks a parameter up. All that a plan has are there; one that is null
// may stand for any value that is not known yet, and so may what is in it.
func (r *reading) checkParam(d *draft, s scope) {
	path := slices.Collect(jsonrpc.PointerTokens(s.ref.Pointer))
	if len(path) == 0 || s.ref.Default != nil {
		return
	}
	all := trimmed(r.o.Params)
	name := jsonrpc.PointerToken(path[0])
	value := jsonrpc.At(all, s.ref.Pointer)
	switch whole := jsonrpc.Get(all, path[0]); {
	case whole == nil:
		r.say(d, s.ref.At, "unknown parameter %s%s", quoted(path[0]), r.meant(path[0], r.paramNames()))
	case string(whole) == "null" || slices.Contains(path, "*"):
	case value == nil && !s.ref.Null:
		r.say(d, s.ref.At, "there is nothing at %s in the parameter %s", s.ref.Pointer[len("/")+len(name):], quoted(path[0]))
	case s.loop && value != nil && value[0] != '[':
		r.say(d, s.ref.At, "want an array, the parameter is %s", kindOf(value))
	}
}

// paramNames are what a parameter that is not there may have been meant to be.
func (r *reading) paramNames() *names {
	var all []string
	for m := range jsonrpc.Members(r.o.Params) {
		all = append(all, string(m.Name))
	}
	return newNames(all)
}

// checkTarget refuses a reference to what can never be in the result of a step.
// One with a default says itself that it may be missing.
func (r *reading) checkTarget(d *draft, at scope) {
	to := r.byID[at.ref.Step]
	if to == nil || to == d || to.Tool == nil || at.ref.Default != nil || r.looped && (at.ref.Step == item || at.ref.Step == index) {
		return
	}
	why := r.lacks(to, at.ref, at.loop)
	if why == "" || to.OnError == Default && jsonrpc.At(to.Step.Default, at.ref.Pointer) != nil {
		return
	}
	r.say(d, at.ref.At, "the result of %s %s", quoted(to.ID), why)
}
