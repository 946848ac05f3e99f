package schema

import (
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// AnyElement stands for the index of any element in a path. It is what a JSON
// pointer calls the element behind the last one.
const AnyElement = "-"

// typeNames are all types in JSON Schema, number before integer.
var typeNames = []string{"null", "boolean", "object", "array", "number", "integer", "string"}

// Wants is the types that a value may have at a place in the arguments, as JSON
// Schema calls them; nil if any may be there, or it is not known, and none at all if nothing
// can be there. The path to the place is names and indexes from the outermost value on;
// [AnyElement], or "*", is any index.
//
//	s.Wants([]string{"issue_number"}) // integer
//
// Of several forms a value may have, all count, whatever else the arguments hold.
func (s *Schema) Wants(path []string) []string {
	if s == nil || s.root == nil {
		return nil
	}
	return typesAt(s.root, path)
}

// typesAt is what a value may be at a path from where a schema is asked; nil: anything.
func typesAt(at *jsonschema.Schema, path []string) (is []string) {
	switch {
	case len(path) > 0:
		is = innerTypes(at, path)
	case at.Types != nil:
		is = at.Types.ToStrings()
	case at.Const != nil:
		is = []string{nameOf(*at.Const)}
	case at.Enum != nil:
		is = []string{}
		for _, v := range at.Enum.Values {
			is = append(is, nameOf(v))
		}
	}
	if at.Ref != nil {
		is = both(is, typesAt(at.Ref, path))
	}
	for _, sub := range at.AllOf {
		is = both(is, typesAt(sub, path))
	}
	for _, forms := range [...][]*jsonschema.Schema{at.AnyOf, at.OneOf} {
		either := []string{}
		for _, sub := range forms {
			if one := typesAt(sub, path); one == nil || either == nil {
				either = nil
			} else {
				either = append(either, one...)
			}
		}
		if len(forms) > 0 {
			is = both(is, either)
		}
	}
	if is == nil || len(both(is, typeNames)) == len(typeNames) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(typeNames), func(name string) bool {
		return !slices.Contains(is, name) || name == "integer" && slices.Contains(is, "number")
	})
}

// both are the types that are in either list, as far as both say something.
func both(a, b []string) []string {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	var out = []string{}
	for _, name := range typeNames {
		if allows(a, name) && allows(b, name) {
			out = append(out, name)
		}
	}
	return out
}

func allows(types []string, name string) bool {
	return slices.Contains(types, name) || name == "integer" && slices.Contains(types, "number")
}

// innerTypes is what a schema says of a place within its value: in a member, or in an element
// of an array.
func innerTypes(at *jsonschema.Schema, path []string) []string {
	may := func(name string) bool { return at.Types == nil || slices.Contains(at.Types.ToStrings(), name) }
	is := []string{}
	if at.Bool != nil && !*at.Bool {
		return is
	}
	either := func(more []string) {
		if more == nil || is == nil {
			is = nil
		} else {
			is = append(is, more...)
		}
	}
	if may("object") {
		either(memberTypes(at, path))
	}
	i, err := strconv.Atoi(path[0])
	if err != nil || strconv.Itoa(i) != path[0] {
		i = -1
	}
	if may("array") && (i >= 0 || path[0] == AnyElement || path[0] == "*") {
		either(elementTypes(at, i, path[1:]))
	}
	return is
}

func memberTypes(at *jsonschema.Schema, path []string) []string {
	if sub := at.Properties[path[0]]; sub != nil {
		return typesAt(sub, path[1:])
	}
	if len(at.PatternProperties) > 0 {
		return nil
	}
	switch more := at.AdditionalProperties.(type) {
	case *jsonschema.Schema:
		return typesAt(more, path[1:])
	case bool:
		if !more {
			return []string{}
		}
	}
	return nil
}

func elementTypes(at *jsonschema.Schema, i int, path []string) []string {
	if i >= 0 && i < len(at.PrefixItems) {
		return typesAt(at.PrefixItems[i], path)
	}
	items, ok := at.Items.(*jsonschema.Schema) // before 2020-12
	if !ok {
		items = at.Items2020
	}
	if items == nil || len(at.PrefixItems) > 0 {
		return nil
	}
	return typesAt(items, path)
}
