package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// Condition says whether a step runs: a reference, or {"ref": a reference, "op": …,
// "value": …}.
//
// A reference alone asks for something that is there: what is missing is not, nor is
// null, false, 0, "", an empty array or an empty object. Of the operations, eq and ne
// compare JSON values, numbers by what they are worth (1 is 1.0) and objects whatever
// their order; lt and gt compare two numbers, or two texts by their code points; in
// asks whether the value, an array, holds what is referred to; exists asks whether
// that is there at all, or with false whether it is not.
//
// What is missing fits no operation, ne neither, unless a default stands in for it;
// to exists a default is no matter.
type Condition struct {
	ref   *Ref
	op    string // "": whether there is something
	value []byte // compact JSON; nil: none
}

var operations = []string{"eq", "ne", "lt", "gt", "in", "exists"}

const wantCondition = `want a reference, or {"ref": a reference, "op": "eq", "ne", "lt", "gt", "in" or "exists", "value": …}`

// parseCondition reads what a step says under "when". at is the JSON pointer of it in
// the plan; known says what references can lead to (nil: nothing is known).
func parseCondition(raw []byte, at string, known func(id string) bool) (*Condition, Defects) {
	if !jsonrpc.Valid(raw) {
		return nil, Defects{{Pointer: at, Message: "no valid JSON"}}
	}
	raw = trimmed(raw)
	switch {
	case raw[0] != '"' && raw[0] != '{':
		return nil, Defects{{Pointer: at, Message: wantCondition + ", have " + kindOf(raw)}}
	case raw[0] == '"' || jsonrpc.Get(raw, "$ref") != nil:
		r, defects := parseRef(raw, at, known)
		if defects != nil {
			return nil, defects
		}
		return &Condition{ref: r}, nil
	}
	return parseOperation(raw, at, known)
}

func parseOperation(raw []byte, at string, known func(id string) bool) (*Condition, Defects) {
	p := templateParser{known: known}
	names := p.members(raw, at)
	for m := range jsonrpc.Members(raw) {
		if name := string(m.Name); name != "ref" && name != "op" && name != "value" {
			p.defect(at, quoted(name)+`: not known; want "ref", "op" and "value"`)
		}
	}
	c := &Condition{value: p.operand(jsonrpc.Get(raw, "value"), at+"/value")}
	if !names["ref"] {
		p.defect(at, "no ref: "+wantCondition)
	} else {
		r, defects := parseRef(jsonrpc.Get(raw, "ref"), at+"/ref", known)
		c.ref, p.defects = r, append(p.defects, defects...)
	}
	op := jsonrpc.Get(raw, "op")
	c.op, _ = jsonrpc.String(op)
	switch {
	case op == nil:
		p.defect(at, "no op: "+wantCondition)
	case !slices.Contains(operations, c.op):
		p.defect(at+"/op", fmt.Sprintf("want one of %s", strings.Join(operations, ", ")))
	case len(p.defects) == 0:
		if wrong := c.wrongValue(); wrong != "" {
			p.defect(at+"/value", c.op+": "+wrong)
		}
	}
	if len(p.defects) > 0 {
		return nil, p.defects
	}
	return c, nil
}

// operand is the value to compare with: a literal, but in the forms that one has in
// arguments, or else a reference would be compared as the text it is written with.
func (p *templateParser) operand(raw []byte, at string) []byte {
	if raw == nil {
		return nil
	}
	t, defects := parseTemplate(raw, at, p.known)
	switch {
	case defects != nil:
		p.defects = append(p.defects, defects...)
		return raw
	case t.Constant() == nil:
		p.defect(at, "want a value without references")
		return raw
	}
	return t.Constant()
}

func (c *Condition) wrongValue() string {
	switch {
	case c.op == "exists" && c.value != nil && c.value[0] != 't' && c.value[0] != 'f':
		return "want true, false or nothing, have " + kindOf(c.value)
	case c.op == "exists":
		return ""
	case c.value == nil:
		return "want a value to compare with"
	case c.op == "in" && c.value[0] != '[':
		return "want an array, have " + kindOf(c.value)
	case (c.op == "lt" || c.op == "gt") && kindOf(c.value) != "a number" && c.value[0] != '"':
		return "want a number or a string, have " + kindOf(c.value)
	}
	return ""
}

// Refs are the references in it.
func (c *Condition) Refs() []*Ref { return []*Ref{c.ref} }

// Holds reports whether the step runs. It is an error if two values cannot be
// compared.
func (c *Condition) Holds(look Lookup) (bool, error) {
	r := *c.ref
	r.Null = false // that nothing is there matters here
	if c.op == "exists" {
		r.Default = nil
	}
	given := false
	v, err := resolveRef(&r, func(*Ref) (Value, error) {
		v, err := look(c.ref)
		given = v.JSON != nil
		return v, err
	})
	if _, missing := errors.AsType[*Missing](err); missing || !given && r.Default == nil {
		return c.op == "exists" && string(c.value) == "false", nil
	}
	if err != nil {
		return false, err
	}
	return c.compare(v.JSON)
}

func (c *Condition) compare(have []byte) (bool, error) {
	switch c.op {
	case "exists":
		return string(c.value) != "false", nil
	case "eq":
		return equal(have, c.value), nil
	case "ne":
		return !equal(have, c.value), nil
	case "in":
		for e := range jsonrpc.Elements(c.value) {
			if equal(have, e) {
				return true, nil
			}
		}
		return false, nil
	case "lt", "gt":
		order, wrong := order(have, c.value)
		if wrong != "" {
			return false, fmt.Errorf("%s: %s %s: %s", c.ref.At, quoted(c.ref.String()), c.op, wrong)
		}
		return order < 0 && c.op == "lt" || order > 0 && c.op == "gt", nil
	}
	return something(have), nil
}
