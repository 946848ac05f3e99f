package schema_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"mcpschedd/internal/schema"
)

// A schema that could cause unbounded work, or has no defined meaning, is rejected with one line.
func TestCompileRefuses(t *testing.T) {
	const large, foreign = "recursive, or too large with its references expanded", "only a JSON pointer into the document is supported"
	for _, c := range []struct{ name, schema, want string }{
		{"no JSON", `{"type":`, "invalid JSON"},
		{"no object", `true`, "want an object, have boolean"},
		{"no schema", `{"properties":{"a":{"type":"strin"}}}`, "not valid against metaschema"},
		{"a lookahead", `{"properties":{"a":{"pattern":"^(?!x)"}}}`, "pattern \"^(?!x)\": "},
		{"a lookahead in a name", `{"patternProperties":{"^(?!x)":{}}}`, "pattern \"^(?!x)\": "},
		{"another document", `{"properties":{"a":{"$ref":"https://example.com/a"}}}`, foreign},
		{"a file", `{"$ref":"file:///etc/passwd"}`, foreign},
		{"a neighbour", `{"$ref":"other.json#/a"}`, foreign},
		{"a document that the validator brings along", `{"$ref":"http://json-schema.org/draft-07/schema#"}`, foreign},
		{"a reference to no element", `{"$ref":"#/allOf/-","allOf":[{}]}`, "not found"},
		{"a reference to nothing", `{"$ref":"#/$defs/a"}`, "not found"},
		{"a reference that depends on the way", `{"$dynamicAnchor":"a","properties":{"b":{"$dynamicRef":"#a"}}}`, foreign},
		{"the same before 2020-12", `{"$schema":"https://json-schema.org/draft/2019-09/schema","properties":{"b":{"$recursiveRef":"#"}}}`, foreign},
		{"itself", `{"$ref":"#"}`, large},
		{"each other", `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, large},
		{"a tree", `{"properties":{"kids":{"items":{"$ref":"#"}}}}`, large},
		{"parts that refer to the next one twice", `{"$ref":"#/$defs/0","$defs":{` + list(40, `"%d":{"allOf":[{"$ref":"#/$defs/%d"},{"$ref":"#/$defs/%[2]d"}]}`) + `,"40":{}}}`, large},
		{"itself, where a name is repeated", `{"$ref":"#/$defs/a","$defs":{"a":{}},"$defs":{"a":{"$ref":"#/$defs/a"}}}`, large},
		{"the same twice, where a name is repeated", `{"$ref":"#/$defs/0","$defs":{"0":{}},"$defs":{` + list(40, `"%d":{"allOf":[{"$ref":"#/$defs/%d"},{"$ref":"#/$defs/%[2]d"}]}`) + `,"40":{}}}`, large},
		{"itself, in a list of values", `{"$ref":"#/enum/0","enum":[{"$ref":"#/enum/0"}]}`, large},
		{"itself, in a member that is called enum", `{"properties":{"enum":{"$ref":"#"}}}`, large},
		{"itself, in a member by pattern", `{"patternProperties":{"default":{"$ref":"#"}}}`, large},
		{"itself, for another member", `{"dependentSchemas":{"const":{"$ref":"#"}}}`, large},
		{"itself, for another member as before 2019-09", `{"dependencies":{"const":{"$ref":"#"}}}`, large},
		{"itself, in a constant", `{"$ref":"#/const","const":{"items":{"$ref":"#/const"}}}`, large},
		{"itself, in a part that is called properties", `{"properties":{"properties":{"const":{"$ref":"#"},"items":{"$ref":"#"}}}}`, large},
		{"many parts", `{"anyOf":[` + list(20_000, `{}`) + `]}`, large},
		{"many long names", `{"properties":{"` + strings.Repeat("x", 50_000) + `":{"anyOf":[` + list(1000, `{}`) + `]}}}`, large},
		{"many numbers to compare with", `{"enum":[` + list(1000, `%d`) + `]}`, large},
		{"too long", `{"description":"` + strings.Repeat("x", 64<<10) + `"}`, "at most 65536 are read"},
		{"a huge number", `{"maximum":1e1000000}`, "exponent of more than three digits"},
		{"a huge exponent", `{"maximum":1e-99999999999999999999}`, "exponent of more than three digits"},
		{"a long number", `{"additionalProperties":{"multipleOf":0.` + strings.Repeat("3", 60_000) + `}}`, "a number with more than 400 characters"},
		{"a long number among values", `{"enum":[1,{"a":` + strings.Repeat("3", 401) + `}]}`, "a number with more than 400 characters"},
		{"a pattern that repeats", `{"pattern":"` + strings.Repeat("(x{1000})", 100) + `"}`, "too large"},
		{"a long pattern", `{"pattern":"` + strings.Repeat("[^x]", 300) + `"}`, "too large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := schema.Compile([]byte(c.schema))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got error %v, want one with %q", err, c.want)
			}
			if len(err.Error()) > 400 || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %d bytes: %q; want one short line", len(err.Error()), err)
			}
		})
	}
}

// expensive are schemas and arguments that are expensive to validate.
var dear = []struct{ name, schema, arguments string }{
	{"a pattern with many states", `{"properties":{"a":{"pattern":"(x+x+){200}y"}}}`, `{"a":"` + strings.Repeat("x", 200<<10) + `"}`},
	{"a list for each of many", `{"properties":{"a":{"items":{"enum":[` + list(200, "%d") + `]}}}}`, `{"a":[` + list(100, "-1") + `]}`},
	{"a list for long numbers", `{"properties":{"a":{"items":{"enum":[` + list(200, "%d") + `]}}}}`, `{"a":[` + list(20, "1e400") + `]}`},
	{"a long text, again and again", `{"properties":{"a":{"allOf":[` + list(200, `{"minLength":1}`) + `]}}}`, `{"a":"` + strings.Repeat("x", 200<<10) + `"}`},
	{"many names for many patterns", `{"patternProperties":{` + list(300, `"^x%d":{}`) + `}}`, `{` + list(9_000, `"%d":1`) + `}`},
	{"a few large values that are to differ", `{"properties":{"a":{"uniqueItems":true}}}`, `{"a":[` + list(20, "["+list(400, "1")+"]") + `]}`},
	{"many values that are to differ", `{"properties":{"a":{"uniqueItems":true}}}`, `{"a":[` + list(9_000, "[%d]") + `]}`},
	{"forms of many elements", `{"properties":{"a":{"items":{"oneOf":[{"type":"string"},{"type":"null"}]}}}}`, `{"a":[` + list(9_000, "1") + `]}`},
	{"what nothing else speaks of", `{"properties":{"x":{"anyOf":[` + list(50, `{"anyOf":[{"prefixItems":[{}]}]}`) + `],"unevaluatedItems":false}}}`, `{"x":[` + list(200, `1`) + `]}`},
}

func TestTooMuchWork(t *testing.T) {
	for _, c := range dear {
		t.Run(c.name, func(t *testing.T) {
			check(t, compiled(t, c.schema), c.arguments, "arguments: too expensive to check")
		})
	}
}

func TestArgumentsOutOfBounds(t *testing.T) {
	for _, c := range []struct{ name, arguments, want string }{
		{"a huge number", `{"a":1e1000000}`, "arguments: a number with more than 400 characters, or an exponent of more than three digits"},
		{"a long number", `{"a":` + strings.Repeat("3", 401) + `}`, "arguments: a number with more than 400 characters, or an exponent of more than three digits"},
		{"a number that is long enough", `{"a":` + strings.Repeat("3", 400) + `}`, ""},
		{"too long", `{"a":"` + strings.Repeat("x", 300<<10) + `"}`, "arguments: 307208 bytes: at most 262144 are read"},
		{"the largest double", `{"a":1.7976931348623157e308}`, ""},
		{"a commit", `{"a":"9fceb02d0ae598e95dc970b74767f19372d61af8","b":"3e12345"}`, ""},
		{"a name that looks like a huge number", `{"1e1000000":1}`, ""},
		{"a huge number in a list", `{"a":["x",{"b":1E+0012345}]}`, "arguments: a number with more than 400 characters, or an exponent of more than three digits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			check(t, compiled(t, `{"properties":{"a":{"type":["number","object","string","array"],"multipleOf":1e-300}}}`), c.arguments, c.want)
		})
	}
}

func TestNothingIsFetched(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, `{"type":"object"}`)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(file, []byte(`{"type":"object"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{server.URL, "file://" + filepath.ToSlash(file), filepath.ToSlash(file)} {
		for _, form := range []string{
			`{"$ref":%q}`,
			`{"properties":{"a":{"$ref":%q}}}`,
			`{"$id":%q,"$ref":"elsewhere"}`,
			`{"$schema":"http://json-schema.org/draft-07/schema#","allOf":[{"$ref":%q}]}`,
		} {
			if _, err := schema.Compile(fmt.Appendf(nil, form, url)); err == nil {
				t.Errorf(form+": no error", url)
			}
		}
		// a reference in a member name or in an unreachable part is not resolved
		for _, form := range []string{
			`{"$id":%q,"$ref":"#/$defs/a","$defs":{"a":{"type":"object"}}}`,
			`{"$schema":%q}`,
			`{"properties":{"a":{"$schema":%q,"$id":"x"}}}`,
		} {
			if _, err := schema.Compile(fmt.Appendf(nil, form, url)); err != nil {
				t.Errorf(form+": got %v, want no error", url, err)
			}
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the server got %d requests, want none", n)
	}
}

// list formats n elements separated by commas; format receives the index and the next one.
func list(n int, format string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		switch strings.Count(format, "%") - strings.Count(format, "%[") {
		case 0:
			b.WriteString(format)
		case 1:
			fmt.Fprintf(&b, format, i)
		default:
			fmt.Fprintf(&b, format, i, i+1)
		}
	}
	return b.String()
}

func members(n int, name string) string { return `{` + list(n, `"`+name+`":1`) + `}` }
