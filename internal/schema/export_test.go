package schema

import (
	"reflect"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// WithinWeight reports whether the compiled schema, with each reference followed as the validator
// does, has no more parts than the weight that was found for it.
func (s *Schema) WithinWeight() bool {
	left := s.weight
	return s.root == nil || within(reflect.ValueOf(s.root), &left)
}

func within(v reflect.Value, left *int) bool {
	switch v.Kind() {
	case reflect.Interface:
		return within(v.Elem(), left)
	case reflect.Slice:
		for i := range v.Len() {
			if !within(v.Index(i), left) {
				return false
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if !within(v.MapIndex(key), left) {
				return false
			}
		}
	case reflect.Pointer:
		if at, ok := reflect.TypeAssert[*jsonschema.Schema](v); ok && at != nil {
			if *left--; *left < 0 || at.DynamicRef != nil || at.RecursiveRef != nil {
				return false
			}
			for i, fields := 0, v.Elem().Type(); i < fields.NumField(); i++ {
				if fields.Field(i).IsExported() && !within(v.Elem().Field(i), left) {
					return false
				}
			}
		}
	}
	return true
}
