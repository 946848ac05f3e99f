package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
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

// parseCondition reads what a step says under "when"; nil if something is wrong with it.
// known says what references can lead to (nil: nothing is known).
func parseCondition(v node, known func(id string) bool) *Condition {
	v.raw = trimmed(v.raw)
	c := &Condition{}
	switch {
	case v.raw[0] == '"' || jsonrpc.Get(v.raw, "$ref") != nil:
		if c.ref = parseRef(v, known); c.ref == nil {
			return nil
		}
		return c
	case v.raw[0] != '{':
		v.say("%s, have %s", wantCondition, kindOf(v.raw))
		return nil
	}
	before := len(v.problems.all)
	given := make(map[string]bool)
	for m := range jsonrpc.Members(v.raw) {
		name := string(m.Name)
		given[name] = true
		at := node{v.below(name), m.Value}
		switch name {
		case "ref":
			c.ref = parseRef(at, known)
		case "op":
			if c.op, _ = jsonrpc.String(m.Value); !slices.Contains(operations, c.op) {
				at.say("want one of %s", strings.Join(operations, ", "))
			}
		case "value": // a literal in the forms of arguments, or a reference would be compared as the text it is written with
			if t := parseTemplate(at, known); t != nil {
				if c.value = t.Constant(); c.value == nil {
					at.say("want a value without references")
				}
			}
		default:
			v.say(`%s: not known; want "ref", "op" and "value"`, quoted(name))
		}
	}
	if !given["ref"] || !given["op"] {
		v.say(wantCondition)
	}
	if len(v.problems.all) > before || c.ref == nil {
		return nil
	}
	if message := c.wrongValue(); message != "" {
		v.below("value").say("%s: %s", c.op, message)
		return nil
	}
	return c
}

func (c *Condition) wrongValue() string {
	have := kindOf(c.value)
	switch {
	case c.op == "exists" && c.value != nil && have != "a boolean":
		return "want true, false or nothing, have " + have
	case c.op == "exists":
		return ""
	case c.value == nil:
		return "want a value to compare with"
	case c.op == "in" && have != "an array":
		return "want an array, have " + have
	case (c.op == "lt" || c.op == "gt") && have != "a number" && have != "a string":
		return "want a number or a string, have " + have
	}
	return ""
}

// Holds reports whether the step runs. It is an error if two values cannot be
// compared.
func (c *Condition) Holds(look Lookup) (bool, error) {
	r := *c.ref
	r.Null = false // that nothing is there matters here
	if c.op == "exists" {
		r.Default = nil
	}
	v, err := resolveRef(&r, func(*Ref) (Value, error) {
		v, err := look(c.ref)
		if err == nil && v.JSON == nil {
			err = errGivenUp
		}
		return v, err
	})
	if _, missing := errors.AsType[*Missing](err); missing {
		return c.op == "exists" && string(c.value) == "false", nil
	}
	if err != nil {
		return false, err
	}
	return c.compare(v.JSON)
}

var errGivenUp = errors.New("the step failed")

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
		if kindOf(have) != kindOf(c.value) {
			return false, fmt.Errorf("%s: %s %s: %s cannot be compared with %s", c.ref.At, quoted(c.ref.String()), c.op, kindOf(have), kindOf(c.value))
		}
		order := order(have, c.value)
		return order < 0 && c.op == "lt" || order > 0 && c.op == "gt", nil
	}
	return something(have), nil
}

// something says whether a value is neither null nor false, nor zero or empty.
func something(value []byte) bool {
	switch string(compact(value)) {
	case "null", "false", `""`, "{}", "[]":
		return false
	}
	return kindOf(value) != "a number" || order(value, []byte("0")) != 0
}

// equal says whether two JSON values are the same: numbers by what they are worth, and
// objects whatever their order.
func equal(a, b []byte) bool {
	if kindOf(a) == "a number" && kindOf(b) == "a number" {
		return order(a, b) == 0
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// order is -1, 0 or 1, as one of two numbers or two texts is less than the other, the same
// or more. Whole numbers of 64 bits are compared exactly, as ids are; others as doubles.
func order(a, b []byte) int {
	if text, ok := jsonrpc.String(a); ok {
		other, _ := jsonrpc.String(b)
		return strings.Compare(text, other)
	}
	i, err := strconv.ParseInt(string(a), 10, 64)
	k, wrong := strconv.ParseInt(string(b), 10, 64)
	if err == nil && wrong == nil {
		return cmp.Compare(i, k)
	}
	x, _ := strconv.ParseFloat(string(a), 64) // of what is too large it is infinite
	y, _ := strconv.ParseFloat(string(b), 64)
	return cmp.Compare(x, y)
}
