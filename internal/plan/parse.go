package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/nearest"
	"mcpschedd/internal/schema"
)

// Limits of a plan that are not configured.
const (
	maxDefects      = 50  // defects that are reported
	maxIDLen        = 128 // characters
	maxRefs         = 2_000
	maxRetries      = 5
	maxItems        = 10_000
	defaultMaxItems = 100
	maxTimeout      = 24 * time.Hour
	maxSeconds      = 3600 // of a timeout given as a number: a larger one probably means milliseconds
	maxWorth        = 1e9
	minWorth        = 1e-6 // so that a result of unknown value is used if there is room

	defaultProbability = 0.5
	noLimit            = math.MaxInt32
)

// Targets of references other than steps.
const (
	params = "params" // the parameters of a named plan
	item   = "item"   // the for_each item of a call
	index  = "index"  // the index of the item, from 0
)

var planMembers = []string{"steps", "output_steps", "budget_tokens", "dry_run"}

// stepMembers reads the members of a step, the id and the tool before the others.
var stepMembers = map[string]func(v node, s *Step){
	"id":        nil,
	"tool":      nil,
	"arguments": node.arguments,
	"depends_on": func(v node, s *Step) {
		if !v.decode(&s.dependsOn, "an array of ids") {
			s.dependsOn = nil
		}
	},
	"when":         func(v node, s *Step) { s.When = v.condition() },
	"for_each":     func(v node, s *Step) { s.ForEach = v.reference() },
	"max_items":    func(v node, s *Step) { s.MaxItems = v.integer(1, maxItems) },
	"max_parallel": func(v node, s *Step) { s.Parallel = v.integer(1, noLimit) },
	"timeout":      func(v node, s *Step) { s.Timeout = v.duration() },
	"retry":        func(v node, s *Step) { s.Retry = v.integer(0, maxRetries) },
	"on_error":     func(v node, s *Step) { v.decode(&s.OnError, "a string") },
	"default":      func(v node, s *Step) { s.Default = v.raw },
	"optional":     func(v node, s *Step) { v.decode(&s.Optional, "true or false") },
	"value":        func(v node, s *Step) { s.worth = v.number(maxWorth) },
	"probability":  func(v node, s *Step) { s.probability = v.number(1) },
	"max_tokens":   func(v node, s *Step) { s.MaxTokens = v.integer(1, noLimit) },
}

// parser parses a plan and collects its defects.
type parser struct {
	options Options
	plan    *Plan
	byID    map[string]*Step // the first step with each id
	loops   bool             // a step has for_each
	refs    int              // references so far
	tools   map[string]*Tool // by name; nil if there is none
	outputs map[string]*schema.Schema
	defects Defects
}

// Parse parses and checks a plan, the arguments of execute_tool_plan. It returns either a plan or
// its defects. The steps of a plan form no cycle, and every index in it refers to a step.
//
// A null member counts as absent, except "default" and the value that a condition compares with.
// A budget above the limit is reduced to it. Parse copies raw and the parameters.
func Parse(raw []byte, o Options) (*Plan, Defects) {
	p := &parser{
		options: o, byID: make(map[string]*Step), tools: make(map[string]*Tool), outputs: make(map[string]*schema.Schema),
		plan: &Plan{Params: bytes.Clone(o.Params), Budget: o.Budget},
	}
	whole := node{p: p, raw: bytes.Clone(raw)}
	switch {
	case len(raw) > o.Bytes:
		whole.errorf("%d bytes: at most %d are read ([plan].max_result_bytes)", len(raw), o.Bytes)
	case !jsonrpc.Valid(raw):
		whole.errorf("invalid JSON: %v", json.Unmarshal(raw, new(json.RawMessage)))
	case kindOf(raw) != "object":
		whole.errorf("want an object with steps, have %s", kindOf(raw))
	default:
		p.read(whole)
	}
	if len(p.defects) > 0 {
		for i, d := range p.defects {
			if d.index >= 0 && d.index < len(p.plan.Steps) { // not all ids were known when it was found
				p.defects[i].Step = p.plan.Steps[d.index].ID
			}
		}
		slices.SortStableFunc(p.defects, func(a, b Defect) int {
			return cmp.Or(cmp.Compare(a.index, b.index), cmp.Compare(a.Pointer, b.Pointer))
		})
		return nil, p.defects
	}
	return p.plan, nil
}

func (p *parser) read(whole node) {
	members := whole.members(planMembers)
	p.readSteps(whole.below("steps", members["steps"]))
	if p.refs > maxRefs {
		whole.errorf("more than %d references", maxRefs)
	}
	if raw := members["budget_tokens"]; raw != nil {
		p.plan.Budget = min(whole.below("budget_tokens", raw).integer(1, noLimit), p.options.Budget)
	}
	if raw := members["dry_run"]; raw != nil {
		whole.below("dry_run", raw).decode(&p.plan.DryRun, "true or false")
	}
	if p.plan.Steps != nil { // else each output would be reported as unknown
		p.readOutputs(whole.below("output_steps", members["output_steps"]))
	}
	for _, s := range p.plan.Steps {
		p.check(s)
	}
	p.order()
}

// readSteps parses the steps, the ids first, because a step may refer to a later one.
func (p *parser) readSteps(v node) {
	var all []json.RawMessage
	if v.raw == nil || json.Unmarshal(v.raw, &all) != nil || len(all) == 0 {
		v.errorf("want an array of objects with id and tool, have %s", shown(v.raw))
		return
	}
	if limit := p.options.Steps; len(all) > limit {
		v.errorf("%d steps: a plan may have %d ([plan].max_steps)", len(all), limit)
		return
	}
	var nodes []node
	for i, raw := range all {
		at := v.below(strconv.Itoa(i), raw)
		at.step = &Step{Index: i, OnError: Fail, MaxItems: defaultMaxItems}
		if at.step.written = at.members(slices.Collect(maps.Keys(stepMembers))); kindOf(raw) != "object" {
			at.errorf("want an object with id and tool, have %s", kindOf(raw))
			return
		}
		p.loops = p.loops || at.step.written["for_each"] != nil
		nodes = append(nodes, at)
	}
	for _, at := range nodes {
		p.plan.Steps = append(p.plan.Steps, at.step)
		p.readID(at)
	}
	for _, at := range nodes {
		p.readStep(at)
	}
}

func (p *parser) readID(at node) {
	s := at.step
	v := at.below("id", s.written["id"])
	switch {
	case v.raw == nil:
		at.errorf(`missing member "id"`)
	case !v.decode(&s.ID, "a string"):
	case !idForm.MatchString(s.ID) || len(s.ID) > maxIDLen:
		v.errorf("want letters, digits, _ and -, at most %d of them, have %s", maxIDLen, quoted(s.ID))
	case p.byID[s.ID] != nil:
		v.errorf("duplicate id: /steps/%d has it too", p.byID[s.ID].Index)
	case s.ID == params && p.options.Params != nil:
		v.errorf(`"params" are the parameters of this plan: no step can have that id`)
	case p.loops && (s.ID == item || s.ID == index):
		v.errorf("%s is reserved in a plan with for_each: no step can have that id", quoted(s.ID))
	default:
		p.byID[s.ID] = s
	}
}

// readStep parses one step except its id.
func (p *parser) readStep(at node) {
	s := at.step
	p.readTool(at)
	s.arguments, s.probability = object{}, defaultProbability
	if s.Tool != nil {
		s.worth = s.Tool.Worth
	}
	for name, raw := range s.written {
		if read := stepMembers[name]; read != nil {
			read(at.below(name, raw), s)
		}
	}
	switch s.OnError {
	case Fail, Skip, Continue:
	case Default:
		if s.Default == nil {
			at.errorf(`"on_error": "default" needs a member "default" with the value`)
		}
	default:
		at.below("on_error", nil).errorf(`want "fail", "skip", "default" or "continue", have %s`, quoted(string(s.OnError)))
	}
	for _, name := range []string{"max_items", "max_parallel"} {
		at.needs(name, `"for_each"`, s.written["for_each"] != nil)
	}
	for _, name := range []string{"value", "probability"} {
		at.needs(name, `"optional": true`, s.written["optional"] != nil)
	}
	at.needs("default", `"on_error": "default"`, !slices.Contains([]OnError{Fail, Skip, Continue}, s.OnError))
	if s.refs = refsIn(s.arguments); s.refs == nil {
		s.constant = render(s.arguments)
	}
	if s.When != nil {
		s.refs = append(s.refs, s.When.ref)
	}
	if s.ForEach != nil {
		s.refs = append(s.refs, s.ForEach)
	}
}

// needs reports a member of a step that has no effect without another one.
func (v node) needs(name, other string, has bool) {
	if raw := v.step.written[name]; raw != nil && string(raw) != "null" && !has {
		v.below(name, nil).errorf("has no effect without %s", other)
	}
}

// readTool looks up the tool of a step.
func (p *parser) readTool(at node) {
	s, name := at.step, ""
	v := at.below("tool", s.written["tool"])
	switch {
	case v.raw == nil:
		at.errorf(`missing member "tool"`)
		return
	case !v.decode(&name, "a string"):
		return
	case isOwnTool(name):
		v.errorf("a plan cannot contain a plan: %s is not a tool of a server", quoted(name))
		return
	}
	known := false
	if s.Tool, known = p.tools[name]; !known {
		s.Tool = p.options.Find(name)
		p.tools[name] = s.Tool
	}
	if s.Tool == nil {
		v.errorf("unknown tool %s%s", quoted(name), p.suggest(name, p.options.Names))
	}
}

// isOwnTool reports whether a tool belongs to the proxy. Some clients prefix it with their name
// for the proxy.
func isOwnTool(tool string) bool {
	last := tool[strings.LastIndex(tool, "__")+1:]
	last = strings.TrimPrefix(last, "_")
	return strings.HasPrefix(last, "mcpschedd_") || last == "execute_tool_plan" ||
		strings.HasPrefix(tool, "plan__") || strings.Contains(tool, "__plan__")
}

// arguments parses the arguments of a step: an object, or a string that contains one. A server
// may decode anything else in its own way, and the step is classified by the members.
func (v node) arguments(s *Step) {
	if text, ok := jsonrpc.String(v.raw); ok {
		if v.raw = []byte(text); len(bytes.TrimSpace(v.raw)) == 0 {
			return
		}
		if fault := jsonrpc.Fault(v.raw); fault != "" {
			v.errorf("want an object, or a string that contains one, have a string that is %s", fault)
			return
		}
		s.written["arguments"] = v.raw
	}
	if kindOf(v.raw) != "object" {
		v.errorf("want an object, or a string that contains one, have %s", kindOf(v.raw))
		return
	}
	s.arguments = v.template()
	kind := "object"
	switch t := s.arguments.(type) {
	case text:
		kind = "string"
	case []byte:
		kind = kindOf(t)
	}
	if kind != "object" {
		v.errorf("want an object, have %s from %s", kind, shown(v.raw))
	}
}

// readOutputs parses the ids of the output steps; without any, all steps are outputs.
func (p *parser) readOutputs(v node) {
	if v.raw == nil {
		p.plan.Outputs = slices.Clone(p.plan.Steps)
		return
	}
	var ids []string
	if !v.decode(&ids, "an array of ids") {
		return
	}
	if len(ids) == 0 {
		v.errorf("want at least one id, or omit the member for all steps")
	}
	for i, id := range ids {
		switch at, s := v.below(strconv.Itoa(i), nil), p.byID[id]; {
		case s == nil:
			at.unknownStep(id)
		case slices.Contains(p.plan.Outputs, s):
			at.errorf("%s is listed twice", quoted(id))
		default:
			p.plan.Outputs = append(p.plan.Outputs, s)
		}
	}
}

// node is a value in a plan, and where it is. Its methods report a value of the wrong type as a
// defect; what they return then is not used.
type node struct {
	p       *parser
	step    *Step  // nil outside of the steps
	pointer string // JSON pointer
	raw     []byte // nil if absent
	depth   int    // number of values around it
}

// below returns a member or an element.
func (v node) below(name string, raw []byte) node {
	return node{v.p, v.step, v.pointer + "/" + jsonrpc.PointerToken(name), raw, v.depth + 1}
}

// errorf records a defect of the value.
func (v node) errorf(format string, args ...any) {
	d := Defect{Pointer: v.pointer, Message: fmt.Sprintf(format, args...), index: -1}
	switch n := len(v.p.defects); {
	case n > maxDefects:
		return
	case n == maxDefects:
		d = Defect{Message: fmt.Sprintf("and more: only %d are listed", maxDefects), index: math.MaxInt}
	case v.step != nil:
		d.index = v.step.Index
	}
	v.p.defects = append(v.p.defects, d)
}

// members returns the members of an object, and reports unknown ones. A null member counts as
// absent, except "default".
func (v node) members(known []string) map[string]json.RawMessage {
	all := make(map[string]json.RawMessage)
	for m := range jsonrpc.Members(v.raw) {
		switch name := string(m.Name); {
		case !slices.Contains(known, name):
			hint := v.p.suggest(name, func() []string { return known })
			if hint == "" && len(v.p.defects) < maxDefects {
				hint = "; want one of " + strings.Join(slices.Sorted(slices.Values(known)), ", ")
			}
			v.below(name, nil).errorf("unknown member%s", hint)
		case all[name] != nil:
			v.errorf("%s: duplicate member", quoted(name))
		case string(m.Value) != "null" || name == "default":
			all[name] = m.Value
		}
	}
	return all
}

// decode decodes the value, and reports one that is not what is wanted.
func (v node) decode(to any, want string) bool {
	if json.Unmarshal(v.raw, to) == nil {
		return true
	}
	v.errorf("want %s, have %s", want, shown(v.raw))
	return false
}

func (v node) integer(least, most int) int {
	var x float64
	if json.Unmarshal(v.raw, &x) != nil || x != math.Trunc(x) || x < float64(least) || x > float64(most) {
		wanted := fmt.Sprintf("of at least %d", least)
		if most < noLimit {
			wanted = fmt.Sprintf("from %d to %d", least, most)
		}
		v.errorf("want a whole number %s, have %s", wanted, shown(v.raw))
	}
	return int(x)
}

func (v node) number(most float64) (x float64) {
	if json.Unmarshal(v.raw, &x) != nil || x < 0 || x > most {
		v.errorf("want a number from 0 to %g, have %s", most, shown(v.raw))
	}
	return x
}

// duration parses "1m30s" or a number of seconds.
func (v node) duration() (took time.Duration) {
	var seconds float64
	if text, ok := jsonrpc.String(v.raw); ok {
		took, _ = time.ParseDuration(text)
	} else if json.Unmarshal(v.raw, &seconds) == nil && seconds <= maxSeconds {
		took = time.Duration(seconds * float64(time.Second))
	}
	if took <= 0 || took > maxTimeout {
		v.errorf(`want a number of seconds up to %d, or a text such as "5s" or "2m" up to "24h", have %s`, maxSeconds, shown(v.raw))
	}
	return took
}

// unknownStep reports an id that no step has.
func (v node) unknownStep(id string) {
	if len(v.p.defects) <= maxDefects {
		hint := v.p.suggest(id, func() []string { return slices.Collect(maps.Keys(v.p.byID)) })
		if alone := idAlike.FindString(id); v.p.byID[alone] != nil {
			hint = "; want only the id, " + quoted(alone)
		}
		v.errorf("unknown step %s%s", quoted(id), hint)
	}
}

// suggest returns the end of a message about an unknown name; known, which may be nil, returns all
// known ones. It is empty once there are as many defects as are reported, to save the search.
func (p *parser) suggest(name string, known func() []string) string {
	if len(p.defects) >= maxDefects || known == nil {
		return ""
	}
	return nearest.Question(name, known())
}

var kinds = map[byte]string{'{': "object", '[': "array", '"': "string", 't': "boolean", 'f': "boolean", 'n': "null"}

// kindOf returns the type of a JSON value, by its name in JSON Schema.
func kindOf(raw []byte) string {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return "nothing"
	}
	return cmp.Or(kinds[raw[0]], "number")
}

const maxShown = 60 // bytes of a client's text in a message

// shown returns the beginning of a JSON value, as written.
func shown(raw []byte) string {
	if raw == nil {
		return "nothing"
	}
	return excerpt.Shorten(string(raw), maxShown)
}

// quoted quotes the beginning of a client's text.
func quoted(text string) string { return strconv.Quote(excerpt.Shorten(text, maxShown)) }
