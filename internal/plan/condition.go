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

// Condition decides whether a step runs: a reference, or {"ref": a reference, "op": …, "value":
// …}.
//
// A reference alone holds if the value exists and is not null, false, 0, "", an empty array or an
// empty object. The operators eq and ne compare JSON values: numbers by value (1 equals 1.0) and
// objects regardless of order. lt and gt compare two numbers, or two strings by code points. in
// tests whether the array "value" contains the referenced value. exists tests whether the value
// exists, or with false whether it does not.
//
// A missing value satisfies no operator, not even ne, unless the reference has a default. exists
// ignores the default.
type Condition struct {
	ref   *Ref
	op    string // "" tests for a non-empty value
	value []byte // compact JSON, or nil
}

var operators = []string{"eq", "ne", "lt", "gt", "in", "exists"}

const wantCondition = `want a reference, or {"ref": a reference, "op": "eq", "ne", "lt", "gt", "in" or "exists", "value": …}`

// parseCondition parses "when" of a step, and returns nil after an error. known reports whether a
// step id exists; nil means that this is not known.
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
		v.errorf("%s, have %s", wantCondition, kindOf(v.raw))
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
			if c.op, _ = jsonrpc.String(m.Value); !slices.Contains(operators, c.op) {
				at.errorf("want one of %s", strings.Join(operators, ", "))
			}
		case "value": // a constant in the syntax of arguments, so that a reference is not compared as text
			if t := parseTemplate(at, known); t != nil {
				if c.value = t.Constant(); c.value == nil {
					at.errorf("want a value without references")
				}
			}
		default:
			v.errorf(`%s: not known; want "ref", "op" and "value"`, quoted(name))
		}
	}
	if !given["ref"] || !given["op"] {
		v.errorf(wantCondition)
	}
	if len(v.problems.all) > before || c.ref == nil {
		return nil
	}
	if message := c.wrongValue(); message != "" {
		v.below("value").errorf("%s: %s", c.op, message)
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

// Holds reports whether the step runs. It returns an error if two values cannot be compared.
func (c *Condition) Holds(look Lookup) (bool, error) {
	r := *c.ref
	r.Null = false // a missing value must not become null
	if c.op == "exists" {
		r.Default = nil
	}
	v, err := resolveRef(&r, func(*Ref) (Value, error) {
		v, err := look(c.ref)
		if err == nil && v.JSON == nil {
			err = errNoValue
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

var errNoValue = errors.New("the step failed")

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
		order := compareScalars(have, c.value)
		return order < 0 && c.op == "lt" || order > 0 && c.op == "gt", nil
	}
	return truthy(have), nil
}

// truthy reports whether a value is neither null, false, zero nor empty.
func truthy(value []byte) bool {
	switch string(compact(value)) {
	case "null", "false", `""`, "{}", "[]":
		return false
	}
	return kindOf(value) != "a number" || compareScalars(value, []byte("0")) != 0
}

// equal reports whether two JSON values are equal: numbers by value, objects regardless of order.
func equal(a, b []byte) bool {
	if kindOf(a) == "a number" && kindOf(b) == "a number" {
		return compareScalars(a, b) == 0
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// compareScalars compares two numbers or two strings and returns -1, 0 or 1. 64-bit integers,
// such as ids, are compared exactly, other numbers as float64.
func compareScalars(a, b []byte) int {
	if text, ok := jsonrpc.String(a); ok {
		other, _ := jsonrpc.String(b)
		return strings.Compare(text, other)
	}
	i, err := strconv.ParseInt(string(a), 10, 64)
	k, wrong := strconv.ParseInt(string(b), 10, 64)
	if err == nil && wrong == nil {
		return cmp.Compare(i, k)
	}
	x, _ := strconv.ParseFloat(string(a), 64) // too large numbers become infinite
	y, _ := strconv.ParseFloat(string(b), 64)
	return cmp.Compare(x, y)
}
