package valuemodel_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/valuemodel"
)

// In a glob * stands for slashes too, but only the first slash divides a name.
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
		if got := len(edged.Reads(nil)) == 2; got != tt.want {
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
	const pattern = `want "tool", "upstream/tool" or a glob such as "github/get_*", have `
	want := []string{
		"1 : " + pattern + `""`, "2 : " + pattern + `"up/"`, "3 : " + pattern + `"/x"`, "4 : " + pattern + `"["`,
		"5 classify: a tool that is mutates_local has no read-only calls; omit side_effect_class or set it to indeterminate",
		"6 speculate: true has no effect: side_effect_class is mutates_local, and only read-only calls are prefetched",
		"8 invalidates[1]: " + pattern + `""`, "8 invalidates[2]: " + pattern + `"up/[a"`,
		`9 follow_up[1].tool: want "tool" or "upstream/tool", have ""`, `9 follow_up[2].tool: want "tool" or "upstream/tool", have "get_*"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSame(t *testing.T) {
	base := []valuemodel.Rule{
		rule("a", "c:1", valuemodel.Layer{Class: valuemodel.ReadOnly, FailFastAfter: 3}),
		rule("b", "c:5", valuemodel.Layer{Invalidates: []valuemodel.Edge{{Tool: "a"}}}),
	}
	change := func(f func(r []valuemodel.Rule) []valuemodel.Rule) []valuemodel.Rule {
		return f([]valuemodel.Rule{base[0], base[1]})
	}
	tests := []struct {
		name  string
		rules []valuemodel.Rule
		want  bool
	}{
		{"the same", base, true},
		{"moved", change(func(r []valuemodel.Rule) []valuemodel.Rule { r[0].Source = "c:9"; return r }), false},
		{"a hint", change(func(r []valuemodel.Rule) []valuemodel.Rule { r[0].Layer.FailFastAfter = 4; return r }), false},
		{"a class", change(func(r []valuemodel.Rule) []valuemodel.Rule { r[0].Layer.Class = valuemodel.Pure; return r }), false},
		{"classify", change(func(r []valuemodel.Rule) []valuemodel.Rule { r[0].Layer.Classify = valuemodel.SQL; return r }), false},
		{"an edge", change(func(r []valuemodel.Rule) []valuemodel.Rule { r[1].Layer.Invalidates = nil; return r }), false},
		{"an edge's arguments", change(func(r []valuemodel.Rule) []valuemodel.Rule {
			r[1].Layer.Invalidates = []valuemodel.Edge{{Tool: "a", Match: []string{"id"}}}
			return r
		}), false},
		{"narrowed", change(func(r []valuemodel.Rule) []valuemodel.Rule { r[1].Layer.InvalidatesOnly = yes; return r }), false},
		{"a pattern", change(func(r []valuemodel.Rule) []valuemodel.Rule { r[0].Pattern = "a*"; return r }), false},
		{"one less", base[:1], false},
	}
	was, _ := valuemodel.Compile(base)
	for _, tt := range tests {
		now, _ := valuemodel.Compile(tt.rules)
		if was.Same(now) != tt.want || now.Same(was) != tt.want {
			t.Errorf("%s: got %v, %v, want %v", tt.name, was.Same(now), now.Same(was), tt.want)
		}
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

func TestSuggest(t *testing.T) {
	const reads, writes, unknown = valuemodel.ReadOnly, valuemodel.MutatesExternal, valuemodel.Indeterminate
	tests := map[string]valuemodel.Class{
		"get_issue": reads, "list-tables": reads, "issue_read": reads, "getJiraIssue": reads, "get_commit": reads,
		"github_search_code": reads, "read": reads, "list_updates": reads,
		"create_issue": writes, "issue_write": writes, "addWorklog": writes, "git_commit": writes, "delete": writes,
		"get_or_create": writes, "find_and_replace": writes,
		"run_query_tool": reads, "frobnicate": unknown, "": unknown, "gets": unknown, "execute": unknown,
	}
	for tool, want := range tests {
		if got := valuemodel.Suggest(tool); got != want {
			t.Errorf("%s: got %s, want %s", tool, got, want)
		}
	}
}
