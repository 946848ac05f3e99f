package tune_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/tune"
)

// line is a layer of one line about one tool.
func line(key, value, evidence string) tune.Layer {
	return layer(block("github/list_issues", tune.Line{Key: key, Value: value, Evidence: evidence}))
}

func mustMerge(t *testing.T, text string, l tune.Layer) (string, []string) {
	t.Helper()
	m, err := tune.Merge([]byte(text), l, tune.MergeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(m.Text), m.Kept
}

const head = "[tools.\"github/list_issues\"]\n"

// What tune wrote it may write anew, until the user has had a hand in it.
func TestMergeKnowsItsOwn(t *testing.T) {
	const (
		follow = `{ tool = "get_issue", probability = 0.4, args = { n = "$args.n" } }`
		later  = `{ tool = "get_issue", probability = 0.5, args = { n = "$args.n" } }`
	)
	tests := []struct {
		name       string
		before     string // the first layer is merged into it
		key        string
		value, now string
		edit       func(string) string // what the user does then
		replaced   bool
	}{
		{name: "untouched", key: "cost_model.typical_kb", value: "4.5", now: "5.5", replaced: true},
		{name: "spelled otherwise", key: "cost_model.typical_kb", value: "4.0", now: "5.5", edit: replace("= 4.0 ", "=   4 "), replaced: true},
		{name: "moved elsewhere with its mark", key: "cost_model.typical_kb", value: "4.5", now: "5.5", edit: func(s string) string {
			s = strings.Replace(s, head, "", 1)
			return "[enrichment]\n" + head + "volatile = true\n" + s
		}, replaced: true},
		{name: "another value", key: "cost_model.typical_kb", value: "4.5", now: "5.5", edit: replace("= 4.5 ", "= 4.6 ")},
		{name: "mark taken away", key: "cost_model.typical_kb", value: "4.5", now: "5.5", edit: func(s string) string { return s[:strings.Index(s, " #")] + "\n" }},
		{name: "mark in the user's words", key: "cost_model.typical_kb", value: "4.5", now: "5.5", edit: replace("# tune", "# by tune")},
		{name: "made a comment", key: "speculate", value: "false", now: "false", edit: replace("speculate =", "# speculate =")},
		{name: "made a comment, with another value now", key: "cost_model.typical_kb", value: "4.5", now: "5.5", edit: replace("cost_model.typical_kb =", "#cost_model.typical_kb =")},
		{name: "element", key: "follow_up", value: follow, now: later, replaced: true},
		{name: "element edited", key: "follow_up", value: follow, now: later, edit: replace("0.4", "0.45")},
		{name: "element made a comment", key: "follow_up", value: follow, now: later, edit: replace("  {", "  # {")},
		{name: "table", before: "[[tools.\"github/list_issues\".follow_up]]\ntool = \"x\"\n", key: "follow_up", value: follow, now: later, replaced: true},
		{name: "table with more in it now", before: "[[tools.\"github/list_issues\".follow_up]]\ntool = \"x\"\n", key: "follow_up", value: follow,
			now: `{ tool = "get_issue", probability = 0.4, args = { n = "$args.n" }, max = 2 }`, replaced: true},
		{name: "table with less in it now", before: "[[tools.\"github/list_issues\".follow_up]]\ntool = \"x\"\n", key: "follow_up", value: follow,
			now: `{ tool = "get_issue", args = { n = "$args.n" } }`},
		{name: "table edited", before: "[[tools.\"github/list_issues\".follow_up]]\ntool = \"x\"\n", key: "follow_up", value: follow, now: later, edit: replace("0.4", "0.45")},
		{name: "in braces", before: "[tools]\n\"github/list_issues\" = { volatile = true }\n", key: "cost_model.typical_kb", value: "4.5", now: "5.5", replaced: true},
		{name: "in braces, edited", before: "[tools]\n\"github/list_issues\" = { volatile = true }\n", key: "cost_model.typical_kb", value: "4.5", now: "5.5", edit: replace("= 4.5", "= 4.6")},
		{name: "element in braces", before: "tools = { \"github/list_issues\" = { follow_up = [{ tool = 'x' }, ] } }\n", key: "follow_up", value: follow, now: later, replaced: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			text, _ := mustMerge(t, test.before, line(test.key, test.value, "n=10"))
			if test.edit != nil {
				was := text
				if text = test.edit(text); text == was {
					t.Fatalf("the edit does nothing to:\n%s", text)
				}
			}
			got, kept := mustMerge(t, text, line(test.key, test.now, "n=20"))
			if test.replaced {
				if strings.Contains(got, "n=10") || strings.Count(got, "n=20") != 1 || len(kept) > 0 {
					t.Errorf("want the new value and its mark alone, kept %q:\n%s", kept, got)
				}
				direct, _ := mustMerge(t, test.before, line(test.key, test.now, "n=20"))
				if test.edit == nil && !strings.Contains(test.name, "more in it") && got != direct {
					t.Errorf("replaced, and written at once (-at once +replaced):\n%s", cmp.Diff(direct, got))
				}
			} else if got != text || len(kept) != 1 {
				t.Errorf("want it as it is, and a note; kept %q (-want +got):\n%s", kept, cmp.Diff(text, got))
			}
			if again, _ := mustMerge(t, got, line(test.key, test.now, "n=20")); again != got {
				t.Errorf("merged once more (-once +twice):\n%s", cmp.Diff(got, again))
			}
		})
	}
}

func replace(old, with string) func(string) string {
	return func(s string) string { return strings.Replace(s, old, with, 1) }
}

// Advice stands there once, follows what is seen, and is never a setting.
func TestMergeAdvice(t *testing.T) {
	advice := func(value, evidence string) tune.Layer {
		return layer(block("github/list_issues", tune.Line{Key: "cost_model.freshness_ttl_s", Value: value, Evidence: evidence, Advice: true}))
	}
	text, _ := mustMerge(t, head+"volatile = true\n\n[limits.\"*\"]\nrate = 1\n", advice("60", "n=10"))
	const key = `tools."github/list_issues".cost_model.freshness_ttl_s = `
	if !strings.HasPrefix(text, head+"volatile = true\n# tune ") || !strings.Contains(text, " advice: "+key+"60 # n=10\n\n[limits") {
		t.Errorf("advice is not where its block is:\n%s", text)
	}
	later, _ := mustMerge(t, text, advice("300", "n=20"))
	if strings.Contains(later, "n=10") || strings.Count(later, key+"300 # n=20") != 1 {
		t.Errorf("later advice beside the earlier:\n%s", later)
	}
	edited := strings.Replace(text, "= 60 #", "= 60 # no:", 1)
	edited = strings.Replace(edited, key+"60", key+"90", 1)
	if got, _ := mustMerge(t, edited, advice("300", "n=20")); got != edited {
		t.Errorf("the user's comment was changed (-want +got):\n%s", cmp.Diff(edited, got))
	}
	taken := head + "cost_model.freshness_ttl_s = 60\n"
	if got, _ := mustMerge(t, taken, advice("60", "n=10")); got != taken {
		t.Errorf("advice that was taken is given again:\n%s", got)
	}
}

// A hostile name or text stays inside its comment or its quotes.
func TestMergeHostileWords(t *testing.T) {
	l := tune.Layer{
		Sources: []tune.Source{{Name: "a\nschema_version = 9", Calls: 1}},
		Blocks: []tune.Block{{Tool: "x/\"]\n[server]\u0000", Lines: []tune.Line{
			{Key: "speculate", Value: "false", Evidence: "a\r\nschema_version = 9\x7f\xff"},
			{Key: "fail_fast_after_n", Value: "3", Evidence: "\u2028b", Advice: true},
		}}},
	}
	text, err := tune.Render(l)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "\nschema_version") || strings.Contains(string(text), "\n[server]") {
		t.Errorf("words have become settings:\n%s", text)
	}
	for _, value := range []string{"1\nspeculate = true", "", "{", "1, 2", "\"a", "1 # c\n"} {
		if _, err := tune.Merge(nil, line("fail_fast_after_n", value, ""), tune.MergeOptions{}); err == nil {
			t.Errorf("value %q: no error", value)
		}
	}
}

// What cannot be merged is an error, and the file is not guessed at.
func TestMergeRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no TOML":         "[tools",
		"tools no table":  "tools = 3",
		"block no table":  "[tools]\n\"github/list_issues\" = 3",
		"list no list":    head + "follow_up = 3",
		"list of nothing": head + "follow_up = { a = 1 }",
		"tables of tools": "[[tools]]\nx = 1",
	} {
		t.Run(name, func(t *testing.T) {
			if m, err := tune.Merge([]byte(text), line("follow_up", `{ tool = "x" }`, ""), tune.MergeOptions{}); err == nil {
				t.Errorf("no error, but:\n%s", m.Text)
			}
		})
	}
}

// Blocks of the same bare name at two upstreams are never mixed up.
func TestMergeAlone(t *testing.T) {
	text := []byte("[tools.search]\nspeculate = true\n")
	l := layer(block("wiki/search", tune.Line{Key: "volatile", Value: "true"}))
	m, err := tune.Merge(text, l, tune.MergeOptions{Alone: func(tool string) bool { return tool != "wiki/search" }})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(m.Text), string(text)+"\n[tools.\"wiki/search\"]\nvolatile = true") {
		t.Errorf("want a block of its own:\n%s", m.Text)
	}
}

func TestRender(t *testing.T) {
	l := usual
	l.Sources = []tune.Source{{Name: "a.jsonl.gz", Calls: 120, Sessions: 3, From: 1772359200000, To: 1772445600000}, {Name: "b", Calls: 1, Sessions: 1}}
	text, err := tune.Render(l)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"#   a.jsonl.gz: 120 calls of 3 sessions, 2026-03-01 to 2026-03-02\n", "#   b: 1 calls of 1 sessions\n",
		"\n\n[tools.\"github/list_issues\"]\nspeculate = false ", "# tune ", "2 of 40 used",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if again, err := tune.Merge(text, usual, tune.MergeOptions{}); err != nil || again.Changes > 0 {
		t.Errorf("it does not know its own: %d changes, %v", again.Changes, err)
	}
	if text, err := tune.Render(tune.Layer{Sources: l.Sources}); err != nil || text != nil {
		t.Errorf("of nothing: %q, %v", text, err)
	}
}
