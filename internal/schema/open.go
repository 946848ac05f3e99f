package schema

import (
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// FaultsOpen is all that is wrong with arguments whatever will stand in some places of
// them, which are paths of names and indexes and hold anything yet. Like [Schema.Faults]
// it tells of 20 at most; unlike it, it finds nothing wrong with arguments that it
// cannot read within its bounds.
//
//	s.FaultsOpen([]byte(`{"owner": null, "issue_number": "7"}`), [][]string{{"owner"}})
//	// issue_number: want integer, have string
func (s *Schema) FaultsOpen(arguments []byte, open [][]string) []Fault {
	if s == nil || s.root == nil || slices.ContainsFunc(open, func(at []string) bool { return len(at) == 0 }) {
		return nil
	}
	value, _, err := decode(arguments, argumentLimits)
	left := MaxEffort
	if err != nil || s.afford(value, &left) != nil {
		return nil
	}
	found, err := s.validate(value)
	if err != nil {
		return nil // the validator failed: nothing was found
	}
	if found != nil && len(open) > 0 {
		found = places(open).certain(found)
	}
	if found == nil {
		return nil
	}
	return collected(found, value, "arguments", maxFaults)
}

// places are paths to what is not known.
type places [][]string

// certain is what remains of the faults found if the open places may hold anything;
// nil if nothing does.
func (p places) certain(e *jsonschema.ValidationError) *jsonschema.ValidationError {
	if p.depends(e) {
		return nil
	}
	either := false // of several forms each has to be out of the question
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
	case *kind.AnyOf:
		either = true
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			return e
		}
		either = true
	default:
		return e
	}
	var causes []*jsonschema.ValidationError
	for _, cause := range e.Causes {
		if sure := p.certain(cause); sure != nil {
			causes = append(causes, sure)
		}
	}
	if len(causes) == 0 || either && len(causes) < len(e.Causes) {
		return nil
	}
	remains := *e
	remains.Causes = causes
	return &remains
}

// depends says whether a fault might go away with another value in an open place.
func (p places) depends(e *jsonschema.ValidationError) bool {
	// Whether these count depends on what was found about the whole value.
	for _, keyword := range [...]string{"/then/", "/else/", "/unevaluatedProperties/", "/unevaluatedItems/"} {
		if strings.Contains(e.SchemaURL+"/", keyword) {
			return true
		}
	}
	at := e.InstanceLocation
	within := slices.ContainsFunc(p, func(open []string) bool { return startsWith(at, open) })
	if within {
		return true
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf, *kind.AnyOf, // looked into
		*kind.Type, *kind.FalseSchema, *kind.Required, *kind.DependentRequired, *kind.Dependency,
		*kind.AdditionalProperties, *kind.PropertyNames, *kind.MinProperties, *kind.MaxProperties,
		*kind.MinItems, *kind.MaxItems, *kind.AdditionalItems: // names and numbers of members are known
		return false
	case *kind.OneOf:
		if len(k.Subschemas) == 0 {
			return false
		}
	}
	return slices.ContainsFunc(p, func(open []string) bool { return startsWith(open, at) })
}

func startsWith(path, first []string) bool {
	return len(path) >= len(first) && slices.Equal(path[:len(first)], first)
}
