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

// draft is a step while its plan is read.
type draft struct {
	*Step
	at        string  // JSON pointer of the step
	called    string  // the tool, as it was named
	loop      bool    // it has for_each, be it a broken one
	scope     []scope // its references, and what they may refer to
	dependsOn []mention
	waits     []int // steps that must have ended: what it refers to and depends_on, rising
	must      []int // steps whose results it cannot do without
}

// scope is a reference and whether item and index mean something there.
type scope struct {
	ref  *Ref
	item bool
	loop bool // it is for_each itself
}

// step reads one step of a plan, but its id.
func (r *reading) step(d *draft) {
	m := r.members(d, d.at, d.written, stepMembers)
	if raw := m["tool"]; raw == nil {
		r.say(d, d.at, `missing member "tool"`)
	} else if name, ok := jsonrpc.String(raw); !ok {
		r.say(d, d.at+"/tool", "want a string, have %s", kindOf(raw))
	} else {
		d.called = name
		r.findTool(d)
	}
	r.arguments(d, m["arguments"])
	if raw := m["when"]; raw != nil {
		c, defects := parseCondition(raw, d.at+"/when", r.known(d))
		if !r.note(d, defects...) {
			d.When = c
			d.scope = append(d.scope, scope{ref: c.ref})
		}
	}
	r.loop(d, m)
	d.dependsOn = r.list(d, d.at+"/depends_on", m["depends_on"])
	d.Timeout = r.duration(d, d.at+"/timeout", m["timeout"])
	d.Retry = r.whole(d, d.at+"/retry", m["retry"], 0, mostRetries)
	r.onError(d, m)
	d.Optional = r.flag(d, d.at+"/optional", m["optional"])
	d.MaxTokens = r.whole(d, d.at+"/max_tokens", m["max_tokens"], 1, anyNumber)
	r.worth(d, m)
}

// arguments reads an object, or the guide's string that holds one.
func (r *reading) arguments(d *draft, raw []byte) {
	at := d.at + "/arguments"
	if text, ok := jsonrpc.String(raw); ok {
		if raw = trimmed([]byte(text)); len(raw) > 0 && !jsonrpc.Valid(raw) {
			r.say(d, at, "want an object, or a string that holds one; this string is %s", broken(raw))
			return
		}
	}
	if len(raw) == 0 || string(raw) == "null" {
		raw = []byte("{}")
	}
	if raw[0] != '{' {
		r.say(d, at, "want an object, or a string that holds one, have %s", kindOf(raw))
		return
	}
	if r.ambiguous(d, at, raw) {
		return
	}
	t, defects := parseTemplate(raw, at, r.known(d))
	if !r.note(d, defects...) {
		d.Arguments = t
		for _, ref := range t.Refs() {
			d.scope = append(d.scope, scope{ref: ref, item: true})
		}
	}
}

// loop reads for_each and what belongs to it.
func (r *reading) loop(d *draft, m map[string][]byte) {
	d.MaxItems = r.whole(d, d.at+"/max_items", m["max_items"], 1, mostItems)
	d.MaxParallel = r.whole(d, d.at+"/max_parallel", m["max_parallel"], 1, anyNumber)
	if !d.loop {
		for _, name := range []string{"max_items", "max_parallel"} {
			if m[name] != nil {
				r.say(d, d.at+"/"+name, "only a step with for_each has it")
			}
		}
		return
	}
	if d.MaxItems == 0 {
		d.MaxItems = usualItems
	}
	ref, defects := parseRef(m["for_each"], d.at+"/for_each", r.known(d))
	if !r.note(d, defects...) {
		d.ForEach = ref
		d.scope = append(d.scope, scope{ref: ref, loop: true})
	}
}

// onError reads what becomes of the steps that wait for this one if it fails. A default
// of null beside anything else is one that was not given.
func (r *reading) onError(d *draft, m map[string][]byte) {
	d.OnError = Fail
	if raw := m["on_error"]; raw != nil {
		s, _ := jsonrpc.String(raw)
		switch o := OnError(s); o {
		case Fail, Skip, Default, Continue:
			d.OnError = o
		default:
			r.say(d, d.at+"/on_error", `want "fail", "skip", "default" or "continue", have %s`, shown(raw))
			return
		}
	}
	given := m["default"]
	switch {
	case d.OnError == Default && given == nil:
		r.say(d, d.at+"/on_error", `"default" needs a member "default" with the value`)
	case d.OnError == Default:
		d.Default = given
	case given != nil && string(given) != "null":
		r.say(d, d.at+"/default", `stands in for a result only with "on_error": "default"`)
	}
}

// worth reads what the answer is worth: as the plan says, else as the tool's answers are.
func (r *reading) worth(d *draft, m map[string][]byte) {
	d.Value, d.Probability = usualValue, usualChance
	if d.Tool != nil {
		d.Value = d.Tool.Value
		if d.Tool.Probability > 0 {
			d.Probability = d.Tool.Probability
		}
	}
	if raw := m["value"]; raw != nil {
		d.Value = r.fraction(d, d.at+"/value", raw, mostValue)
	}
	if raw := m["probability"]; raw != nil {
		d.Probability = r.fraction(d, d.at+"/probability", raw, 1)
	}
	if math.IsNaN(d.Value) || d.Value < 0 {
		d.Value = 0 // of a tool, which is not checked here
	}
}
