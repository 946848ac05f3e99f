package schema

import (
	"encoding/json"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// AnyElement stands for the index of any element in a path. It is what a JSON
// pointer calls the element behind the last one.
const AnyElement = "-"

// maxAsked bounds the schemas that are asked what a place may be: some refer to
// themselves, some to 2^n others.
const maxAsked = 2_000

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
	w := wanter{left: maxAsked}
	is := w.types(s.root, path)
	if is == anyType || is == 0 || w.left < 0 {
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

type wanter struct {
	left int // schemas that may still be asked
}

// types is what a value may be at a path from where a schema is asked.
func (w *wanter) types(at *jsonschema.Schema, path []string) types {
	if w.left--; w.left < 0 {
		return anyType
	}
	is := anyType
	switch {
	case at.Bool != nil && !*at.Bool:
		return 0
	case len(path) == 0:
		is = w.own(at)
	case at.Types != nil && typesOf(at.Types)&(typeObject|typeArray) == 0:
		return 0 // there is nothing in it
	default:
		is = w.inner(at, path)
	}
	if at.Ref != nil {
		is &= w.types(at.Ref, path)
	}
	for _, sub := range at.AllOf {
		is &= w.types(sub, path)
	}
	for _, list := range [...][]*jsonschema.Schema{at.AnyOf, at.OneOf} {
		if len(list) == 0 {
			continue
		}
		var either types
		for _, sub := range list {
			either |= w.types(sub, path)
		}
		is &= either
	}
	return is
}

// own is what a schema itself says of its value.
func (w *wanter) own(at *jsonschema.Schema) types {
	is := anyType
	if at.Types != nil {
		is = typesOf(at.Types)
	}
	if at.Const != nil {
		is &= typeOf(*at.Const)
	}
	if at.Enum != nil {
		w.left -= len(at.Enum.Values) / 8
		var either types
		for _, v := range at.Enum.Values {
			either |= typeOf(v)
		}
		is &= either
	}
	return is
}

// inner is what a schema says of a place within its value. The path does not tell
// an index from a name that looks like one, so both count where the value may be an
// array as well as an object.
func (w *wanter) inner(at *jsonschema.Schema, path []string) types {
	may := typeObject | typeArray
	if at.Types != nil {
		may &= typesOf(at.Types)
	}
	index := indexOf(path[0])
	if index == noIndex {
		may &^= typeArray
	}
	var is types
	if may&typeArray != 0 {
		is = w.element(at, index, path[1:])
	}
	if may&typeObject != 0 {
		is |= w.member(at, path[0], path[1:])
	}
	return is
}

func (w *wanter) member(at *jsonschema.Schema, name string, rest []string) types {
	is, found := anyType, false
	if sub := at.Properties[name]; sub != nil {
		is, found = w.types(sub, rest), true
	}
	for re, sub := range at.PatternProperties {
		if w.left -= re.(*pattern).effort(name) / perVisit; w.left >= 0 && re.MatchString(name) {
			is, found = is&w.types(sub, rest), true
		}
	}
	if sub, ok := at.AdditionalProperties.(*jsonschema.Schema); ok && !found {
		return w.types(sub, rest)
	}
	return is
}

func (w *wanter) element(at *jsonschema.Schema, index int, rest []string) types {
	if index != anyIndex {
		if of := itemSchema(at, index); of != nil {
			return w.types(of, rest)
		}
		return anyType
	}
	first := at.PrefixItems
	if old, ok := at.Items.([]*jsonschema.Schema); ok {
		first = old
	}
	behind := itemSchema(at, len(first))
	if behind == nil {
		return anyType
	}
	is := w.types(behind, rest)
	for _, sub := range first {
		is |= w.types(sub, rest)
	}
	return is
}

const (
	noIndex  = -1
	anyIndex = -2
)

// indexOf is the index that a name in a path may be.
func indexOf(name string) int {
	if name == AnyElement {
		return anyIndex
	}
	i, err := strconv.ParseUint(name, 10, 31)
	if err != nil {
		return noIndex
	}
	return int(i)
}

func typesOf(t *jsonschema.Types) (is types) {
	for _, name := range t.ToStrings() {
		for _, n := range named {
			if n.name == name {
				is |= n.is
			}
		}
	}
	return is
}

func typeOf(v any) types {
	if _, ok := v.(json.Number); ok {
		return typeNumber
	}
	for _, n := range named {
		if n.name == nameOf(v) {
			return n.is
		}
	}
	return 0
}
