package schema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"mcpschedd/internal/schema"
)

// For any schema and arguments the result is one line and reproducible, the validator does not
// panic, and the weight of the schema bounds what the validator applies.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{
		issues, `{}`, `true`,
		`{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#"},{"type":"null"}]}}}`,
		`{"$id":"http://x/y","properties":{"a":{"$id":"z","$anchor":"q","$ref":"#q"}},"unevaluatedProperties":{"$ref":"y#/properties/a"}}`,
		`{"$schema":"http://json-schema.org/draft-06/schema#","dependencies":{"a":["b"],"c":{"not":{}}},"items":[{},{}],"additionalItems":false}`,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"if":true,"then":{"contains":{"minimum":1e3}},"minContains":2}`,
		`{"$ref":"#/$defs/a","$defs":{"a":{}},"$defs":{"a":{"$schema":"http://json-schema.org/draft-04/schema#","id":"x","items":{"$ref":"#/definitions/b"},"definitions":{"b":{}}}},"definitions":{"b":{"$ref":"#/enum/0"}},"enum":[{"$id":"y"}]}`,
		`{"patternProperties":{"^(a|b)+$":{"const":1.0}},"propertyNames":{"pattern":"x{3}"},"enum":[{"a":1},null,"\ud800"]}`,
	} {
		f.Add([]byte(s), []byte(`{"owner":"o","repo":"r","a":[1,"x",{"b":null}]}`))
	}
	f.Fuzz(func(t *testing.T, raw, arguments []byte) {
		s, err := schema.Compile(raw)
		oneLine(t, err)
		if (s == nil) != (err != nil) {
			t.Errorf("got schema %v, error %v", s, err)
		}
		if s != nil && !s.WithinWeight() {
			t.Fatalf("%s: the validator applies more parts than were weighed", raw)
		}
		first := s.Check(arguments)
		oneLine(t, first)
		again, err := schema.Compile(raw)
		oneLine(t, err)
		if second := again.Check(arguments); text(first) != text(second) {
			t.Errorf("Check(%s): got %v, then %v", arguments, first, second)
		}
		if first == nil && !json.Valid(arguments) {
			t.Errorf("%q: no error, and no JSON", arguments)
		}
	})
}

func oneLine(t *testing.T, err error) {
	t.Helper()
	s := text(err)
	if len(s) > 700 || strings.ContainsAny(s, "\n\r") || strings.Contains(s, "the validator failed") {
		t.Errorf("got error %q", s)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
