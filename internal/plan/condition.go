package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// condition decides whether a step runs: a reference, or {"ref": a reference, "op": …, "value":
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
type condition struct {
	ref   *Ref
	op    string // "" tests for a non-empty value
	value any    // as normal returns it
	kind  string // JSON type of value
}

var operators = []string{"eq", "ne", "lt", "gt", "in", "exists"}

// condition parses "when" of a step, and returns nil after an error.
func (v node) condition() *condition {
	if kindOf(v.raw) == "string" || jsonrpc.Get(v.raw, "$ref") != nil {
		if r := v.reference(); r != nil {
			return &condition{ref: r}
		}
		return nil
	}
	known := len(v.p.defects)
	if kindOf(v.raw) != "object" || jsonrpc.Get(v.raw, "ref") == nil {
		v.errorf(`want a reference, or {"ref": a reference, "op": …, "value": …}, have %s`, shown(v.raw))
		return nil
	}
	members := v.members([]string{"ref", "op", "value"})
	c := &condition{ref: v.below("ref", members["ref"]).reference()}
	if c.op, _ = jsonrpc.String(members["op"]); !slices.Contains(operators, c.op) {
		v.below("op", nil).errorf("want one of %s; gt is >, lt is <", strings.Join(operators, ", "))
		return nil
	}
	value := v.below("value", jsonrpc.Get(v.raw, "value")) // it may be null
	constant := value.template()
	switch kind := kindOf(value.raw); {
	case refsIn(constant) != nil:
		value.errorf("want a value without references")
	case c.op == "exists" && value.raw != nil && kind != "boolean" && kind != "null":
		value.errorf("exists: want true, false or nothing, have %s", kind)
	case c.op != "exists" && value.raw == nil:
		value.errorf("%s: want a value to compare with", c.op)
	case c.op == "in" && kind != "array":
		value.errorf("in: want an array, have %s", kind)
	case (c.op == "lt" || c.op == "gt") && kind != "number" && kind != "string":
		value.errorf("%s: want a number or a string, have %s", c.op, kind)
	}
	if len(v.p.defects) > known || v.p.tooMuch() {
		return nil
	}
	raw := render(constant)
	c.value, c.kind = normal(decoded(raw)), kindOf(raw)
	return c
}

// holds reports whether the step runs, given the outcomes of the steps that have ended. why says
// what may be a mistake if it does not: a missing value, or one of another type. It returns an error
// if two values have no order.
func (c *condition) holds(outcome func(id string) (*Value, error)) (holds bool, why string, err error) {
	r := *c.ref
	r.Null = false // a missing value must not become null
	if c.op == "exists" {
		r.Default = nil
	}
	v, err := outcome(r.Step)
	if v != nil || r.Default != nil {
		if v, err = r.resolve(v, err); err != nil && !errors.Is(err, errMissing) {
			return false, "", err
		}
	}
	switch {
	case v != nil:
	case c.op == "exists":
		return c.value == false, "", nil
	case err != nil:
		return false, ": " + err.Error(), nil
	default:
		return false, "", nil
	}
	switch c.op {
	case "exists":
		return c.value != false, "", nil
	case "":
		return !isEmpty(v.JSON), "", nil
	}
	have := normal(decoded(v.JSON))
	switch c.op {
	case "eq", "ne":
		if kind := kindOf(v.JSON); c.op == "eq" && kind != c.kind && kind != "null" && c.kind != "null" {
			why = fmt.Sprintf(": %s is of type %s, and value of type %s", quoted(c.ref.String()), kind, c.kind)
		}
		return reflect.DeepEqual(have, c.value) == (c.op == "eq"), why, nil
	case "in":
		return slices.ContainsFunc(c.value.([]any), func(one any) bool { return reflect.DeepEqual(have, one) }), "", nil
	}
	order, ok := compare(have, c.value) // lt and gt
	if !ok {
		return false, "", fmt.Errorf("%s: %s %s: cannot compare %s with value, which is of another type", c.ref.at.pointer, quoted(c.ref.String()), c.op, kindOf(v.JSON))
	}
	return order < 0 && c.op == "lt" || order > 0 && c.op == "gt", "", nil
}

// isEmpty reports whether a value is null, false, 0, "", or an array or object with nothing in it. It
// decodes only single values, as lists may be large.
func isEmpty(value []byte) bool {
	switch kindOf(value) {
	case "array", "object", "string":
		return length(value) == 0
	}
	return slices.Contains([]any{nil, false, int64(0)}, normal(decoded(value)))
}

// decoded decodes JSON, with numbers as written.
func decoded(raw []byte) (value any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	_ = d.Decode(&value) // raw is valid or empty
	return value
}

// normal replaces the numbers in a decoded value, so that equal values are deeply equal:
// integers become int64, such as ids, and other numbers float64. A number with a fraction or an exponent
// counts as the nearest float64, also if that is an integer.
func normal(value any) any {
	switch value := value.(type) {
	case json.Number:
		if i, err := value.Int64(); err == nil {
			return i
		}
		x, _ := value.Float64() // too large numbers become infinite
		if x == math.Trunc(x) && math.Abs(x) < 1<<63 {
			return int64(x)
		}
		return x
	case []any:
		for i := range value {
			value[i] = normal(value[i])
		}
	case map[string]any:
		for name, member := range value {
			value[name] = normal(member)
		}
	}
	return value
}

// compare compares two numbers, exactly, or two strings.
func compare(a, b any) (order int, ok bool) {
	if x, isText := a.(string); isText {
		y, isText := b.(string)
		return cmp.Compare(x, y), isText
	}
	x, y := exact(a), exact(b)
	if x == nil || y == nil {
		return 0, false
	}
	return x.Cmp(y), true
}

// exact returns a number without loss: a float64 cannot hold every int64. It returns nil for any
// other value.
func exact(value any) *big.Float {
	switch value := value.(type) {
	case int64:
		return new(big.Float).SetInt64(value)
	case float64:
		return big.NewFloat(value)
	}
	return nil
}
