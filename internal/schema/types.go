package schema

import (
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// AnyElement is a path element that means any index. In a JSON pointer it is the element after
// the last one.
const AnyElement = "-"

// typeNames are the JSON Schema types, number before integer.
var typeNames = []string{"null", "boolean", "object", "array", "number", "integer", "string"}

// TypesAt returns the JSON Schema types that a value at a place in the arguments may have: nil if
// any type is allowed or it is not known, and an empty slice if no value is allowed. path has
// names and indexes from the root; [AnyElement] and "*" mean any index.
//
//	s.TypesAt([]string{"issue_number"}) // integer
//
// All alternatives of anyOf and oneOf are included, whatever other members have.
func (s *Schema) TypesAt(path []string) []string {
	if s == nil || s.root == nil {
		return nil
	}
	return typesAt(s.root, path)
}

// typesAt returns the types at a path below a schema; nil means any.
func typesAt(at *jsonschema.Schema, path []string) (is []string) {
	switch {
	case len(path) > 0:
		is = innerTypes(at, path)
	case at.Types != nil:
		is = at.Types.ToStrings()
	case at.Const != nil:
		is = []string{typeName(*at.Const)}
	case at.Enum != nil:
		is = []string{}
		for _, v := range at.Enum.Values {
			is = append(is, typeName(v))
		}
	}
	if at.Ref != nil {
		is = intersect(is, typesAt(at.Ref, path))
	}
	for _, sub := range at.AllOf {
		is = intersect(is, typesAt(sub, path))
	}
	for _, forms := range [...][]*jsonschema.Schema{at.AnyOf, at.OneOf} {
		union := []string{}
		for _, sub := range forms {
			if one := typesAt(sub, path); one == nil || union == nil {
				union = nil
			} else {
				union = append(union, one...)
			}
		}
		if len(forms) > 0 {
			is = intersect(is, union)
		}
	}
	if is == nil || len(intersect(is, typeNames)) == len(typeNames) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(typeNames), func(name string) bool {
		return !slices.Contains(is, name) || name == "integer" && slices.Contains(is, "number")
	})
}

// intersect returns the types that both lists allow; a nil list allows any.
func intersect(a, b []string) []string {
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

// innerTypes returns the types at a path of at least one element: below a member or an element.
func innerTypes(at *jsonschema.Schema, path []string) []string {
	may := func(name string) bool { return at.Types == nil || slices.Contains(at.Types.ToStrings(), name) }
	is := []string{}
	if at.Bool != nil && !*at.Bool {
		return is
	}
	union := func(more []string) {
		if more == nil || is == nil {
			is = nil
		} else {
			is = append(is, more...)
		}
	}
	if may("object") {
		union(memberTypes(at, path))
	}
	i, err := strconv.Atoi(path[0])
	if err != nil || strconv.Itoa(i) != path[0] {
		i = -1
	}
	if may("array") && (i >= 0 || path[0] == AnyElement || path[0] == "*") {
		union(elementTypes(at, i, path[1:]))
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
