package deliver_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/deliver"
	"mcpschedd/internal/valuemodel"
)

// groups returns a model with these field groups. The prefix "+" of a name means included by
// default, "-" omitted by default, and no prefix unspecified.
func groups(all map[string][]string) *valuemodel.Model {
	m := &valuemodel.Model{}
	m.FieldGroups = make(map[string]valuemodel.FieldGroup)
	for name, fields := range all {
		g := valuemodel.FieldGroup{Fields: fields}
		if name[0] == '+' || name[0] == '-' {
			include := name[0] == '+'
			g.DefaultInclude = &include
		}
		m.FieldGroups[name] = g
	}
	return m
}

// trimmed returns the text of an answer as shown, and the patterns that matched.
func trimmed(t *testing.T, text string, m *valuemodel.Model, keywords []string) (string, []string) {
	t.Helper()
	out, _ := deliver.Inline([]byte(shown), []deliver.Addition{{Tool: "get", Arguments: "{}", Result: answer(text), Model: m}}, 1<<30, keywords)
	added := textsAdded(t, out, shown)
	if len(added) != 1 {
		t.Fatalf("%q: got %d texts, want one", text, len(added))
	}
	heading, got, _ := strings.Cut(added[0], "\n")
	_, without, cut := strings.Cut(strings.TrimSuffix(heading, "]"), "; without ")
	if !cut {
		return got, nil
	}
	return got, strings.Split(without, ", ")
}

func TestTrim(t *testing.T) {
	debug := map[string][]string{"-debug": {"node_id", "url", "*_url"}}
	for _, c := range []struct {
		name     string
		groups   map[string][]string
		keywords []string
		text     string
		want     string
		dropped  []string
	}{
		{"names and globs", debug, nil, `{"id":1,"node_id":"x","url":"u","html_url":"h","urls":2}`, `{"id":1,"urls":2}`, []string{"*_url", "node_id", "url"}},
		{"wherever they are", debug, nil, `[{"user":{"login":"a","url":"u"}},[{"url":[{"url":1}]}]]`, `[{"user":{"login":"a"}},[{}]]`, []string{"url"}},
		{"numbers and order as they were", debug, nil, "{\n  \"b\": 1.00,\n  \"url\": {},\n  \"a\": 1e400 ,\n  \"c\": [ 1 , 2 ]\n}\n", "{\"b\": 1.00,\"a\": 1e400,\"c\": [1,2]}", []string{"url"}},
		{"the first of them", debug, nil, "{ \"url\":1 , \"a\":2 }", "{\"a\":2}", []string{"url"}},
		{"all of them", debug, nil, "{ \"url\":1 }", "{}", []string{"url"}},
		{"names with slashes", map[string][]string{"-x": {"a*d"}}, nil, `{"a/b/d":1,"c":2}`, `{"c":2}`, []string{"a*d"}},
		{"patterns with slashes", map[string][]string{"-x": {"a/*"}}, nil, `{"a/b/d":1,"c":2}`, `{"c":2}`, []string{"a/*"}},
		{"names with escapes", debug, nil, `{"ur\u006c":1,"c":2}`, `{"c":2}`, []string{"url"}},
		{"of other groups they stay", map[string][]string{"-debug": {"*_url"}, "+core": {"html_url"}}, nil, `{"html_url":1,"git_url":2}`, `{"html_url":1}`, []string{"*_url"}},
		{"groups nothing is said of", map[string][]string{"some": {"url"}}, nil, `{"url":1}`, `{"url":1}`, nil},
		{"groups that a keyword names", debug, []string{"its URLs"}, `{"url":1,"node_id":2}`, `{"url":1,"node_id":2}`, nil},
		{"keywords that name none", debug, []string{"titles", "x"}, `{"url":1,"a":2}`, `{"a":2}`, []string{"url"}},
		{"no match", debug, nil, "{ \"a\" : [ ] , \"b\" : { } }", "{ \"a\" : [ ] , \"b\" : { } }", nil},
		{"text", debug, nil, "url: x", "url: x", nil},
		{"no JSON after all", debug, nil, `{"url":1,}`, `{"url":1,}`, nil},
		{"two values", debug, nil, `{"url":1}{"url":1}`, `{"url":1}{"url":1}`, nil},
		{"nothing", debug, nil, ``, ``, nil},
		{"a bracket in the first element", debug, nil, `[["["],{"url":1}]`, `[["["],{}]`, []string{"url"}},
		{"objects deeper than is looked at", debug, nil, strings.Repeat(`{"a":`, 40) + `{"url":1}` + strings.Repeat("}", 40), strings.Repeat(`{"a":`, 40) + `{"url":1}` + strings.Repeat("}", 40), nil},
		{"arrays deeper than is looked at", debug, nil, strings.Repeat("[", 40) + `{"url":1}` + strings.Repeat("]", 40), strings.Repeat("[", 40) + `{"url":1}` + strings.Repeat("]", 40), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, dropped := trimmed(t, c.text, groups(c.groups), c.keywords)
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if diff := cmp.Diff(c.dropped, dropped); diff != "" {
				t.Errorf("dropped (-want +got)\n%s", diff)
			}
		})
	}
}
