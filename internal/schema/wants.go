package schema

import (
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// AnyElement stands for the index of any element in a path. It is what a JSON
// pointer calls the element behind the last one.
const AnyElement = "-"

// types is a set of JSON types, one bit for each.
type types uint8

const (
	typeNull types = 1 << iota
	typeBoolean
	typeObject
	typeArray
	typeInteger
	typeFraction // a number that is not whole
	typeString

	anyType    types = 1<<iota - 1
	typeNumber       = typeInteger | typeFraction
)

// named are the types by the names they have in a schema, number before integer.
var named = [...]struct {
	name string
	is   types
}{
	{"null", typeNull},
	{"boolean", typeBoolean},
	{"object", typeObject},
	{"array", typeArray},
	{"number", typeNumber},
	{"integer", typeInteger},
	{"string", typeString},
}

// Wants is the types that a value may have at a place in the arguments, as JSON
// Schema calls them; nil if any may be there, or it is not known. The path to the
// place is names and indexes from the outermost value on; [AnyElement] is any index.
//
//	s.Wants([]string{"issue_number"}) // integer
//
// Of several forms a value may have, all count, whatever else the arguments hold.
func (s *Schema) Wants(path []string) []string {
	if s == nil || s.root == nil {
		return nil
	}
	is := typesAt(s.root, path)
	if is == anyType {
		return nil
	}
	var names []string
	for _, t := range named {
		if is&t.is == t.is {
			names = append(names, t.name)
			is &^= t.is
		}
	}
	return names
}

// typesAt is what a value may be at a path from where a schema is asked.
func typesAt(at *jsonschema.Schema, path []string) types {
	is := anyType
	switch {
	case at.Bool != nil && !*at.Bool:
		return 0
	case len(path) == 0:
		is = ownTypes(at)
	default:
		is = innerTypes(at, path)
	}
	if at.Ref != nil {
		is &= typesAt(at.Ref, path)
	}
	for _, sub := range at.AllOf {
		is &= typesAt(sub, path)
	}
	for _, forms := range [...][]*jsonschema.Schema{at.AnyOf, at.OneOf} {
		if len(forms) == 0 {
			continue
		}
		var either types
		for _, sub := range forms {
			either |= typesAt(sub, path)
		}
		is &= either
	}
	return is
}

// ownTypes is what a schema itself says of its value.
func ownTypes(at *jsonschema.Schema) types {
	is := declared(at)
	if at.Const != nil {
		is &= typeOf(*at.Const)
	}
	if at.Enum != nil {
		var either types
		for _, v := range at.Enum.Values {
			either |= typeOf(v)
		}
		is &= either
	}
	return is
}

func declared(at *jsonschema.Schema) types {
	if at.Types == nil {
		return anyType
	}
	var is types
	for _, name := range at.Types.ToStrings() {
		for _, t := range named {
			if t.name == name {
				is |= t.is
			}
		}
	}
	return is
}

func typeOf(v any) types {
	for _, t := range named {
		if t.name == nameOf(v) {
			return t.is
		}
	}
	return 0
}

// innerTypes is what a schema says of a place within its value. The path does not tell
// an index from a name that looks like one, so both count where the value may be an
// array as well as an object.
func innerTypes(at *jsonschema.Schema, path []string) (is types) {
	may := declared(at)
	index, err := strconv.ParseUint(path[0], 10, 31)
	if isIndex := err == nil || path[0] == AnyElement; isIndex && may&typeArray != 0 {
		first, rest := elements(at)
		switch {
		case path[0] != AnyElement && int(index) < len(first):
			is = typesAt(first[index], path[1:])
		case rest == nil:
			is = anyType
		default:
			is = typesAt(rest, path[1:])
		}
		if path[0] == AnyElement {
			for _, sub := range first {
				is |= typesAt(sub, path[1:])
			}
		}
	}
	if may&typeObject != 0 {
		is |= memberTypes(at, path[0], path[1:])
	}
	return is
}

func memberTypes(at *jsonschema.Schema, name string, rest []string) types {
	is, found := anyType, false
	if sub := at.Properties[name]; sub != nil {
		is, found = typesAt(sub, rest), true
	}
	for re, sub := range at.PatternProperties {
		if re.MatchString(name) {
			is, found = is&typesAt(sub, rest), true
		}
	}
	if sub, ok := at.AdditionalProperties.(*jsonschema.Schema); ok && !found {
		return typesAt(sub, rest)
	}
	return is
}

// elements are what the first elements of an array have to be, and what the others
// have to; nil: anything.
func elements(at *jsonschema.Schema) (first []*jsonschema.Schema, rest *jsonschema.Schema) {
	switch items := at.Items.(type) { // before 2020-12
	case *jsonschema.Schema:
		return nil, items
	case []*jsonschema.Schema:
		rest, _ = at.AdditionalItems.(*jsonschema.Schema)
		return items, rest
	}
	return at.PrefixItems, at.Items2020
}
