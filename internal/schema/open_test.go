package schema_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mcpschedd/internal/schema"
)

func TestFaults(t *testing.T) {
	for _, c := range []struct{ name, schema, arguments, open, want string }{
		{"what is open is not looked at", issues, `{"owner":null,"repo":"r"}`, "owner", ""},
		{"what is beside it is", issues, `{"owner":null,"repo":"r","issue_number":"7"}`, "owner", "issue_number: want integer, have string"},
		{"missing", issues, `{"owner":null}`, "owner", "repo: missing"},
		{"not known", issues, `{"owner":null,"repo":"r","number":null}`, "owner number", "number: not allowed"},
		{"all of it", issues, `null`, "/", ""},
		{"nothing", issues, `{"owner":"o"}`, "", "repo: missing"},
		{"within a member", issues, `{"owner":"o","repo":"r","range":{"first":null}}`, "range/first", "range.last: missing"},
		{"beside an element", issues, `{"owner":"o","repo":"r","labels":[null,1]}`, "labels/0", "labels.1: want string, have number"},
		{"elements that may differ", issues, `{"owner":"o","repo":"r","labels":[null,null]}`, "labels/0 labels/1", ""},
		{"a form that might fit", `{"properties":{"a":{"anyOf":[{"type":"string"},{"required":["b"],"properties":{"b":{"type":"string"}}}]}}}`, `{"a":{"b":null}}`, "a/b", ""},
		{"forms that seem to fit both", `{"properties":{"a":{"oneOf":[{"properties":{"b":{"type":["string","null"]}}},{"properties":{"b":{"type":["integer","null"]}}}]}}}`, `{"a":{"b":null}}`, "a/b", ""},
		{"none of a list", `{"properties":{"a":{"enum":[{"b":1}]}}}`, `{"a":{"b":null}}`, "a/b", ""},
		{"a condition", `{"properties":{"a":{},"c":{}},"if":{"properties":{"a":{"type":"null"}}},"then":{"required":["c"]}}`, `{"a":null}`, "a", ""},
		{"beside a condition", `{"properties":{"b":{"type":"string"}},"if":{"required":["b"]},"then":{"required":["a"]}}`, `{"a":null,"b":1}`, "a", ""},
		{"members that are called as conditions", `{"properties":{"then":{"type":"string"},"elsewhere":{"type":"string"},"properties":{"properties":{"else":{"type":"string"}}}}}`, `{"then":1,"elsewhere":1,"properties":{"else":1},"a":null}`, "a", "elsewhere: want string, have number\nproperties.else: want string, have number\nthen: want string, have number"},
		{"a condition below such a member", `{"properties":{"then":{"if":{"type":"object"},"then":{"required":["c"]}}}}`, `{"then":{"a":null}}`, "then/a", ""},
		{"a condition that nothing is open for", `{"if":{"required":["a"]},"then":{"required":["c"]}}`, `{"a":null}`, "", "c: missing"},
		{"what may not be", `{"not":{"properties":{"a":{"type":"null"}}}}`, `{"a":null}`, "a", ""},
		{"too large to read", issues, `{"owner":"` + strings.Repeat("x", 300<<10) + `"}`, "", ""},
		{"no JSON", issues, `{"owner":`, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var open [][]string
			for path := range strings.FieldsSeq(c.open) {
				open = append(open, slices.DeleteFunc(strings.Split(path, "/"), func(s string) bool { return s == "" }))
			}
			if got := lines(compiled(t, c.schema).Faults([]byte(c.arguments), open)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A fault that is reported with an open place remains for any value in the place, and no value of
// a type that TypesAt omits is valid.
func TestOpenIsCertain(t *testing.T) {
	values := []string{`null`, `true`, `false`, `0`, `1`, `2.5`, `""`, `"a"`, `"bb"`, `[]`, `["a"]`, `[1,1]`, `{}`, `{"a":1}`, `{"a":"a","b":null}`}
	seeds := uint64(600)
	if os.Getenv("MCPSCHEDD_SOAK") == "1" {
		seeds = 20_000
	}
	wrong, narrow := 0, 0
	for seed := range seeds {
		g := generator{rand.New(rand.NewPCG(seed, 5))}
		s, err := schema.Compile([]byte(g.schema(3)))
		if err != nil {
			continue // too large
		}
		path := g.path()
		found := s.Faults(g.fill(path, "null"), [][]string{path})
		wants := s.TypesAt(path)
		if found != nil {
			wrong++
		}
		if wants != nil {
			narrow++
		}
		for _, v := range values {
			arguments := g.fill(path, v)
			err := s.Check(arguments)
			if err == nil && found != nil {
				t.Fatalf("seed %d: %s fits, but before %q was known: %v", seed, arguments, path, found)
			}
			if err == nil && wants != nil && !slices.Contains(wants, kind(v)) && (v != "1" && v != "0" || !slices.Contains(wants, "integer")) {
				t.Fatalf("seed %d: %s fits, but %q wants %q", seed, arguments, path, wants)
			}
		}
	}
	if wrong < 20 || narrow < 20 {
		t.Errorf("%d with faults, %d places with types: the test proves little", wrong, narrow)
	}
}

// kind returns the JSON Schema type of a value.
func kind(v string) string {
	switch v[0] {
	case 'n':
		return "null"
	case 't', 'f':
		return "boolean"
	case '"':
		return "string"
	case '[':
		return "array"
	case '{':
		return "object"
	}
	return "number"
}

// generator generates small schemas and arguments with few names, so that they often match.
type generator struct{ *rand.Rand }

func (g generator) pick(from ...string) string { return from[g.IntN(len(from))] }

func (g generator) schema(depth int) string {
	var all []string
	for range 1 + g.IntN(3) {
		all = append(all, g.keyword(depth))
	}
	slices.Sort(all)
	all = slices.CompactFunc(all, func(a, b string) bool {
		return strings.SplitN(a, ":", 2)[0] == strings.SplitN(b, ":", 2)[0]
	})
	return "{" + strings.Join(all, ",") + "}"
}

func (g generator) keyword(depth int) string {
	if depth == 0 {
		return g.pick(`"type":"string"`, `"type":"object"`, `"type":["integer","null"]`, `"type":["array","boolean"]`, `"type":"number"`,
			`"minLength":1`, `"minimum":1`, `"const":1`, `"enum":["a",null]`, `"minProperties":1`, `"maxItems":1`, `"enum":[{"a":1},1]`,
			`"uniqueItems":true`, `"required":["a"]`, `"additionalProperties":false`)
	}
	sub := func() string { return g.schema(depth - 1) }
	switch g.IntN(16) {
	case 0, 1, 2, 3:
		return fmt.Sprintf(`"properties":{"a":%s,"b":%s}`, sub(), sub())
	case 4:
		return fmt.Sprintf(`"items":%s`, sub())
	case 5:
		return fmt.Sprintf(`"prefixItems":[%s,%s]`, sub(), sub())
	case 6:
		return fmt.Sprintf(`"anyOf":[%s,%s]`, sub(), sub())
	case 7:
		return fmt.Sprintf(`"oneOf":[%s,%s]`, sub(), sub())
	case 8:
		return fmt.Sprintf(`"allOf":[%s,%s]`, sub(), sub())
	case 9:
		return fmt.Sprintf(`"if":%s,"then":%s,"else":%s`, sub(), sub(), sub())
	case 10:
		return fmt.Sprintf(`"not":%s`, sub())
	case 11:
		return fmt.Sprintf(`"contains":%s`, sub())
	case 12:
		return fmt.Sprintf(`"dependentSchemas":{"a":%s}`, sub())
	case 13:
		return g.pick(`"unevaluatedProperties":false`, `"unevaluatedItems":false`, `"unevaluatedProperties":{"type":"string"}`, `"propertyNames":{"maxLength":0}`)
	case 14:
		return fmt.Sprintf(`"patternProperties":{"^[ab]$":%s},"additionalProperties":%s`, sub(), sub())
	}
	return g.keyword(0)
}

// path returns one of the places that fill uses.
func (g generator) path() []string {
	return [][]string{{"a"}, {"a", "a"}, {"a", "0"}, {"b", "1"}, {"a", "b", "a"}}[g.IntN(5)]
}

// fill returns arguments with a value at a place. The rest depends only on the path.
func (g generator) fill(path []string, value string) []byte {
	for _, name := range slices.Backward(path) {
		if i, err := strconv.Atoi(name); err == nil {
			value = "[" + strings.Repeat(`"a",`, i) + value + `,1]`
		} else {
			other, _ := json.Marshal(map[string]string{"a": "b", "b": "a"}[name])
			value = fmt.Sprintf(`{%q:%s,%s:"a"}`, name, value, other)
		}
	}
	return []byte(value)
}

// lines returns one line per fault.
func lines(all []schema.Fault) string {
	var each []string
	for _, f := range all {
		each = append(each, f.Error())
	}
	return strings.Join(each, "\n")
}
