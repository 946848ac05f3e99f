package schema

import (
	"encoding/json"
	"math/big"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// load is what a schema holds that takes work with each value that it is asked
// about, its parts aside.
type load struct {
	list    int // weight of the values to compare with
	numbers int // how many of these are numbers, or hold them
	names   int // of members that have to be there
	bounds  int // weight of the limits of a number
}

func loadOf(at *jsonschema.Schema) load {
	l := load{names: len(at.Required)}
	if at.Enum != nil {
		l.list, l.numbers = weight(at.Enum.Values), numbers(at.Enum.Values)
	}
	if at.Const != nil {
		l.list, l.numbers = l.list+weight(*at.Const), l.numbers+numbers(*at.Const)
	}
	for _, names := range at.DependentRequired {
		l.names += 1 + len(names)
	}
	for _, dependency := range at.Dependencies {
		names, _ := dependency.([]string)
		l.names += 1 + len(names)
	}
	l.names += len(at.DependentSchemas)
	for _, r := range [...]*big.Rat{at.Minimum, at.Maximum, at.ExclusiveMinimum, at.ExclusiveMaximum} {
		if r != nil {
			l.bounds += 1 + bits(r)/64
		}
	}
	if at.MultipleOf != nil { // a division, and what it gives is reduced
		l.bounds += perNumber + bits(at.MultipleOf)/8
	}
	return l
}

func bits(r *big.Rat) int { return r.Num().BitLen() + r.Denom().BitLen() }

// weight is what comparing a value with another takes, or putting it into a hash.
func weight(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			n += 3 + weight(member)
		}
	case []any:
		for _, element := range v {
			n += weight(element)
		}
	case string:
		n += len(v) / perText
	case json.Number: // is made a fraction each time
		digits, exponent := parts(string(v))
		n = perNumber + (digits+exponent)*perNumber/30
	}
	return n
}

// numbers is how many numbers there are in a value.
func numbers(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			n += numbers(member)
		}
	case []any:
		for _, element := range v {
			n += numbers(element)
		}
	case json.Number:
		n = 1
	}
	return n
}

// heaviest is the weight of the heaviest number in a value.
func heaviest(v any) (most int) {
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			most = max(most, heaviest(member))
		}
	case []any:
		for _, element := range v {
			most = max(most, heaviest(element))
		}
	case json.Number:
		most = weight(v)
	}
	return most
}
