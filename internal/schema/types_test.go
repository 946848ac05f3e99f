package schema_test

import (
	"strings"
	"testing"

	"mcpschedd/internal/schema"
)

func TestTypesAt(t *testing.T) {
	for _, c := range []struct{ name, schema, path, want string }{
		{"a type", `{"properties":{"a":{"type":"integer"}}}`, "a", "integer"},
		{"several", `{"properties":{"a":{"type":["string","null"]}}}`, "a", "null string"},
		{"a number may be whole", `{"properties":{"a":{"type":["number","integer"]}}}`, "a", "number"},
		{"all there are", `{"properties":{"a":{"type":["null","boolean","object","array","number","string"]}}}`, "a", ""},
		{"the arguments themselves", `{"type":"object"}`, "", "object"},
		{"nothing said", `{"properties":{"a":{"description":"x"}}}`, "a", ""},
		{"unknown member", `{"properties":{"a":{"type":"string"}}}`, "b", ""},
		{"additional member", `{"properties":{"a":{}},"additionalProperties":{"type":"string"}}`, "b", "string"},
		{"a member is not additional", `{"properties":{"a":{}},"additionalProperties":{"type":"string"}}`, "a", ""},
		{"no additional members", `{"additionalProperties":false}`, "b", ""},
		{"within", `{"properties":{"a":{"properties":{"b":{"type":"string"}}}}}`, "a b", "string"},
		{"elements", `{"properties":{"a":{"type":"array","items":{"type":"string"}}}}`, "a 7", "string"},
		{"elements of elements", `{"properties":{"a":{"type":"array","items":{"type":"array","items":{"type":"string"}}}}}`, "a 7 0", "string"},
		{"any of some that are free", `{"properties":{"a":{"type":"array","prefixItems":[{"type":"string"}]}}}`, "a -", ""},
		{"a reference", `{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"string"}}}`, "a", "string"},
		{"old definitions", `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"$ref":"#/definitions/x"}},"definitions":{"x":{"type":"string"}}}`, "a", "string"},
		{"a reference in a part with its own dialect", `{"$ref":"#/$defs/d","$defs":{"d":{"$schema":"http://json-schema.org/draft-04/schema#","id":"x","allOf":[{"$ref":"#/definitions/a"}],"definitions":{"a":{"$ref":"#/definitions/a"}}}},"definitions":{"a":{"properties":{"a":{"type":"string"}}}}}`, "a", "string"},
		{"either", `{"properties":{"a":{"anyOf":[{"type":"integer"},{"type":"null"}]}}}`, "a", "null integer"},
		{"either, or anything", `{"properties":{"a":{"oneOf":[{"type":"integer"},{"minimum":3}]}}}`, "a", ""},
		{"both", `{"properties":{"a":{"allOf":[{"type":["integer","null"]},{"type":["number","string"]}]}}}`, "a", "integer"},
		{"both cannot be", `{"properties":{"a":{"allOf":[{"type":"integer"},{"type":"string"}]}}}`, "a", ""},
		{"a form, and what is said beside it", `{"properties":{"a":{"type":["string","integer"],"anyOf":[{"type":"integer"},{"type":"null"}]}}}`, "a", "integer"},
		{"a list", `{"properties":{"a":{"enum":["x","y",null]}}}`, "a", "null string"},
		{"numbers", `{"properties":{"a":{"enum":[1,2]}}}`, "a", "number"},
		{"a constant", `{"properties":{"a":{"const":true}}}`, "a", "boolean"},
		{"whole, of a list", `{"properties":{"a":{"type":"integer","enum":[1,2]}}}`, "a", "integer"},
		{"forms of the whole", `{"oneOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"a":{"type":"integer"}}}]}`, "a", "integer string"},
		{"nothing can be there", `{"properties":{"a":false}}`, "a", ""},
		{"into a text", `{"properties":{"a":{"type":"string"}}}`, "a b", ""},
		{"no member or an element", `{"additionalProperties":false}`, "0", ""},
		{"one form that may, one that cannot", `{"anyOf":[{"type":"null"},{"type":"object","properties":{"a":{"type":"string"}}}]}`, "a", "string"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := strings.Join(compiled(t, c.schema).TypesAt(strings.Fields(c.path)), " ")
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestTypesAtWithoutSchema(t *testing.T) {
	var none *schema.Schema
	for _, s := range []*schema.Schema{none, compiled(t, "null")} {
		if got := s.TypesAt([]string{"a"}); got != nil {
			t.Errorf("got %q, want nothing", got)
		}
		if all := s.Faults([]byte(`{"a":1}`), nil); all != nil {
			t.Errorf("got %v, want no faults", all)
		}
	}
}
