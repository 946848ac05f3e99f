package schema

import (
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// FaultsOpen is what is wrong with arguments whatever will stand in some places of
// them, which are paths of names and indexes and hold anything yet. What may depend on
// them is not found wrong. Unlike [Schema.Faults] it finds nothing wrong with arguments
// that it cannot read within its bounds.
//
//	s.FaultsOpen([]byte(`{"owner": null, "issue_number": "7"}`), [][]string{{"owner"}})
//	// issue_number: want integer, have string
func (s *Schema) FaultsOpen(arguments []byte, open [][]string) []Fault {
	value, effort, err := s.read(arguments)
	if err != nil || slices.ContainsFunc(open, func(at []string) bool { return len(at) == 0 }) {
		return nil
	}
	return s.affordable(value, effort, open)
}

// places are paths to what is not known.
type places [][]string

// decide reports whether a fault might go away with another value in one of the places.
func (p places) decide(e *jsonschema.ValidationError) bool {
	if p == nil {
		return false
	}
	// Whether these count depends on what was found about the whole value.
	for _, keyword := range [...]string{"/then/", "/else/", "/unevaluatedProperties/", "/unevaluatedItems/"} {
		if strings.Contains(e.SchemaURL+"/", keyword) {
			return true
		}
	}
	at := e.InstanceLocation
	if slices.ContainsFunc(p, func(open []string) bool { return startsWith(at, open) }) {
		return true
	}
	switch e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf, // their causes are looked at
		*kind.Type, *kind.FalseSchema, *kind.Required, *kind.DependentRequired, *kind.Dependency,
		*kind.AdditionalProperties, *kind.PropertyNames, *kind.MinProperties, *kind.MaxProperties,
		*kind.MinItems, *kind.MaxItems, *kind.AdditionalItems: // names and numbers of members are known
		return false
	}
	return slices.ContainsFunc(p, func(open []string) bool { return startsWith(open, at) })
}

func startsWith(path, first []string) bool {
	return len(path) >= len(first) && slices.Equal(path[:len(first)], first)
}
