package plan

import (
	"math"

	"mcpschedd/internal/jsonrpc"
)

// Defaults and limits of for_each.
const (
	defaultMaxItems = 100
	maxItemsLimit   = 10_000
)

const (
	maxIDLen           = 128 // characters
	maxRetries         = 5
	maxWorth           = 1e9
	defaultProbability = 0.5 // probability that a result is useful, if not known
	defaultValue       = 0.5 // value of a result, if the tool is not known
)

var stepMembers = newNames([]string{
	"id", "tool", "arguments", "depends_on", "when", "for_each", "max_items", "max_parallel", "timeout", "retry", "on_error",
	"default", "optional", "value", "probability", "max_tokens",
})

// readStep parses one step except its id.
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
	d.step.Retry = m.get("retry").integer(0, maxRetries)
	d.step.OnError, d.step.Default = onError(m)
	d.step.Optional = m.get("optional").flag()
	d.step.MaxTokens = m.get("max_tokens").integer(1, noLimit)
	d.step.Worth = worth(d.step.Tool, m)
}

// arguments parses an object, or a string that contains one.
func (src *source) arguments(d *draft, v node) {
	raw := v.raw
	text, isText := jsonrpc.String(raw)
	if isText {
		if raw = trimmed([]byte(text)); len(raw) > 0 && !jsonrpc.Valid(raw) {
			v.errorf("want an object, or a string that contains one; this string is %s", syntaxError(raw))
			return
		}
	}
	switch {
	case len(raw) == 0 || string(raw) == "null":
		raw = []byte("{}")
	case raw[0] != '{':
		v.errorf("want an object, or a string that contains one, have %s", kindOf(raw))
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

// loop parses for_each and its related members.
func (src *source) loop(d *draft, m members) {
	maxItems, parallel := m.get("max_items").integer(1, maxItemsLimit), m.get("max_parallel").integer(1, noLimit)
	if !d.loops {
		for _, name := range []string{"max_items", "max_parallel"} {
			if v := m.get(name); v.raw != nil {
				v.errorf("only a step with for_each has it")
			}
		}
		return
	}
	if maxItems == 0 {
		maxItems = defaultMaxItems
	}
	v := m.get("for_each")
	if ref := parseRef(v, src.knows(d)); ref != nil {
		d.step.ForEach = &ForEach{ref, maxItems, parallel}
		d.scopes = append(d.scopes, scope{ref: ref, loop: true})
	}
}

// onError parses on_error and default. A null default counts as absent unless on_error is
// "default".
func onError(m members) (then OnError, value []byte) {
	then = Fail
	v, given := m.get("on_error"), m.get("default")
	if v.raw != nil {
		text, _ := jsonrpc.String(v.raw)
		switch then = OnError(text); then {
		case Fail, Skip, Default, Continue:
		default:
			v.errorf(`want "fail", "skip", "default" or "continue", have %s`, display(v.raw))
			return Fail, nil
		}
	}
	switch {
	case then == Default && given.raw == nil:
		v.errorf(`"default" needs a member "default" with the value`)
	case then == Default:
		return then, given.raw
	case given.raw != nil && string(given.raw) != "null":
		given.errorf(`stands in for a result only with "on_error": "default"`)
	}
	return then, nil
}

// worth returns the worth of the result: from the plan, or else from the tool.
func worth(t *Tool, m members) Worth {
	w := Worth{defaultValue, defaultProbability}
	if t != nil {
		w.Value = t.Value
		if t.Probability > 0 {
			w.Probability = t.Probability
		}
	}
	if v := m.get("value"); v.raw != nil {
		w.Value = v.float(maxWorth)
	}
	if v := m.get("probability"); v.raw != nil {
		w.Probability = v.float(1)
	}
	if math.IsNaN(w.Value) || w.Value < 0 {
		w.Value = 0 // a tool's value is not validated
	}
	return w
}
