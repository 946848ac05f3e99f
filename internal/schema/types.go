package schema

import (
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// typeNames are the JSON Schema types.
var typeNames = []string{"null", "boolean", "object", "array", "integer", "number", "string"}

// typeSet is a set of types, a bit for each of typeNames. One that has number has integer too.
type typeSet uint8

const anyType typeSet = 1<<7 - 1

func setOf(names ...string) (set typeSet) {
	for _, name := range names {
		set |= 1 << slices.Index(typeNames, name)
		if name == "number" {
			set |= setOf("integer")
		}
	}
	return set
}

// TypesAt returns the JSON Schema types that a value at a place in the arguments may have: nil if
// any type is allowed or it is not known, and an empty slice if no value is allowed. path has
// names and indexes from the root; "*" means any index.
//
//	s.TypesAt([]string{"issue_number"}) // integer
//
// All alternatives of anyOf and oneOf are included, whatever other members have.
func (s *Schema) TypesAt(path []string) []string {
	if s == nil {
		return nil
	}
	set := typesAt(s.root, path)
	if set == anyType {
		return nil
	}
	names := []string{}
	for _, name := range typeNames {
		if set&setOf(name) == setOf(name) && (name != "integer" || set&setOf("number") != setOf("number")) {
			names = append(names, name)
		}
	}
	return names
}

// typesAt returns the types at a path below a schema.
func typesAt(at *jsonschema.Schema, path []string) typeSet {
	set := anyType
	switch {
	case at.Bool != nil && !*at.Bool:
		return 0
	case len(path) > 0:
		set = innerTypes(at, path)
	case at.Types != nil:
		set = setOf(at.Types.ToStrings()...)
	case at.Const != nil:
		set = setOf(typeName(*at.Const))
	case at.Enum != nil:
		set = 0
		for _, v := range at.Enum.Values {
			set |= setOf(typeName(v))
		}
	}
	if at.Ref != nil {
		set &= typesAt(at.Ref, path)
	}
	for _, sub := range at.AllOf {
		set &= typesAt(sub, path)
	}
	for _, forms := range [...][]*jsonschema.Schema{at.AnyOf, at.OneOf} {
		union := typeSet(0)
		for _, sub := range forms {
			union |= typesAt(sub, path)
		}
		if len(forms) > 0 {
			set &= union
		}
	}
	return set
}

// innerTypes returns the types at a path of at least one element: below a member or an element.
func innerTypes(at *jsonschema.Schema, path []string) (set typeSet) {
	may := func(name string) bool { return at.Types == nil || slices.Contains(at.Types.ToStrings(), name) }
	if may("object") {
		set |= memberTypes(at, path)
	}
	i, err := strconv.ParseUint(path[0], 10, 31)
	isIndex := err == nil && strconv.FormatUint(i, 10) == path[0]
	if may("array") && (isIndex || path[0] == "*") {
		set |= elementTypes(at, int(i), isIndex, path[1:])
	}
	return set
}

func memberTypes(at *jsonschema.Schema, path []string) typeSet {
	if sub := at.Properties[path[0]]; sub != nil {
		return typesAt(sub, path[1:])
	}
	more, isSchema := at.AdditionalProperties.(*jsonschema.Schema)
	switch {
	case len(at.PatternProperties) > 0:
	case isSchema:
		return typesAt(more, path[1:])
	case at.AdditionalProperties == false:
		return 0
	}
	return anyType
}

func elementTypes(at *jsonschema.Schema, i int, known bool, path []string) typeSet {
	if known && i < len(at.PrefixItems) {
		return typesAt(at.PrefixItems[i], path)
	}
	if at.Items2020 == nil || len(at.PrefixItems) > 0 {
		return anyType
	}
	return typesAt(at.Items2020, path)
}
