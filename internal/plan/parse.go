package plan

import (
	"bytes"
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
	r := &reading{o: o, effort: shapeEffort, byID: make(map[string]*draft)}
	members := r.document(raw)
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
	if len(r.defects) > 0 {
		return nil, r.told()
	}
	p.byID = make(map[string]int, len(r.steps))
	for i, d := range r.steps {
		p.Steps = append(p.Steps, d.Step)
		p.byID[d.ID] = i
	}
	return p, nil
}

// reading is a plan while it is read: its steps, and all that is wrong so far.
type reading struct {
	o       Options
	steps   []*draft
	byID    map[string]*draft // the first of each id
	ids     *names            // of the steps
	looped  bool              // some step has for_each
	tools   *names            // nil: not asked for yet
	effort  int               // see shapes
	defects []found
}

// found is a defect and where it belongs: that of a plan is before those of its steps.
type found struct {
	Defect
	step int // -1: of none
}

// say notes what is wrong at a place of a step; nil: of no step.
func (r *reading) say(d *draft, pointer, format string, args ...any) {
	r.note(d, Defect{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
}

// note notes defects, and reports whether there are any.
func (r *reading) note(d *draft, defects ...Defect) bool {
	for _, one := range defects {
		if len(r.defects) > mostDefects {
			break // to look for more would only take memory
		}
		at := found{one, -1}
		if d != nil {
			at.Step, at.step = d.ID, d.Index
		}
		r.defects = append(r.defects, at)
	}
	return len(defects) > 0
}

// told is all that is wrong, in the order of the plan.
func (r *reading) told() (all Defects) {
	more := len(r.defects) > mostDefects
	r.defects = r.defects[:min(len(r.defects), mostDefects)]
	slices.SortStableFunc(r.defects, func(a, b found) int { return a.step - b.step })
	for _, d := range r.defects {
		all = append(all, d.Defect)
	}
	if more {
		all = append(all, Defect{Message: fmt.Sprintf("and more: it is no use to list more than %d", mostDefects)})
	}
	return all
}

// meant is the end of a message about an unknown name. Of defects that will not be shown
// it is not worth the search.
func (r *reading) meant(name string, among *names) string {
	if len(r.defects) >= shownDefects {
		return ""
	}
	return among.meant(name)
}

// document is the members of the whole; nil if nothing of it can be read.
func (r *reading) document(raw []byte) map[string][]byte {
	raw = trimmed(raw)
	switch {
	case r.o.Bytes > 0 && len(raw) > r.o.Bytes:
		r.say(nil, "", "%d bytes: at most %d are read ([plan].max_result_bytes)", len(raw), r.o.Bytes)
	case !jsonrpc.Valid(raw):
		r.say(nil, "", "%s", broken(raw))
	case raw[0] != '{':
		r.say(nil, "", "want an object with steps, have %s", kindOf(raw))
	case r.ambiguous(nil, "", raw):
	default:
		return r.members(nil, "", bytes.Clone(raw), planMembers) // a plan outlives the message it came in
	}
	return nil
}

// ambiguous reports whether two readers could take a part of the plan for different
// things.
func (r *reading) ambiguous(d *draft, at string, raw []byte) bool {
	before := len(r.defects)
	ambiguous(raw, at, func(at, message string) { r.say(d, at, "%s", message) })
	return len(r.defects) > before
}

// members are the values of an object by their names; null, but as a default, is nil.
func (r *reading) members(d *draft, at string, obj []byte, known *names) map[string][]byte {
	values := make(map[string][]byte)
	for m := range jsonrpc.Members(obj) {
		switch name := string(m.Name); {
		case !known.Has(name):
			near := r.meant(name, known)
			if near == "" {
				near = "; there are " + known.list
			}
			r.say(d, at+"/"+jsonrpc.PointerToken(name), "unknown member%s", near)
		case string(m.Value) == "null" && name != "default":
		default:
			values[name] = m.Value
		}
	}
	return values
}

// readSteps reads the array of steps, as many as a plan may have: first their ids, for a
// step may refer to a later one.
func (r *reading) readSteps(raw []byte) {
	const at = "/steps"
	if raw == nil || raw[0] != '[' {
		r.say(nil, at, "want an array of objects with id and tool, have %s", kindOf(raw))
		return
	}
	for one := range jsonrpc.Elements(raw) {
		d := &draft{Step: &Step{Index: len(r.steps), written: one}, at: at + "/" + strconv.Itoa(len(r.steps))}
		r.steps = append(r.steps, d)
		d.loop = string(jsonrpc.Get(one, "for_each")) != "null" && jsonrpc.Get(one, "for_each") != nil
		r.looped = r.looped || d.loop
	}
	switch n := len(r.steps); {
	case n == 0:
		r.say(nil, at, "want at least one")
	case r.o.Steps > 0 && n > r.o.Steps:
		r.say(nil, at, "%d steps: a plan may have %d ([plan].max_steps)", n, r.o.Steps)
		r.steps = nil
	}
	var ids []string
	for _, d := range r.steps {
		if r.identify(d) {
			ids = append(ids, d.ID)
		}
	}
	r.ids = newNames(ids)
	for _, d := range r.steps {
		if d.written[0] == '{' {
			r.step(d)
		}
	}
}

// identify reads the id of a step, and reports whether others can refer to it.
func (r *reading) identify(d *draft) bool {
	id := jsonrpc.Get(d.written, "id")
	text, isText := jsonrpc.String(id)
	d.ID = text
	first := r.byID[text]
	switch at := d.at + "/id"; {
	case d.written[0] != '{':
		r.say(d, d.at, "want an object with id and tool, have %s", kindOf(d.written))
	case id == nil || string(id) == "null":
		r.say(d, d.at, `missing member "id"`)
	case !isText:
		r.say(d, at, "want a string, have %s", kindOf(id))
	case !idForm.MatchString(text) || len(text) > longestID:
		r.say(d, at, "want letters, digits, _ and -, at most %d of them, have %s", longestID, quoted(text))
	case first != nil:
		r.say(d, at, "duplicate id: %s has it too", first.at)
	case text == params && r.o.Params != nil:
		r.say(d, at, `"params" are the parameters of this plan: no step can have that id`)
	case r.looped && (text == item || text == index):
		r.say(d, at, "in a plan with for_each %s means something else: no step can have that id", quoted(text))
	default:
		r.byID[text] = d
		return true
	}
	return false
}

// outputs are the steps whose results come back: all of them where none are named.
func (r *reading) outputs(raw []byte) (ids []string) {
	const at = "/output_steps"
	if raw == nil {
		for _, d := range r.steps {
			ids = append(ids, d.ID)
		}
		return ids
	}
	if raw[0] == '[' && len(trimmed(raw[1:len(raw)-1])) == 0 {
		r.say(nil, at, "want at least one, or leave it out for all")
	}
	if len(r.steps) == 0 {
		return nil // what the steps are is not known
	}
	for _, m := range r.list(nil, at, raw) {
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
