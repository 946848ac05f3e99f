package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"mcpschedd/internal/schema"
)

// issues is the input schema of a tool as a server might list it.
const issues = `{
	"$schema": "http://json-schema.org/draft-07/schema#",
	"type": "object",
	"properties": {
		"owner": {"type": "string", "description": "whose repository it is"},
		"repo": {"type": "string", "minLength": 1},
		"issue_number": {"type": "integer", "minimum": 1, "maximum": 9007199254740992},
		"state": {"type": "string", "enum": ["open", "closed", "all"], "default": "open"},
		"since": {"type": "string", "format": "date-time"},
		"sha": {"type": "string", "pattern": "^[0-9a-f]{40}$"},
		"labels": {"type": "array", "items": {"type": "string"}, "maxItems": 3, "uniqueItems": true},
		"assignee": {"anyOf": [{"type": "string"}, {"type": "null"}]},
		"range": {
			"type": "object",
			"properties": {"first": {"type": "integer"}, "last": {"type": "integer"}},
			"required": ["first", "last"]
		}
	},
	"required": ["owner", "repo"],
	"additionalProperties": false
}`

func TestCheck(t *testing.T) {
	for _, c := range []struct{ name, arguments, want string }{
		{"all that is required", `{"owner":"o","repo":"r"}`, ""},
		{"one is missing", `{"owner":"o"}`, "repo: missing"},
		{"of two the first by name", `{}`, "owner: missing"},
		{"text for a number", `{"owner":"o","repo":"r","issue_number":"7"}`, "issue_number: want integer, have string"},
		{"a whole number", `{"owner":"o","repo":"r","issue_number":7.0}`, ""},
		{"a fraction", `{"owner":"o","repo":"r","issue_number":7.5}`, "issue_number: want integer, have number"},
		{"a number that rounds to the largest", `{"owner":"o","repo":"r","issue_number":9007199254740993}`, "issue_number: want maximum 9007199254740992"},
		{"too small", `{"owner":"o","repo":"r","issue_number":0}`, "issue_number: want minimum 1"},
		{"none of a list", `{"owner":"o","repo":"r","state":"shut"}`, `state: want one of ["open","closed","all"]`},
		{"too short", `{"owner":"o","repo":""}`, "repo: want minLength 1"},
		{"a format is no more than a remark", `{"owner":"o","repo":"r","since":"yesterday"}`, ""},
		{"a pattern", `{"owner":"o","repo":"r","sha":"main"}`, `sha: want pattern "^[0-9a-f]{40}$"`},
		{"an element", `{"owner":"o","repo":"r","labels":["a",null]}`, "labels.1: want string, have null"},
		{"too many elements", `{"owner":"o","repo":"r","labels":["a","b","c","d"]}`, "labels: want maxItems 3"},
		{"the same element twice", `{"owner":"o","repo":"r","labels":["a","b","a"]}`, "labels: want uniqueItems true"},
		{"null where it may be", `{"owner":"o","repo":"r","assignee":null}`, ""},
		{"neither of two types", `{"owner":"o","repo":"r","assignee":7}`, "assignee: want null or string, have number"},
		{"within a member", `{"owner":"o","repo":"r","range":{"first":1}}`, "range.last: missing"},
		{"unknown member", `{"owner":"o","repo":"r","number":7}`, "number: not allowed"},
		{"a name that must be quoted", `{"owner":"o","repo":"r","a\nb.c":7}`, `a b.c: not allowed`},
		{"an array", `["o","r"]`, "arguments: want object, have array"},
		{"nothing", ``, "arguments: invalid JSON"},
		{"half an object", `{"owner":"o"`, "arguments: invalid JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			check(t, compiled(t, issues), c.arguments, c.want)
		})
	}
}

func TestForms(t *testing.T) {
	for _, c := range []struct{ name, schema, arguments, want string }{
		{"constant", `{"properties":{"a":{"const":null}}}`, `{"a":1}`, "a: want const null"},
		{"a list of more than can be told", `{"properties":{"a":{"enum":[1,2,3,4,5,6,7]}}}`, `{"a":0}`, "a: want one of [1,2,3,4,5,6,7]"},
		{"a list of objects", `{"properties":{"a":{"enum":[{"b":1},2]}}}`, `{"a":0}`, `a: want one of [{"b":1},2]`},
		{"a list of schemas", `{"properties":{"a":{"enum":[{"$ref":"#/x"},{"$id":"b"}]}}}`, `{"a":{"$id":"b"}}`, ""},
		{"a schema as an example", `{"properties":{"a":{"type":"object","examples":[{"$ref":"#/x"}]}}}`, `{"a":1}`, "a: want object, have number"},
		{"a constant like a schema", `{"properties":{"a":{"const":{"$schema":"s","$id":"i","$ref":"#/x"}}}}`, `{"a":{"$schema":"s","$id":"i","$ref":"#/x"}}`, ""},
		{"a schema as a default", `{"properties":{"a":{"type":"object","default":{"$ref":"#/x"}}}}`, `{"a":1}`, "a: want object, have number"},
		{"a member that is called const", `{"properties":{"const":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"string"}}}`, `{"const":1}`, "const: want string, have number"},
		{"a member that is called enum", `{"properties":{"enum":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"string"}}}`, `{"enum":1}`, "enum: want string, have number"},
		{"as written, not as a double", `{"properties":{"a":{"enum":[9007199254740993]}}}`, `{"a":9007199254740992}`, "a: want one of [9007199254740993]"},
		{"equal however written", `{"properties":{"a":{"enum":[100]}}}`, `{"a":1.00e2}`, ""},
		{"a multiple in decimals", `{"properties":{"a":{"multipleOf":0.1}}}`, `{"a":0.3}`, ""},
		{"no multiple", `{"properties":{"a":{"multipleOf":0.1}}}`, `{"a":0.35}`, "a: want multipleOf 0.1"},
		{"object or null", `{"properties":{"a":{"anyOf":[{"type":"null"},{"type":"object","required":["b"]}]}}}`, `{"a":{}}`, "a.b: missing"},
		{"one of two objects", `{"properties":{"a":{"oneOf":[{"required":["b"]},{"required":["c"]}]}}}`, `{"a":{}}`, "a: fits none of the 2 forms it may have"},
		{"both of two objects", `{"properties":{"a":{"oneOf":[{"required":["b"]},{"required":["c"]}]}}}`, `{"a":{"b":1,"c":1}}`, "a: fits more than one of the forms it may have"},
		{"all of several", `{"allOf":[{"required":["b"]},{"required":["a"]}]}`, `{}`, "a: missing"},
		{"not", `{"properties":{"a":{"not":{"type":"string"}}}}`, `{"a":"x"}`, `a: want not {"type":"string"}`},
		{"never", `{"properties":{"a":false}}`, `{"a":"x"}`, "a: not allowed"},
		{"only with another", `{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, `arguments: want dependentRequired {"a":["b"]}`},
		{"if, then", `{"if":{"required":["a"]},"then":{"required":["b"]}}`, `{"a":1}`, "b: missing"},
		{"if, else", `{"if":{"required":["a"]},"else":{"required":["b"]}}`, `{}`, "b: missing"},
		{"names of members", `{"propertyNames":{"maxLength":2}}`, `{"abc":1}`, `arguments: a member may not be called "abc"`},
		{"members by pattern", `{"patternProperties":{"^x-":{"type":"string"}}}`, `{"x-a":1,"y":1}`, "x-a: want string, have number"},
		{"what nothing else speaks of", `{"allOf":[{"properties":{"a":true}}],"unevaluatedProperties":false}`, `{"a":1,"b":1}`, "b: not allowed"},
		{"a reference", `{"$defs":{"id":{"type":"integer"}},"properties":{"a":{"$ref":"#/$defs/id"}}}`, `{"a":"1"}`, "a: want integer, have string"},
		{"a reference to an odd place", `{"components":{"id":{"type":"integer"}},"properties":{"a":{"$ref":"#/components/id"}}}`, `{"a":"1"}`, "a: want integer, have string"},
		{"a format of draft 7 is no more than a remark", `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"format":"regex"},"b":{"format":"date"}}}`, `{"a":"(","b":"x"}`, ""},
		{"no dialect: 2020-12", `{"properties":{"a":{"prefixItems":[{"type":"string"}]}}}`, `{"a":[1]}`, "a.0: want string, have number"},
		{"unknown dialect: 2020-12", `{"$schema":"https://example.com/mine","properties":{"a":{"prefixItems":[{"type":"string"}]}}}`, `{"a":[1]}`, "a.0: want string, have number"},
		{"nothing but an object", `{}`, `{"a":[1]}`, ""},
		{"null", `null`, `{"a":[1]}`, ""},
		{"nothing", ``, `[1]`, "arguments: want object, have array"},
		{"anything, which is an object all the same", `{}`, `[1]`, "arguments: want object, have array"},
	} {
		t.Run(c.name, func(t *testing.T) {
			check(t, compiled(t, c.schema), c.arguments, c.want)
		})
	}
}

// The validator reports the location of a sibling that it validates later.
func TestNameRefusedInAMember(t *testing.T) {
	s := compiled(t, `{"additionalProperties":{"propertyNames":{"maxLength":2}}}`)
	for range 50 { // the validator visits them in random order
		check(t, s, `{"a":{"abc":1},"b":{},"c":{},"d":{}}`, `arguments: a member may not be called "abc"`)
	}
}

func TestFirstFault(t *testing.T) {
	s := compiled(t, issues)
	for range 50 { // the validator finds them in any order
		check(t, s, `{"state":1,"labels":7,"zzz":1,"range":{}}`, "labels: want array, have number")
	}
}

func TestNoSchema(t *testing.T) {
	for name, s := range map[string]*schema.Schema{"nil": nil, "zero": {}} {
		t.Run(name, func(t *testing.T) {
			check(t, s, `{"any":[1,{"thing":null}]}`, "")
			check(t, s, `"text"`, "arguments: want object, have string")
		})
	}
}

// A fault is a line of bounded length without values, whatever names a server uses, as it is shown
// in lists and logs.
func TestFaultIsOneLine(t *testing.T) {
	long := strings.Repeat("ä", 1000)
	s := compiled(t, fmt.Sprintf(`{"additionalProperties":{"enum":["%s","a\u202eb\n"]}}`, long))
	for _, arguments := range []string{
		`{"` + long + `":"secret"}`,
		`{"\u202e\n[x]":"secret"}`,
		`{"a":"secret"}`,
	} {
		err := s.Check([]byte(arguments))
		if err == nil {
			t.Fatalf("%.20s…: no error", arguments)
		}
		if line := err.Error(); len(line) > 600 || strings.ContainsAny(line, "\n\u202e") || strings.Contains(line, "secret") {
			t.Errorf("%.20s…: got %d bytes: %q", arguments, len(line), line)
		}
	}
}

func compiled(t *testing.T, raw string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile([]byte(raw))
	if err != nil {
		t.Fatalf("Compile(%s): %v", raw, err)
	}
	return s
}

func check(t *testing.T, s *schema.Schema, arguments, want string) {
	t.Helper()
	got := ""
	if err := s.Check([]byte(arguments)); err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("Check(%.200s): got %q, want %q", arguments, got, want)
	}
}
