package plan

import (
	"fmt"
	"slices"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schema"
)

// source is the state of [Parse]: the steps so far and the defects found.
type source struct {
	options  Options
	problems *problems
	drafts   []*draft
	byID     map[string]*draft         // the first step of each id
	ids      *names                    // ids of the steps
	tools    *names                    // nil until needed
	results  map[string]*schema.Schema // tool → schema of its results; filled on demand
	loops    bool                      // at least one step has for_each
}

// draft is a step being parsed.
type draft struct {
	step      *Step
	place     place
	called    string  // the tool name as written
	loops     bool    // it has for_each, even an invalid one
	scopes    []scope // its references with their allowed targets
	dependsOn []mention
}

// scope is a reference and its context.
type scope struct {
	ref  *Ref
	item bool
	loop bool // it is the for_each reference
}

// mention is a step id and the place where it is mentioned.
type mention struct {
	place
	id string
}

// find returns the mentioned step. It reports an unknown one and returns nil.
func (src *source) find(m mention) *draft {
	to := src.byID[m.id]
	if to == nil {
		m.errorf("unknown step %s%s", quoted(m.id), src.suggest(m.id, src.ids))
	}
	return to
}

// knows returns a func that reports whether a reference of a step may have the target id.
func (src *source) knows(d *draft) func(id string) bool {
	return func(id string) bool {
		return src.byID[id] != nil || id == params && src.options.Params != nil || d.loops && (id == item || id == index)
	}
}

// suggest returns the end of a message about an unknown name. It is empty once there are more
// defects than are shown, to save the search.
func (src *source) suggest(name string, among *names) string {
	if len(src.problems.all) >= maxShownDefects {
		return ""
	}
	return among.suggest(name)
}

// Targets of references other than steps.
const (
	params = "params" // the parameters of a named plan
	item   = "item"   // the for_each item of a call
	index  = "index"  // the index of the item, from 0
)

// problems collects the defects of a plan.
type problems struct {
	all []problem
}

// problem is a defect with the index of its step, by which defects are sorted.
type problem struct {
	Defect
	step int // -1 for the plan
}

// defects returns all defects in the order of the plan.
func (p *problems) defects() (all Defects) {
	slices.SortStableFunc(p.all, func(a, b problem) int { return a.step - b.step })
	for _, one := range p.all[:min(len(p.all), maxDefects)] {
		all = append(all, one.Defect)
	}
	if len(p.all) > maxDefects {
		all = append(all, Defect{Message: fmt.Sprintf("and more: only %d are listed", maxDefects)})
	}
	return all
}

// place is a location in a plan, for messages.
type place struct {
	problems *problems
	step     *Step  // nil outside of the steps
	pointer  string // JSON pointer
}

// below returns the place of a member or an element.
func (p place) below(name string) place {
	p.pointer += "/" + jsonrpc.PointerToken(name)
	return p
}

// at returns another place of the same step.
func (p place) at(pointer string) place {
	p.pointer = pointer
	return p
}

// errorf records a defect at the place.
func (p place) errorf(format string, args ...any) {
	if len(p.problems.all) > maxDefects {
		return // further defects would only use memory
	}
	one := problem{Defect{Pointer: p.pointer, Message: fmt.Sprintf(format, args...)}, -1}
	if p.step != nil {
		one.Step, one.step = p.step.ID, p.step.Index
	}
	p.problems.all = append(p.problems.all, one)
}
