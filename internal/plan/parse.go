package plan

import (
	"bytes"
	"slices"
	"strconv"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schema"
)

var planMembers = newNames([]string{"steps", "output_steps", "budget_tokens", "dry_run"})

// Parse parses and checks a plan, the arguments of execute_tool_plan. It returns either a plan or
// its defects. The steps of a plan form no cycle, and every index in it refers to a step.
//
// A null member counts as absent. A budget above the limit is reduced to it. A zero limit means
// no limit. Parse keeps neither raw nor the parameters.
func Parse(raw []byte, o Options) (*Plan, Defects) {
	src := &source{options: o, problems: &problems{}, byID: make(map[string]*draft), results: make(map[string]*schema.Schema)}
	whole, ok := src.document(raw)
	if !ok {
		return nil, src.problems.defects()
	}
	p := &Plan{Params: bytes.Clone(o.Params), byID: make(map[string]int)}
	p.Budget = src.budget(whole.get("budget_tokens"))
	p.DryRun = whole.get("dry_run").flag()
	src.readSteps(node{whole.below("steps"), whole.values["steps"]})
	p.Outputs = src.outputs(whole.get("output_steps"))
	graph := link(src)
	src.check()
	graph.order(o.Depth)
	if len(src.problems.all) > 0 {
		return nil, src.problems.defects()
	}
	for i, d := range src.drafts {
		p.Steps = append(p.Steps, d.step)
		p.byID[d.step.ID] = i
	}
	return p, nil
}

// document returns the members of the plan, or false if it cannot be parsed.
func (src *source) document(raw []byte) (whole members, ok bool) {
	raw = trimmed(raw)
	at := place{problems: src.problems}
	switch limit := src.options.Bytes; {
	case limit > 0 && len(raw) > limit:
		at.errorf("%d bytes: at most %d are read ([plan].max_result_bytes)", len(raw), limit)
	case !jsonrpc.Valid(raw):
		at.errorf("%s", syntaxError(raw))
	case raw[0] != '{':
		at.errorf("want an object with steps, have %s", kindOf(raw))
	case ambiguous(raw, at):
	default:
		return src.members(node{at, bytes.Clone(raw)}, planMembers), true // a plan outlives its message
	}
	return members{}, false
}

// members returns the known members of an object. A null member counts as absent, except
// "default".
func (src *source) members(v node, known *names) members {
	o := members{v.place, make(map[string][]byte)}
	for m := range jsonrpc.Members(v.raw) {
		switch name := string(m.Name); {
		case !known.Has(name):
			near := src.suggest(name, known)
			if near == "" {
				near = "; there are " + known.list
			}
			v.below(name).errorf("unknown member%s", near)
		case string(m.Value) == "null" && name != "default":
		default:
			o.values[name] = m.Value
		}
	}
	return o
}

// readSteps parses the array of steps, the ids first, because a step may refer to a later one.
func (src *source) readSteps(v node) {
	if v.raw == nil || v.raw[0] != '[' {
		v.errorf("want an array of objects with id and tool, have %s", kindOf(v.raw))
		return
	}
	for one := range jsonrpc.Elements(v.raw) {
		s := &Step{Index: len(src.drafts), written: one}
		d := &draft{step: s, place: place{src.problems, s, v.pointer + "/" + strconv.Itoa(s.Index)}}
		src.drafts = append(src.drafts, d)
		loop := jsonrpc.Get(one, "for_each")
		d.loops = loop != nil && string(loop) != "null"
		src.loops = src.loops || d.loops
	}
	switch n, limit := len(src.drafts), src.options.Steps; {
	case n == 0:
		v.errorf("want at least one")
	case limit > 0 && n > limit:
		v.errorf("%d steps: a plan may have %d ([plan].max_steps)", n, limit)
		src.drafts = nil
	}
	var ids []string
	for _, d := range src.drafts {
		if src.identify(d) {
			ids = append(ids, d.step.ID)
		}
	}
	src.ids = newNames(ids)
	for _, d := range src.drafts {
		if d.step.written[0] == '{' {
			src.readStep(d)
		}
	}
}

// identify parses the id of a step, and reports whether other steps can refer to it.
func (src *source) identify(d *draft) bool {
	id := jsonrpc.Get(d.step.written, "id")
	text, isText := jsonrpc.String(id)
	d.step.ID = text
	first := src.byID[text]
	switch at := d.place.below("id"); {
	case d.step.written[0] != '{':
		d.place.errorf("want an object with id and tool, have %s", kindOf(d.step.written))
	case id == nil || string(id) == "null":
		d.place.errorf(`missing member "id"`)
	case !isText:
		at.errorf("want a string, have %s", kindOf(id))
	case !idForm.MatchString(text) || len(text) > maxIDLen:
		at.errorf("want letters, digits, _ and -, at most %d of them, have %s", maxIDLen, quoted(text))
	case first != nil:
		at.errorf("duplicate id: %s has it too", first.place.pointer)
	case text == params && src.options.Params != nil:
		at.errorf(`"params" are the parameters of this plan: no step can have that id`)
	case src.loops && (text == item || text == index):
		at.errorf("%s is reserved in a plan with for_each: no step can have that id", quoted(text))
	default:
		src.byID[text] = d
		return true
	}
	return false
}

// outputs returns the ids of the output steps, all steps by default.
func (src *source) outputs(v node) (ids []string) {
	if v.raw == nil {
		for _, d := range src.drafts {
			ids = append(ids, d.step.ID)
		}
		return ids
	}
	if v.raw[0] == '[' && len(trimmed(v.raw[1:len(v.raw)-1])) == 0 {
		v.errorf("want at least one id, or omit the member for all steps")
	}
	if len(src.drafts) == 0 {
		return nil // the steps could not be parsed
	}
	for _, m := range v.ids(len(src.drafts)) {
		switch {
		case src.find(m) == nil:
		case slices.Contains(ids, m.id):
			m.errorf("%s is listed twice", quoted(m.id))
		default:
			ids = append(ids, m.id)
		}
	}
	return ids
}

// budget returns the token budget of the outputs.
func (src *source) budget(v node) int {
	limit := src.options.Budget
	switch {
	case v.raw == nil:
		return limit
	case limit > 0:
		return min(v.integer(1, noLimit), limit)
	}
	return v.integer(1, noLimit)
}
