package plan

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"mcpschedd/internal/jsonrpc"
)

var planMembers = newNames([]string{"steps", "output_steps", "budget_tokens", "dry_run"})

// Parse reads a plan, the arguments of execute_tool_plan in any bytes, and checks it
// before anything runs. Of a plan with defects there is no plan; of one without them
// the steps form no cycle, and every index in it is that of a step.
//
// What is null counts as not given. A budget above the limit is cut to it. A limit
// of 0 is none. Neither raw nor the parameters are kept.
func Parse(raw []byte, o Options) (*Plan, Defects) {
	r := &reading{o: o, effort: shapeEffort}
	members := r.document(raw, planMembers)
	if members == nil {
		return nil, r.told()
	}
	p := &Plan{Params: bytes.Clone(o.Params)}
	p.Budget = r.budget(members["budget_tokens"])
	p.DryRun = r.flag(nil, "/dry_run", members["dry_run"])
	r.readSteps(members["steps"])
	p.Outputs = r.outputs(members["output_steps"])
	r.link()
	r.check()
	r.order()
	if r.found > 0 {
		return nil, r.told()
	}
	for _, d := range r.steps {
		p.Steps = append(p.Steps, d.Step)
	}
	return p, nil
}

// reading is a plan while it is read: its steps, and all that is wrong so far.
type reading struct {
	o       Options
	steps   []*draft
	given   map[string]bool   // ids of steps, before any of these is read
	byID    map[string]*draft // the first of each id
	ids     *names            // of the steps
	looped  bool              // some step has for_each
	tools   *names            // nil: not asked for yet
	effort  int               // see shapes
	defects []told
	found   int // defects, those that were not kept included
}

// told is a defect and where it belongs: that of a plan is before those of its steps.
type told struct {
	Defect
	step int // -1: of none
}

// say notes what is wrong at a place of a step; nil: of no step.
func (r *reading) say(d *draft, pointer, format string, args ...any) {
	r.note(d, Defect{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
}

func (r *reading) note(d *draft, one Defect) {
	if r.found++; r.found > toldDefects {
		return
	}
	at := told{one, -1}
	if d != nil {
		at.step = d.Index
	}
	r.defects = append(r.defects, at)
}

// told is all that is wrong, in the order of the plan.
func (r *reading) told() Defects {
	slices.SortStableFunc(r.defects, func(a, b told) int { return a.step - b.step })
	var all Defects
	for _, d := range r.defects {
		if d.step >= 0 {
			d.Step = r.steps[d.step].ID // not known yet when some of them are found
		}
		all = append(all, d.Defect)
	}
	if r.found > toldDefects {
		all = append(all, Defect{Message: fmt.Sprintf("and more: it is no use to list more than %d", toldDefects)})
	}
	return all
}

// meant is the end of a message about an unknown name. Of defects that nobody will
// be shown it is not worth the search.
func (r *reading) meant(name string, among *names) string {
	if r.found >= nearestWithin {
		return ""
	}
	return among.meant(name)
}

// document is the members of the whole; nil if nothing of it can be read.
func (r *reading) document(raw []byte, known *names) map[string][]byte {
	raw = trimmed(raw)
	switch {
	case r.o.Bytes > 0 && len(raw) > r.o.Bytes:
		r.say(nil, "", "%d bytes: at most %d are read ([plan].max_result_bytes)", len(raw), r.o.Bytes)
	case !jsonrpc.Valid(raw):
		r.say(nil, "", "%s", broken(raw))
	case raw[0] != '{':
		r.say(nil, "", "want an object with steps, have %s", kindOf(raw))
	case !r.unambiguous(nil, "", raw):
	default:
		return r.members(nil, "", bytes.Clone(raw), known) // a plan outlives the message it came in
	}
	return nil
}

// unambiguous reports whether no two readers could take a part of the plan for different
// things.
func (r *reading) unambiguous(d *draft, at string, raw []byte) bool {
	before := r.found
	ambiguous(raw, at, func(at, message string) { r.say(d, at, "%s", message) })
	return r.found == before
}

// members are the values of an object by their names; null, but as a default, is nil.
func (r *reading) members(d *draft, at string, obj []byte, known *names) map[string][]byte {
	values := make(map[string][]byte)
	for m := range jsonrpc.Members(obj) {
		name := string(m.Name)
		switch {
		case !known.Has(name):
			r.say(d, at+"/"+jsonrpc.PointerToken(name), "unknown member%s", cmp.Or(r.meant(name, known), known.list()))
		case string(m.Value) == "null" && name != "default":
			values[name] = nil
		default:
			values[name] = m.Value
		}
	}
	return values
}

// readSteps reads the array of steps, as many as a plan may have.
func (r *reading) readSteps(raw []byte) {
	const at = "/steps"
	if raw == nil {
		r.say(nil, at, "missing: want an array of objects with id and tool")
		return
	}
	if raw[0] != '[' {
		r.say(nil, at, "want an array of objects with id and tool, have %s", kindOf(raw))
		return
	}
	count := 0
	for range jsonrpc.Elements(raw) {
		count++
	}
	if count == 0 {
		r.say(nil, at, "want at least one")
	}
	if r.o.Steps > 0 && count > r.o.Steps {
		r.say(nil, at, "%d steps: a plan may have %d ([plan].max_steps)", count, r.o.Steps)
		return
	}
	r.foreknow(raw)
	for one := range jsonrpc.Elements(raw) {
		d := &draft{Step: &Step{Index: len(r.steps), written: one}, at: at + "/" + strconv.Itoa(len(r.steps))}
		r.steps = append(r.steps, d)
		if one[0] != '{' {
			r.say(d, d.at, "want an object with id and tool, have %s", kindOf(one))
			continue
		}
		r.step(d, one)
	}
	r.identify()
}

// foreknow notes the ids that steps have, for a step may refer to a later one, and
// what was meant to be a reference shows by its id.
func (r *reading) foreknow(raw []byte) {
	r.given = make(map[string]bool)
	for one := range jsonrpc.Elements(raw) {
		id, _ := jsonrpc.String(jsonrpc.Get(one, "id"))
		r.given[id] = true
	}
}

// outputs are the steps whose results come back: all of them where none are named.
func (r *reading) outputs(raw []byte) []string {
	const at = "/output_steps"
	if raw == nil {
		var all []string
		for _, d := range r.steps {
			all = append(all, d.ID)
		}
		return all
	}
	if r.byID == nil {
		return nil // what the steps are is not known
	}
	if raw[0] == '[' && len(trimmed(raw[1:len(raw)-1])) == 0 {
		r.say(nil, at, "want at least one, or leave it out for all")
	}
	asked := r.list(nil, at, raw)
	var ids []string
	for _, m := range asked {
		switch {
		case r.find(nil, m) == nil:
		case slices.Contains(ids, m.id):
			r.say(nil, m.at, "%s is there twice", quoted(m.id))
		default:
			ids = append(ids, m.id)
		}
	}
	return ids
}

// budget is how many tokens may come back.
func (r *reading) budget(raw []byte) int {
	if raw == nil {
		return r.o.Budget
	}
	tokens := r.whole(nil, "/budget_tokens", raw, 1, anyNumber)
	if r.o.Budget > 0 {
		tokens = min(tokens, r.o.Budget)
	}
	return tokens
}
