package plan

import (
	"fmt"
	"slices"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schema"
)

// source is a plan while it is read: its steps as they are written, and what is wrong with
// it so far.
type source struct {
	options  Options
	problems *problems
	drafts   []*draft
	byID     map[string]*draft         // the first of each id
	ids      *names                    // of the steps
	tools    *names                    // nil: not asked for yet
	results  map[string]*schema.Schema // tool → of its results, as far as it was asked for
	loops    bool                      // some step has for_each
}

// draft is a step while its plan is read.
type draft struct {
	step      *Step
	place     place
	called    string  // the tool, as it was named
	loops     bool    // it has for_each, be it a broken one
	scopes    []scope // its references, and what they may refer to
	dependsOn []mention
}

// scope is a reference and whether item and index mean something there.
type scope struct {
	ref  *Ref
	item bool
	loop bool // it is for_each itself
}

// mention is a step that is named somewhere, and where.
type mention struct {
	place
	id string
}

// find is the step that is mentioned; nil, and a defect, if there is none.
func (src *source) find(m mention) *draft {
	to := src.byID[m.id]
	if to == nil {
		m.say("unknown step %s%s", quoted(m.id), src.meant(m.id, src.ids))
	}
	return to
}

// knows says what a reference of a step may lead to.
func (src *source) knows(d *draft) func(id string) bool {
	return func(id string) bool {
		return src.byID[id] != nil || id == params && src.options.Params != nil || d.loops && (id == item || id == index)
	}
}

// meant is the end of a message about an unknown name. Of defects that will not be shown
// it is not worth the search.
func (src *source) meant(name string, among *names) string {
	if len(src.problems.all) >= shownDefects {
		return ""
	}
	return among.meant(name)
}

// What a reference may lead to besides steps.
const (
	params = "params" // of a named plan
	item   = "item"   // the one of for_each that a call is for
	index  = "index"  // its place, from 0 on
)

// problems is what is wrong with a plan so far.
type problems struct {
	all []problem
}

// problem is a defect and where it belongs: that of a plan is before those of its steps.
type problem struct {
	Defect
	step int // -1: of none
}

// told is all that is wrong, in the order of the plan.
func (p *problems) told() (all Defects) {
	slices.SortStableFunc(p.all, func(a, b problem) int { return a.step - b.step })
	for _, one := range p.all[:min(len(p.all), mostDefects)] {
		all = append(all, one.Defect)
	}
	if len(p.all) > mostDefects {
		all = append(all, Defect{Message: fmt.Sprintf("and more: it is no use to list more than %d", mostDefects)})
	}
	return all
}

// place is where something stands in a plan, for what is wrong there.
type place struct {
	problems *problems
	step     *Step  // nil: of none
	pointer  string // JSON pointer
}

// below is the place of a member or an element.
func (p place) below(name string) place {
	p.pointer += "/" + jsonrpc.PointerToken(name)
	return p
}

// at is another place of the same step.
func (p place) at(pointer string) place {
	p.pointer = pointer
	return p
}

// say notes what is wrong there.
func (p place) say(format string, args ...any) {
	if len(p.problems.all) > mostDefects {
		return // to look for more would only take memory
	}
	one := problem{Defect{Pointer: p.pointer, Message: fmt.Sprintf(format, args...)}, -1}
	if p.step != nil {
		one.Step, one.step = p.step.ID, p.step.Index
	}
	p.problems.all = append(p.problems.all, one)
}
