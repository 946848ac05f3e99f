package schema

import (
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	maxEffort = 100_000 // to check one call's arguments; a unit is a microsecond or less
	maxVisits = 1_000   // of schemas within each other
)

// inspect looks at every schema that can be reached, refuses what cannot be
// measured, and drops what is not checked.
func (s *Schema) inspect() error {
	seen := map[*jsonschema.Schema]bool{s.root: true}
	for todo := []*jsonschema.Schema{s.root}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !strings.HasPrefix(at.Location, base+"#") {
			return fmt.Errorf("%s: a reference may not leave the document", quoted(at.Location))
		}
		if at.DynamicRef != nil || at.RecursiveRef != nil {
			return fmt.Errorf("%s: references that depend on the way there are not read", quoted(at.Location))
		}
		s.trim(at)
		for sub := range subschemas(at) {
			if !seen[sub] {
				seen[sub] = true
				todo = append(todo, sub)
			}
		}
	}
	return nil
}

// trim drops what a schema only says to its readers, and measures what it lists.
func (s *Schema) trim(at *jsonschema.Schema) {
	at.Format = nil
	at.Title, at.Description, at.Comment = "", "", ""
	at.Default, at.Examples = nil, nil
	list := 0
	if at.Enum != nil {
		list = weight(at.Enum.Values)
	}
	if at.Const != nil {
		list += weight(*at.Const)
	}
	if list > 0 {
		s.lists[at] = list
	}
}

// weight is what comparing a value with another takes.
func weight(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			n += weight(member)
		}
	case []any:
		for _, element := range v {
			n += weight(element)
		}
	case json.Number: // is made a fraction each time
		digits, exponent := parts(string(v))
		n += (digits + exponent) / 64
	}
	return n
}

// affordable reports whether checking the value ends soon. It takes the steps of
// the validator, and all alternatives, without checking anything: a short schema
// whose parts refer to each other twice each takes 2^n of them.
func (s *Schema) affordable(value any) bool {
	e := effort{left: maxEffort, lists: s.lists}
	e.visit(s.root, value, 0)
	return e.left >= 0
}

type effort struct {
	left  int // below zero: too much
	lists map[*jsonschema.Schema]int
}

func (e *effort) visit(at *jsonschema.Schema, value any, depth int) {
	e.left -= 1 + len(at.Required)/8
	if list := e.lists[at]; list > 0 {
		e.left -= list
		if n, ok := value.(json.Number); ok {
			e.left -= list * (weight(n) - 1)
		}
	}
	if depth > maxVisits {
		e.left = -1
	}
	if e.left < 0 {
		return
	}
	for sub := range inPlace(at) {
		e.visit(sub, value, depth+1)
	}
	switch v := value.(type) {
	case map[string]any:
		e.object(at, v, depth+1)
	case []any:
		e.array(at, v, depth+1)
	case string:
		e.left -= len(v) / 512
		if p, ok := at.Pattern.(*pattern); ok {
			e.left -= p.effort(v)
		}
	}
}

func (e *effort) object(at *jsonschema.Schema, obj map[string]any, depth int) {
	e.left -= len(obj) / 8
	for name, value := range obj {
		if e.left < 0 {
			return
		}
		evaluated := false
		if sub := at.Properties[name]; sub != nil {
			evaluated = true
			e.visit(sub, value, depth)
		}
		for re, sub := range at.PatternProperties {
			if e.left -= re.(*pattern).effort(name); e.left >= 0 && re.MatchString(name) {
				evaluated = true
				e.visit(sub, value, depth)
			}
		}
		if sub, ok := at.AdditionalProperties.(*jsonschema.Schema); ok && !evaluated {
			e.visit(sub, value, depth)
		}
		if at.UnevaluatedProperties != nil && !evaluated {
			e.visit(at.UnevaluatedProperties, value, depth)
		}
		if at.PropertyNames != nil {
			e.visit(at.PropertyNames, name, depth)
		}
	}
}

func (e *effort) array(at *jsonschema.Schema, arr []any, depth int) {
	e.left -= len(arr) / 8
	if at.UniqueItems {
		e.left -= weight(arr)
		if len(arr) <= 20 { // are compared each with each
			e.left -= weight(arr) * len(arr) / 2
		}
	}
	for i, value := range arr {
		if e.left < 0 {
			return
		}
		if sub := itemSchema(at, i); sub != nil {
			e.visit(sub, value, depth)
		} else if at.UnevaluatedItems != nil {
			e.visit(at.UnevaluatedItems, value, depth)
		}
		if at.Contains != nil {
			e.visit(at.Contains, value, depth)
		}
	}
}

// itemSchema is what the i-th element of an array has to be; nil if anything.
func itemSchema(at *jsonschema.Schema, i int) *jsonschema.Schema {
	first := at.PrefixItems
	rest := at.Items2020
	switch items := at.Items.(type) { // before 2020-12
	case *jsonschema.Schema:
		rest = items
	case []*jsonschema.Schema:
		first = items
		rest, _ = at.AdditionalItems.(*jsonschema.Schema)
	}
	if i < len(first) {
		return first[i]
	}
	return rest
}

// inPlace yields the schemas that are asked about the same value as at.
func inPlace(at *jsonschema.Schema) iter.Seq[*jsonschema.Schema] {
	return func(yield func(*jsonschema.Schema) bool) {
		for _, sub := range [...]*jsonschema.Schema{at.Ref, at.Not, at.If, at.Then, at.Else} {
			if sub != nil && !yield(sub) {
				return
			}
		}
		for _, list := range [...][]*jsonschema.Schema{at.AllOf, at.AnyOf, at.OneOf} {
			for _, sub := range list {
				if !yield(sub) {
					return
				}
			}
		}
		for _, sub := range at.DependentSchemas {
			if !yield(sub) {
				return
			}
		}
		for _, dependency := range at.Dependencies {
			if sub, ok := dependency.(*jsonschema.Schema); ok && !yield(sub) {
				return
			}
		}
	}
}

// subschemas yields every schema that at refers to or holds; some twice.
func subschemas(at *jsonschema.Schema) iter.Seq[*jsonschema.Schema] {
	return func(yield func(*jsonschema.Schema) bool) {
		for sub := range inPlace(at) {
			if !yield(sub) {
				return
			}
		}
		additional, _ := at.AdditionalProperties.(*jsonschema.Schema)
		old, _ := at.Items.(*jsonschema.Schema)
		oldRest, _ := at.AdditionalItems.(*jsonschema.Schema)
		for _, sub := range [...]*jsonschema.Schema{
			additional, at.PropertyNames, at.UnevaluatedProperties,
			at.Items2020, old, oldRest, at.Contains, at.UnevaluatedItems,
		} {
			if sub != nil && !yield(sub) {
				return
			}
		}
		oldFirst, _ := at.Items.([]*jsonschema.Schema)
		for _, list := range [...][]*jsonschema.Schema{at.PrefixItems, oldFirst} {
			for _, sub := range list {
				if !yield(sub) {
					return
				}
			}
		}
		for _, sub := range at.Properties {
			if !yield(sub) {
				return
			}
		}
		for _, sub := range at.PatternProperties {
			if !yield(sub) {
				return
			}
		}
	}
}
