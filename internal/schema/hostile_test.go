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

func TestCompileRefuses(t *testing.T) {
	for _, c := range []struct{ name, schema, want string }{
		{"no JSON", `{"type":`, "no valid JSON"},
		{"no object", `true`, "want an object, have boolean"},
		{"no schema", `{"properties":{"a":{"type":"strin"}}}`, "properties.a.type: want one of"},
		{"a name twice", `{"type":"object","type":"string"}`, `"type": is there twice`},
		{"a lookahead", `{"properties":{"a":{"pattern":"^(?!x)"}}}`, "pattern \"^(?!x)\": "},
		{"a lookahead in a name", `{"patternProperties":{"^(?!x)":{}}}`, "pattern \"^(?!x)\": "},
		{"another document", `{"properties":{"a":{"$ref":"https://example.com/a"}}}`, "may not leave the document"},
		{"a file", `{"$ref":"file:///etc/passwd"}`, "may not leave the document"},
		{"a neighbour", `{"$ref":"other.json#/a"}`, "may not leave the document"},
		{"a document that the validator brings along", `{"$ref":"http://json-schema.org/draft-07/schema#"}`, "may not leave the document"},
		{"a dialect elsewhere", `{"properties":{"a":{"$schema":"https://example.com/mine"}}}`, "may not leave the document"},
		{"a reference to nothing", `{"$ref":"#/$defs/a"}`, "not found"},
		{"a reference that depends on the way", `{"$dynamicAnchor":"a","properties":{"b":{"$dynamicRef":"#a"}}}`, "depend on the way"},
		{"the same before 2020-12", `{"$schema":"https://json-schema.org/draft/2019-09/schema","properties":{"b":{"$recursiveRef":"#"}}}`, "depend on the way"},
		{"too large", `{"description":"` + strings.Repeat("x", 256<<10) + `"}`, "at most 262144 are read"},
		{"too deep", strings.Repeat(`{"items":`, 200) + `{}` + strings.Repeat("}", 200), "nested too deep"},
		{"many parts", `{"anyOf":[` + list(20_000, `{}`) + `]}`, "too many values"},
		{"many long names", `{"properties":{"` + strings.Repeat("x", 100_000) + `":{"anyOf":[` + list(4000, `{}`) + `]}}}`, "too many values"},
		{"many references", `{"x":{` + list(400, `"%d":{}`) + `},"anyOf":[` + list(400, `{"$ref":"#/x/%d"}`) + `]}`, "too many references"},
		{"a huge number", `{"maximum":1e1000000}`, "out of all proportion"},
		{"a huge exponent", `{"maximum":1e-99999999999999999999}`, "out of all proportion"},
		{"a pattern that repeats", `{"pattern":"` + strings.Repeat("(x{1000})", 100) + `"}`, "repeat too much"},
		{"long patterns", `{"properties":{` + list(20, `"%d":{"pattern":"%[1]d`+strings.Repeat("[^x]", 200)+`"}`) + `}}`, "too long together"},
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

// Each of these would take the validator longer than anybody waits.
func TestTooMuchWork(t *testing.T) {
	doubling := `{"$ref":"#/$defs/0","$defs":{` + list(40, `"%d":{"allOf":[{"$ref":"#/$defs/%d"},{"$ref":"#/$defs/%[2]d"}]}`) + `,"40":{}}}`
	tree := `{"anyOf":[` + list(3, `{"properties":{"n":{"$ref":"#"},"%d":{}}}`) + `]}`
	for _, c := range []struct{ name, schema, arguments string }{
		{"parts that refer to the next one twice", doubling, `{}`},
		{"a tree with three forms of each node", tree, strings.Repeat(`{"n":`, 60) + "1" + strings.Repeat("}", 60)},
		{"itself", `{"$ref":"#"}`, `{}`},
		{"itself, in two ways", `{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}`, `{}`},
		{"each other", `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, `{}`},
		{"one behind the other", `{"$ref":"#/$defs/0","$defs":{` + list(290, `"%d":{"allOf":[{"allOf":[{"allOf":[{"$ref":"#/$defs/%d"}]}]}]}`) + `,"290":{}}}`, `{}`},
		{"a pattern with many states", `{"properties":{"a":{"pattern":"(x+x+){200}y"}}}`, `{"a":"` + strings.Repeat("x", 200<<10) + `"}`},
		{"a long list for each of many", `{"properties":{"a":{"items":{"enum":[` + list(4000, "%d") + `]}}}}`, `{"a":[` + list(100, "-1") + `]}`},
		{"a long list for long numbers", `{"properties":{"a":{"items":{"enum":[` + list(2000, "%d") + `]}}}}`, `{"a":[` + list(20, "1e400") + `]}`},
		{"a long text, again and again", `{"properties":{"a":{"allOf":[` + list(200, `{"minLength":1}`) + `]}}}`, `{"a":"` + strings.Repeat("x", 200<<10) + `"}`},
		{"many names for many patterns", `{"patternProperties":{` + list(300, `"^x%d":{}`) + `}}`, `{` + list(9_000, `"%d":1`) + `}`},
		{"a few large values that are to differ", `{"properties":{"a":{"uniqueItems":true}}}`, `{"a":[` + list(20, "["+list(400, "1")+"]") + `]}`},
		{"many values that are to differ", `{"allOf":[` + list(30, `{"properties":{"a":{"uniqueItems":true}}}`) + `]}`, `{"a":[` + list(9_000, "%d") + `]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			check(t, compiled(t, c.schema), c.arguments, "arguments: too much work to check")
		})
	}
}

func TestArgumentsOutOfBounds(t *testing.T) {
	for _, c := range []struct{ name, arguments, want string }{
		{"a huge number", `{"a":1e1000000}`, "arguments: a number out of all proportion"},
		{"many digits", `{"a":` + strings.Repeat("9", 5000) + `}`, "arguments: a number out of all proportion"},
		{"too deep", strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000), "arguments: nested too deep"},
		{"deep and large", strings.Repeat(`{"a":`, 90) + `"` + strings.Repeat("x", 200<<10) + `"` + strings.Repeat("}", 90), "arguments: nested too deep"},
		{"many values", `{"a":[` + list(100_000, "1") + `]}`, "arguments: too many values"},
		{"the largest double", `{"a":1.7976931348623157e308}`, ""},
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
			`{"properties":{"a":{"$schema":%q,"$id":"x"}}}`,
			`{"$schema":"http://json-schema.org/draft-07/schema#","allOf":[{"$ref":%q}]}`,
		} {
			if _, err := schema.Compile(fmt.Appendf(nil, form, url)); err == nil {
				t.Errorf(form+": no error", url)
			}
		}
		// a name is no reference, and what is not reached is not looked for
		for _, form := range []string{
			`{"$id":%q,"$ref":"#/$defs/a","$defs":{"a":{"type":"object"}}}`,
			`{"$schema":%q}`,
			`{"default":{"$ref":%q}}`,
		} {
			if _, err := schema.Compile(fmt.Appendf(nil, form, url)); err != nil {
				t.Errorf(form+": got %v, want no error", url, err)
			}
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the server was asked %d times, want never", n)
	}
}

// list writes n elements with commas between them; a format is given the index, and
// the next one.
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
