package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schema"
)

// at returns the place of a step.
func (p *parser) at(s *Step) place {
	return place{p: p, step: s, pointer: fmt.Sprintf("/steps/%d", s.Index)}
}

// check validates the constants of each step against its tool's schema, and its references
// against the output schemas.
func (p *parser) check() {
	for _, s := range p.plan.Steps {
		if s.Tool == nil {
			continue
		}
		if s.Writes = s.Tool.Writes == nil || s.Tool.Writes(s.constant); s.Writes {
			p.refuseWrite(s)
		}
		p.checkConstants(s)
		for _, r := range s.refs {
			p.checkTarget(s, r)
		}
	}
}

// refuseWrite reports the members that a writing step cannot have.
func (p *parser) refuseWrite(s *Step) {
	at, why := p.at(s), s.Tool.mayWrite()
	if s.Retry > 0 {
		at.below("retry", nil).errorf("%s %s: such a call is not retried", quoted(s.Tool.Name), why)
	}
	if s.Optional {
		at.below("optional", nil).errorf("%s %s: only reads are optional", quoted(s.Tool.Name), why)
	}
	if p.options.ReadOnly {
		at.below("tool", nil).errorf("%s %s: plans may only read ([plan].mutations)", quoted(s.Tool.Name), why)
	}
}

// mayWrite returns that a call may change something, as a part of a message.
func (t *Tool) mayWrite() string {
	if t.Unclassified {
		return "is unclassified, so it may change something"
	}
	return "may change something"
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

// path returns the place of a value within.
func (v place) path(path []string) place {
	for _, name := range path {
		v = v.below(name, nil)
	}
	return v
}

// checkTarget reports a reference to a value that the result of a step can never have. A
// reference with a default may refer to a missing value, and so may one to a step with one.
func (p *parser) checkTarget(s *Step, r *Ref) {
	to := p.byID[r.Step]
	if to == nil || to == s || to.Tool == nil || r.Default != nil || to.OnError == Default {
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
