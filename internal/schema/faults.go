package schema

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// maxFaults is how many things that are wrong with the same arguments are told.
const maxFaults = 20

// Fault is one thing that is wrong with arguments.
type Fault struct {
	Path    []string // names and indexes from the arguments on; none: the arguments themselves
	Message string   // what is wrong there, and what was wanted; values are not repeated in it
	place   string   // Path for a reader
	want    []string // the types that the value may have, where it has another
}

// String is the fault in one line that names the member, as [Schema.Check] has it.
func (f Fault) String() string { return f.place + ": " + f.Message }

// Faults is all that is wrong with arguments, where [Schema.Check] reports the first
// thing: at most 20 of them, in the order of their places. There are none exactly if
// Check finds nothing wrong.
//
//	s.Faults([]byte(`{"owner": 7, "issue_number": "7"}`))
//	// issue_number: want integer, have string
//	// owner: want string, have number
func (s *Schema) Faults(arguments []byte) []Fault {
	left := 2 * MaxEffort
	value, found, err := s.find(arguments, &left)
	switch {
	case err != nil:
		return []Fault{{Message: strings.TrimPrefix(err.Error(), "arguments: "), place: "arguments"}}
	case found == nil:
		return nil
	}
	return collected(found, value, "arguments", maxFaults)
}

// collected are the faults that the validator found in a value, which comes by them in
// any order: those whose places come first, as many as are asked for, and at least one.
func collected(found *jsonschema.ValidationError, value any, whole string, most int) []Fault {
	c := collector{most: most}
	c.collect(found)
	if len(c.all) == 0 {
		return []Fault{{Message: "not what it has to be", place: whole}}
	}
	order := func(a, b Fault) int {
		return cmp.Or(slices.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	}
	if most == 1 { // of each call that is checked: no need to put the others in order
		c.all = []Fault{slices.MinFunc(c.all, order)}
	} else {
		slices.SortFunc(c.all, order)
		c.all = slices.CompactFunc(c.all, func(a, b Fault) bool { return order(a, b) == 0 })
		c.all = c.all[:min(len(c.all), most)]
	}
	for i := range c.all {
		f := &c.all[i]
		f.place, f.Message = path(f.Path, value, whole), short(f.Message)
	}
	return c.all
}

// collector takes what the validator found apart.
type collector struct {
	all  []Fault
	most int // that are asked for
}

func (c *collector) add(at []string, message string) {
	c.all = append(c.all, Fault{Path: at, Message: message})
}

func (c *collector) collect(e *jsonschema.ValidationError) {
	at := e.InstanceLocation
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		for _, cause := range e.Causes {
			c.collect(cause)
		}
	case *kind.AnyOf:
		c.alternatives(e)
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			c.add(at, "fits more than one of the forms it may have")
		} else {
			c.alternatives(e)
		}
	case *kind.Required:
		c.members(at, k.Missing, "missing")
	case *kind.DependentRequired:
		c.members(at, k.Missing, "missing beside "+quoted(k.Prop))
	case *kind.Dependency:
		c.members(at, k.Missing, "missing beside "+quoted(k.Prop))
	case *kind.AdditionalProperties:
		c.members(at, k.Properties, "not allowed")
	case *kind.PropertyNames:
		c.add(nil, "a member may not be called "+quoted(k.Property)) // its place is not to be relied on
	case *kind.Type:
		c.mistyped(at, k.Want, k.Got)
	case *kind.Enum:
		c.unlike(at, limit(k), others(k.Got, k.Want))
	case *kind.Const:
		c.unlike(at, limit(k), others(k.Got, []any{k.Want}))
	default:
		c.add(at, limit(e.ErrorKind))
	}
}

func (c *collector) mistyped(at, want []string, have string) {
	c.unlike(at, fmt.Sprintf("want %s, have %s", strings.Join(want, " or "), have), want)
}

func (c *collector) unlike(at []string, message string, want []string) {
	c.all = append(c.all, Fault{Path: at, Message: message, want: want})
}

// alternatives explains a value that fits none of several schemas. Where all of
// them want another type, those are named; where all but one do, that one was
// meant.
func (c *collector) alternatives(e *jsonschema.ValidationError) {
	var want []string
	var meant []*jsonschema.ValidationError
	have := ""
	for _, cause := range e.Causes {
		if k, ok := cause.ErrorKind.(*kind.Type); ok && len(cause.InstanceLocation) == len(e.InstanceLocation) {
			want, have = append(want, k.Want...), k.Got
		} else {
			meant = append(meant, cause)
		}
	}
	switch {
	case len(meant) == 1:
		c.collect(meant[0])
	case len(meant) == 0 && len(want) > 0:
		slices.Sort(want)
		c.mistyped(e.InstanceLocation, slices.Compact(want), have)
	default:
		c.add(e.InstanceLocation, fmt.Sprintf("fits none of the %d forms it may have", len(e.Causes)))
	}
}

// members adds one fault for each of several members, as far as they would be told.
func (c *collector) members(at, names []string, message string) {
	switch {
	case len(names) == 0:
		return
	case c.most == 1:
		names = []string{slices.Min(names)}
	default:
		names = slices.Sorted(slices.Values(names))
		names = names[:min(len(names), c.most)]
	}
	for _, name := range names {
		c.add(append(slices.Clone(at), name), message)
	}
}

// validate is what the validator finds wrong with a value; nil: nothing. It is an
// error if it fails.
func (s *Schema) validate(value any) (found *jsonschema.ValidationError, err error) {
	defer unharmed(&err)
	wrong := s.root.Validate(value)
	if wrong == nil {
		return nil, nil
	}
	found, ok := errors.AsType[*jsonschema.ValidationError](wrong)
	if !ok {
		return nil, fmt.Errorf("arguments: %s", short(wrong.Error()))
	}
	return found, nil
}
