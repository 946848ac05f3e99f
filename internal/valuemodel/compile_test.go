package valuemodel_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/valuemodel"
)

// In a glob * matches slashes too, but only the first slash separates upstream and tool.
func TestPatterns(t *testing.T) {
	tests := []struct {
		pattern, upstream, tool string
		want                    bool
	}{
		{"*", "up", "a/b", true},
		{"up/*", "up", "a/b", true},
		{"*/search*", "up", "search/x", true},
		{"*/search*", "up", "do/search", false},
		{"u?/get_*", "up", "get_", true},
		{"get_*", "up", "get_x", true},
		{"get_*", "up", "Get_x", false},
		{"up/a/b", "up", "a/b", true},
		{"up/[ab]", "up", "b", true},
		{`up/a\*`, "up", "a*", true},
		{`up/a\*`, "up", "ab", false},
		{"up/a", "other", "a", false},
	}
	for _, tt := range tests {
		m := resolve(t, valuemodel.Upstream{Name: tt.upstream}, tt.tool, valuemodel.Hints{}, rule(tt.pattern, "c:1", valuemodel.Layer{FailFastAfter: 9}))
		if got := m.FailFastAfter == 9; got != tt.want {
			t.Errorf("%s of %s/%s: got %v", tt.pattern, tt.upstream, tt.tool, got)
		}
		edged := resolve(t, valuemodel.Upstream{Name: tt.upstream}, tt.tool, valuemodel.Hints{},
			rule("writer", "c:1", valuemodel.Layer{Invalidates: []valuemodel.Edge{{Tool: tt.pattern}}}))
		if got := len(edged.Reads(unknown)) == 2; got != tt.want {
			t.Errorf("an edge to %s and %s/%s: got %v", tt.pattern, tt.upstream, tt.tool, got)
		}
	}
}

func TestRulesThatCannotBeMeant(t *testing.T) {
	const reads, writes = valuemodel.ReadOnly, valuemodel.MutatesLocal
	rules := []valuemodel.Rule{
		rule("ok", "", valuemodel.Layer{Class: reads, Speculate: yes, Classify: valuemodel.SQL}),
		rule("", "", valuemodel.Layer{}),
		rule("up/", "", valuemodel.Layer{}),
		rule("/x", "", valuemodel.Layer{}),
		rule("[", "", valuemodel.Layer{}),
		rule("a", "", valuemodel.Layer{Class: writes, Speculate: yes, Classify: valuemodel.Shell}),
		rule("b", "", valuemodel.Layer{Class: writes, Speculate: yes}),
		rule("c", "", valuemodel.Layer{Class: valuemodel.Indeterminate, Speculate: yes, Classify: valuemodel.Shell}),
		rule("d", "", valuemodel.Layer{Invalidates: []valuemodel.Edge{{Tool: "x"}, {Tool: ""}, {Tool: "up/[a"}}}),
		rule("e", "", valuemodel.Layer{FollowUps: []valuemodel.FollowUp{{Tool: "up/x"}, {Tool: ""}, {Tool: "get_*"}}}),
	}
	_, problems := valuemodel.Compile(rules)
	var got []string
	for _, p := range problems {
		got = append(got, fmt.Sprintf("%d %s: %s", p.Rule, p.Key, p.Text))
	}
	const pattern = `want "TOOL", "NAME/TOOL" or a glob such as "github/get_*", have `
	want := []string{
		"1 : " + pattern + `""`, "2 : " + pattern + `"up/"`, "3 : " + pattern + `"/x"`, "4 : " + pattern + `"["`,
		"5 classify: a tool that is mutates_local has no read-only calls; omit side_effect_class or set it to indeterminate",
		"6 speculate: true has no effect: side_effect_class is mutates_local, and only read-only calls are prefetched",
		"8 invalidates[1]: " + pattern + `""`, "8 invalidates[2]: " + pattern + `"up/[a"`,
		`9 follow_up[1].tool: want "TOOL" or "NAME/TOOL", have ""`, `9 follow_up[2].tool: want "TOOL" or "NAME/TOOL", have "get_*"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUnmatched(t *testing.T) {
	edge := func(tool string) []valuemodel.Edge { return []valuemodel.Edge{{Tool: tool}} }
	next := func(tool string) []valuemodel.FollowUp { return []valuemodel.FollowUp{{Tool: tool}} }
	m, _ := valuemodel.Compile([]valuemodel.Rule{
		rule("*", "", valuemodel.Layer{Invalidates: edge("wiki/*"), FollowUps: next("search")}),
		rule("hub/get_isue", "", valuemodel.Layer{}),
		rule("get_isue", "", valuemodel.Layer{}),
		rule("hub/make_*", "", valuemodel.Layer{}),
		rule("hub/get_issue", "", valuemodel.Layer{Invalidates: edge("list_isues"), FollowUps: next("search")}),
		rule("hub/list_issues", "", valuemodel.Layer{Invalidates: edge("zzz"), FollowUps: next("get_isue")}),
		rule("get_issue", "", valuemodel.Layer{FollowUps: next("wiki/serch")}),
	})
	var got []string
	for _, p := range m.Unmatched([]string{"hub/get_issue", "hub/list_issues", "wiki/search"}) {
		got = append(got, fmt.Sprintf("%d %s: %s", p.Rule, p.Key, p.Text))
	}
	want := []string{
		`1 : no tool matches "hub/get_isue"; did you mean "hub/get_issue"?`,
		`2 : no tool matches "get_isue"; did you mean "get_issue"?`,
		`3 : no tool matches "hub/make_*"`,
		`4 invalidates[0]: no tool matches "list_isues"; did you mean "list_issues"?`,
		`4 follow_up[0].tool: no tool matches "hub/search"`,
		`5 invalidates[0]: no tool matches "zzz"`,
		`5 follow_up[0].tool: no tool matches "hub/get_isue"; did you mean "hub/get_issue"?`,
		`6 follow_up[0].tool: no tool matches "wiki/serch"; did you mean "wiki/search"?`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Models are the same if their rules are, on whatever lines.
func TestSame(t *testing.T) {
	reads, writes := valuemodel.Layer{Class: valuemodel.ReadOnly}, valuemodel.Layer{Class: valuemodel.MutatesLocal}
	at := func(source string, all ...valuemodel.Rule) []valuemodel.Rule {
		for i := range all {
			all[i].Source = fmt.Sprintf("%s:%d", source, i)
			all[i].Sources = map[string]string{"side_effect_class": all[i].Source}
		}
		return all
	}
	get, put, bare := rule("up/get", "", reads), rule("up/put", "", writes), rule("get", "", writes)
	front, back := rule("up/g*", "", reads), rule("up/*t", "", writes)
	tuned := rule("up/get", "", valuemodel.Layer{FailFastAfter: 9})
	tuned.Tuned = true
	for _, tt := range []struct {
		name string
		a, b []valuemodel.Rule
		want bool
	}{
		{"other lines", at("c", get, put), at("d", get, put), true},
		{"moved, with the same precedence", at("c", get, bare, front), at("c", front, bare, get), true},
		{"another class", at("c", get), at("c", rule("up/get", "", writes)), false},
		{"another tool", at("c", get), at("c", rule("up/got", "", reads)), false},
		{"one more", at("c", get), at("c", get, put), false},
		{"globs, the later wins", at("c", front, back), at("c", back, front), false},
		{"one pattern twice, the later wins", at("c", get, rule("up/get", "", writes)), at("c", rule("up/get", "", writes), get), false},
		{"tuned and written", at("c", tuned), at("c", rule("up/get", "", tuned.Layer)), false},
	} {
		a, _ := valuemodel.Compile(tt.a)
		b, _ := valuemodel.Compile(tt.b)
		if got := a.Same(b); got != tt.want || b.Same(a) != got {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}
