package plan

import (
	"math"

	"mcpschedd/internal/jsonrpc"
)

// Of for_each.
const (
	usualItems = 100
	mostItems  = 10_000
)

const (
	longestID   = 128 // letters
	mostRetries = 5
	mostValue   = 1e9
	usualChance = 0.5 // that an answer is of use, where nothing is known
	usualValue  = 0.5 // of an answer of a tool that is not known
)

var stepMembers = newNames([]string{
	"id", "tool", "arguments", "depends_on", "when", "for_each", "max_items", "max_parallel", "timeout", "retry", "on_error",
	"default", "optional", "value", "probability", "max_tokens",
})

// readStep reads one step of a plan, but its id.
func (src *source) readStep(d *draft) {
	m := src.members(node{d.place, d.step.written}, stepMembers)
	src.readTool(d, m.get("tool"))
	src.arguments(d, m.get("arguments"))
	if v := m.get("when"); v.raw != nil {
		if d.step.When = parseCondition(v, src.knows(d)); d.step.When != nil {
			d.scopes = append(d.scopes, scope{ref: d.step.When.ref})
		}
	}
	src.loop(d, m)
	d.dependsOn = m.get("depends_on").ids(len(src.drafts))
	d.step.Timeout = m.get("timeout").duration()
	d.step.Retry = m.get("retry").whole(0, mostRetries)
	d.step.OnError, d.step.Default = onError(m)
	d.step.Optional = m.get("optional").flag()
	d.step.MaxTokens = m.get("max_tokens").whole(1, anyNumber)
	d.step.Worth = worth(d.step.Tool, m)
}

// arguments reads an object, or the guide's string that holds one.
func (src *source) arguments(d *draft, v node) {
	raw := v.raw
	text, isText := jsonrpc.String(raw)
	if isText {
		if raw = trimmed([]byte(text)); len(raw) > 0 && !jsonrpc.Valid(raw) {
			v.say("want an object, or a string that holds one; this string is %s", broken(raw))
			return
		}
	}
	switch {
	case len(raw) == 0 || string(raw) == "null":
		raw = []byte("{}")
	case raw[0] != '{':
		v.say("want an object, or a string that holds one, have %s", kindOf(raw))
		return
	case isText && ambiguous(raw, v.place):
		return
	}
	if d.step.Arguments = parseTemplate(node{v.place, raw}, src.knows(d)); d.step.Arguments != nil {
		for _, ref := range d.step.Arguments.Refs() {
			d.scopes = append(d.scopes, scope{ref: ref, item: true})
		}
	}
}

// loop reads for_each and what belongs to it.
func (src *source) loop(d *draft, m members) {
	most, parallel := m.get("max_items").whole(1, mostItems), m.get("max_parallel").whole(1, anyNumber)
	if !d.loops {
		for _, name := range []string{"max_items", "max_parallel"} {
			if v := m.get(name); v.raw != nil {
				v.say("only a step with for_each has it")
			}
		}
		return
	}
	if most == 0 {
		most = usualItems
	}
	v := m.get("for_each")
	if ref := parseRef(v, src.knows(d)); ref != nil {
		d.step.ForEach = &ForEach{ref, most, parallel}
		d.scopes = append(d.scopes, scope{ref: ref, loop: true})
	}
}

// onError reads what becomes of the steps that wait for this one if it fails. A default
// of null beside anything else is one that was not given.
func onError(m members) (then OnError, standin []byte) {
	then = Fail
	v, given := m.get("on_error"), m.get("default")
	if v.raw != nil {
		text, _ := jsonrpc.String(v.raw)
		switch then = OnError(text); then {
		case Fail, Skip, Default, Continue:
		default:
			v.say(`want "fail", "skip", "default" or "continue", have %s`, shown(v.raw))
			return Fail, nil
		}
	}
	switch {
	case then == Default && given.raw == nil:
		v.say(`"default" needs a member "default" with the value`)
	case then == Default:
		return then, given.raw
	case given.raw != nil && string(given.raw) != "null":
		given.say(`stands in for a result only with "on_error": "default"`)
	}
	return then, nil
}

// worth reads what the answer is worth: as the plan says, else as the tool's answers are.
func worth(t *Tool, m members) Worth {
	w := Worth{usualValue, usualChance}
	if t != nil {
		w.Value = t.Value
		if t.Probability > 0 {
			w.Probability = t.Probability
		}
	}
	if v := m.get("value"); v.raw != nil {
		w.Value = v.fraction(mostValue)
	}
	if v := m.get("probability"); v.raw != nil {
		w.Probability = v.fraction(1)
	}
	if math.IsNaN(w.Value) || w.Value < 0 {
		w.Value = 0 // of a tool, which is not checked here
	}
	return w
}
