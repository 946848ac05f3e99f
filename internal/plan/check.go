package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schema"
)

// at returns the node of a step, without its value.
func (p *parser) at(s *Step) node {
	return node{p: p, step: s, pointer: fmt.Sprintf("/steps/%d", s.Index)}
}

// check finds the steps that a step refers to or waits for, and whether it may write. It checks
// the references against the output schemas, and the constants against the tool's input schema.
func (p *parser) check(s *Step) {
	for _, r := range s.refs {
		if to := p.target(s, r); to != nil {
			s.Needs = append(s.Needs, to.Index)
			p.checkTarget(s, r, to)
		}
	}
	s.Waits = slices.Clone(s.Needs)
	for _, id := range s.dependsOn {
		at := p.at(s).below("depends_on", nil)
		switch to := p.byID[id]; to {
		case nil:
			at.unknownStep(id)
		case s:
			at.errorf("waits for itself")
		default:
			s.Waits = append(s.Waits, to.Index)
		}
	}
	s.Needs = slices.Compact(slices.Sorted(slices.Values(s.Needs)))
	s.Waits = slices.Compact(slices.Sorted(slices.Values(s.Waits)))
	if s.Tool == nil {
		return
	}
	if s.Writes = s.Tool.Writes(s.constant); s.Writes {
		p.refuseWrite(s)
	}
	p.checkConstants(s)
}

// target returns the step that a reference of a step refers to, or nil. An unknown name is a
// defect unless it is a parameter or an item.
func (p *parser) target(s *Step, r *Ref) *Step {
	inArguments := r != s.ForEach && (s.When == nil || r != s.When.ref)
	switch to := p.byID[r.Step]; {
	case r.Step == params && p.options.Params != nil:
		p.checkParam(r)
	case to == s:
		r.at.errorf("refers to itself")
	case to != nil:
		return to
	case r.Step == params:
		r.at.errorf("there are no parameters: only a named plan has them")
	case r.Step != item && r.Step != index:
		r.at.unknownStep(r.Step)
	case s.written["for_each"] == nil || !inArguments:
		r.at.errorf("%s is defined only in the arguments of a step with for_each", quoted(r.Step))
	}
	return nil
}

// checkParam checks that a parameter exists. All parameters of the plan are in Options.Params.
func (p *parser) checkParam(r *Ref) {
	for name := range jsonrpc.PointerTokens(r.Pointer) {
		if jsonrpc.Get(p.options.Params, name) == nil && r.Default == nil {
			r.at.errorf("unknown parameter %s", quoted(name))
		}
		break
	}
}

// refuseWrite reports the members that a writing step cannot have.
func (p *parser) refuseWrite(s *Step) {
	refuse := func(member, why string) {
		p.at(s).below(member, nil).errorf("%s may change something: %s", quoted(s.Tool.Name), why)
	}
	if s.Retry > 0 {
		refuse("retry", "such a call is not retried")
	}
	if s.Optional {
		refuse("optional", "only reads are optional")
	}
	if p.options.ReadOnly {
		refuse("tool", "plans may only read ([plan].mutations)")
	}
	if s.Tool.OnlyRead {
		refuse("tool", "calls of tools that are not listed may only read ([server].search_reach)")
	}
}

// checkConstants reports the violations of the tool's schema that hold for any value of the
// references: wrong constants, missing and unknown members.
func (p *parser) checkConstants(s *Step) {
	at, input, open := p.at(s).below("arguments", nil), s.Tool.Input, [][]string{}
	outline := &filler{limit: noLimit, value: func(r *Ref, path []string) (*Value, error) {
		open = append(open, slices.Clone(path))
		if wants := input.TypesAt(path); r.inText && len(wants) > 0 && !slices.Contains(wants, "string") {
			r.at.errorf(`want %s, and "$tpl" is always a string (input schema of %s)`, strings.Join(wants, " or "), quoted(s.Tool.Name))
		}
		return &Value{JSON: []byte("null")}, nil
	}}
	known, _ := outline.append(nil, s.arguments, nil) // fails only if a value does
	for _, f := range input.Faults(known, open) {
		at.path(f.Path).errorf("%s (input schema of %s)", f.Message, quoted(s.Tool.Name))
	}
}

// path returns a value within, without its text.
func (v node) path(path []string) node {
	for _, name := range path {
		v = v.below(name, nil)
	}
	return v
}

// checkTarget reports a reference to a value that the result of a step can never have. A
// reference with a default may refer to a missing value, and so may one to a step with one.
func (p *parser) checkTarget(s *Step, r *Ref, to *Step) {
	if to.Tool == nil || r.Default != nil || to.OnError == Default {
		return
	}
	path := slices.Collect(jsonrpc.PointerTokens(r.Pointer))
	wantsArray := r == s.ForEach && !slices.Contains(path, "*")
	if to.ForEach != nil {
		if len(path) == 0 {
			return
		}
		if _, err := strconv.ParseUint(path[0], 10, 31); err != nil && path[0] != "*" {
			r.at.errorf("the result of %s is an array: want an index or * in place of %s", quoted(to.ID), quoted(path[0]))
			return
		}
		path = path[1:]
	}
	switch wants := p.output(to.Tool).TypesAt(path); {
	case wants == nil:
	case len(wants) == 0:
		r.at.errorf("the result of %s has nothing at %s", quoted(to.ID), quoted(r.Pointer))
	case wantsArray && !slices.Contains(wants, "array"):
		r.at.errorf("the result of %s has no array at %s", quoted(to.ID), quoted(r.Pointer))
	}
}

// output returns the schema of a tool's result. An invalid schema allows any result.
func (p *parser) output(t *Tool) *schema.Schema {
	s, known := p.outputs[t.Name]
	if !known {
		s, _ = schema.Compile(t.Output)
		p.outputs[t.Name] = s
	}
	return s
}
