package schema

import (
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// MaxEffort is what checking one call's arguments may take, in units of effort. A
// unit is a tenth of a microsecond or less on a core of 2020: they are set by what
// the dearest case of each kind of work was measured to take, in which nothing fits
// and all of it is put into words.
const MaxEffort = 50_000

// What the validator's work is taken to cost, in units.
const (
	perVisit  = 25  // asking one schema about one value
	perMember = 5   // of an object, for each schema asked about it
	perNumber = 10  // making a fraction of a number, and as much for each 30 digits
	perText   = 256 // bytes of a text for one unit
	maxVisits = 200 // schemas within each other

	perMeasured = 8 // units of work are measured with the effort of one
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
	if l := loadOf(at); l != (load{}) {
		s.loads[at] = l
	}
}

// cost is what checking a value takes, as far as that is no more than most; more
// than most otherwise. It takes the steps of the validator, and all alternatives,
// without checking anything: a short schema whose parts refer to each other twice
// each takes 2^n of them.
func (s *Schema) cost(value any, most int) int {
	e := effort{left: most, loads: s.loads, heaviest: heaviest(value)}
	e.visit(s.root, value, 0)
	return most - e.left
}

type effort struct {
	left     int // below zero: too much
	loads    map[*jsonschema.Schema]load
	heaviest int // number in the arguments
}

// visit counts what asking a schema about a value takes. What is deep costs more: a
// fault takes its place along, and a schema looks for itself among those around it.
func (e *effort) visit(at *jsonschema.Schema, value any, depth int) {
	l := e.loads[at]
	e.left -= perVisit + depth/4 + l.list + l.names*(perMember+depth/4)
	if depth > maxVisits {
		e.left = -1
	}
	if e.left < 0 {
		return
	}
	for sub := range inPlace(at) {
		if e.visit(sub, value, depth+1); e.left < 0 {
			return
		}
	}
	switch v := value.(type) {
	case map[string]any:
		e.left -= l.numbers * e.heaviest
		e.object(at, v, depth+1)
	case []any:
		e.left -= l.numbers * e.heaviest
		e.array(at, v, depth+1)
	case json.Number:
		w := weight(v)
		e.left -= w*(1+l.numbers) + l.bounds*(1+w/perNumber)
	case string:
		e.left -= len(v) / perText
		if p, ok := at.Pattern.(*pattern); ok {
			e.left -= p.effort(v)
		}
	}
}

func (e *effort) object(at *jsonschema.Schema, obj map[string]any, depth int) {
	e.left -= len(obj) * (perMember + depth/4)
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
			if e.left -= re.(*pattern).effort(name); e.left < 0 {
				return
			}
			if re.MatchString(name) {
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
	e.left -= 2 * len(arr)
	if at.UniqueItems {
		e.left -= distinct(arr)
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

// distinct is what finding two equal elements takes. Few are compared each with
// each, many by a hash; but that does not tell [[1],2] from [[1,2]], so of lists
// and objects as many may share one as their maker likes.
func distinct(arr []any) int {
	w := weight(arr)
	for _, v := range arr {
		switch v.(type) {
		case map[string]any, []any:
			return w * (1 + len(arr))
		}
	}
	return w * (2 + min(len(arr), 20))
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
