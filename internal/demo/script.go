package demo

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// call is one tool call of the agent.
type call struct {
	Server string         `json:"upstream"` // tracker or files
	Tool   string         `json:"tool"`     // without the server's prefix
	Args   map[string]any `json:"arguments"`
	as     string         // name under which the agent remembers the answer
}

// short formats the call on one line of at most width characters.
func (c call) short(width int) string {
	parts := []string{c.Tool}
	for _, name := range slices.Sorted(maps.Keys(c.Args)) {
		parts = append(parts, fmt.Sprintf("%s=%s", name, jsonrpc.Marshal(c.Args[name])))
	}
	text := strings.Join(parts, " ")
	if s := []rune(text); len(s) > width {
		return string(s[:width-1]) + "…"
	}
	return text
}

// turn is one turn of the agent: it thinks, then makes its calls together.
type turn struct {
	Think time.Duration // unscaled; 2-6 s, but 0 before the first turn
	Calls func(agent) []call
}

// agent is the memory of the simulated model: answers by name. As a model would, the script
// takes all arguments from these texts. If a text lacks the expected value, the argument is
// empty or 0, and most calls fail.
type agent map[string]string

// all returns the matches of a pattern's group in an answer.
func (a agent) all(answer, pattern string) (found []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(a[answer], -1) {
		found = append(found, m[1])
	}
	return found
}

// nth returns the n-th match, from 0, or "".
func (a agent) nth(answer, pattern string, n int) string {
	if found := a.all(answer, pattern); n < len(found) {
		return found[n]
	}
	return ""
}

// number returns the first number that a pattern matches in an answer, except the others.
func (a agent) number(answer, pattern string, others ...int) int {
	for _, text := range a.all(answer, pattern) {
		if n, _ := strconv.Atoi(text); !slices.Contains(others, n) {
			return n
		}
	}
	return 0
}

const (
	numbers = `"number":(\d+)`
	paths   = `"path":"([^"]+)"`
)

// The issues of the script: the first of the list; the bug to explain, which is the second; and
// an open issue with the same log line.
func (a agent) top() int { return a.number("bugs", numbers) }
func (a agent) bug() int { return a.number("bugs", numbers, a.top()) }
func (a agent) twin() int {
	return a.number("alike", `"number":(\d+),"title":"[^"]*","state":"open"`, a.bug())
}

// function returns the function at the top of the stack, according to the bug's comments.
func (a agent) function() string { return a.nth("bug's comments", `(\w+)\(\)`, 0) }

// callers returns the files that use the function, except tests.
func (a agent) callers() []string {
	all := slices.Compact(a.all("uses", paths)) // sorted by path
	return append(slices.DeleteFunc(all, func(path string) bool { return strings.HasSuffix(path, "_test.go") }), "", "")
}

func bugs(as string) call {
	return call{tracker, "list_issues", map[string]any{"state": "open", "label": "bug"}, as}
}

func get(number int, as string) call {
	return call{tracker, "get_issue", map[string]any{"issue_number": number}, as}
}

func comments(number int, as string) call {
	return call{tracker, "get_issue_comments", map[string]any{"issue_number": number}, as}
}

func read(path, as string) call {
	return call{files, "read_file", map[string]any{"path": path}, as}
}

// explain returns the call that adds the cause to the bug, and assigns it to the author of the
// last comment.
func (a agent) explain() call {
	caller := a.callers()[1]
	var labels []string
	_ = json.Unmarshal([]byte(a.nth("bug", `"labels":(\[[^\]]*\])`, 0)), &labels) // if this fails, the runs differ and the demo fails
	authors := append([]string{""}, a.all("bug's comments", `"(\w+): `)...)
	return call{tracker, "update_issue", map[string]any{
		"issue_number": a.bug(),
		"labels":       append(labels, "confirmed"),
		"assignee":     authors[len(authors)-1],
		"comment": fmt.Sprintf("%s:%s calls %s with the id of the event. A retry has a new one (%s), so the key never matches. Same cause as #%d.",
			caller, a.nth("uses", `"path":"`+regexp.QuoteMeta(caller)+`","line":(\d+)`, 0), a.function(), a.nth("contract", paths, 0), a.twin()),
	}, "bug"}
}

// script is the session of an agent that triages the open bugs. It finds a serious bug, its
// history and its cause in the code, comments on it, closes a duplicate, and continues with the
// next bug.
var script = []turn{
	{0, func(a agent) []call { return []call{bugs("bugs")} }},
	{3000 * time.Millisecond, func(a agent) []call { return []call{get(a.top(), "top"), comments(a.top(), "top's comments")} }},
	{2500 * time.Millisecond, func(a agent) []call { return []call{get(a.bug(), "bug")} }},
	{2000 * time.Millisecond, func(a agent) []call { return []call{comments(a.bug(), "bug's comments")} }},
	{4000 * time.Millisecond, func(a agent) []call {
		line, mentioned := a.nth("bug", "`([^`]+)`", 0), a.number("bug's comments", `#(\d+)`)
		return []call{{tracker, "search_issues", map[string]any{"query": line}, "alike"}, get(mentioned, "mentioned")}
	}},
	{3000 * time.Millisecond, func(a agent) []call { return []call{comments(a.twin(), "twin's comments")} }},
	{4500 * time.Millisecond, func(a agent) []call {
		area := a.nth("bug", `area/([^"]+)`, 0)
		return []call{
			{files, "list_directory", map[string]any{"path": area}, "area"},
			{files, "search_files", map[string]any{"query": a.function()}, "uses"},
		}
	}},
	{3500 * time.Millisecond, func(a agent) []call {
		return []call{read(a.callers()[0], "code"), read(a.callers()[1], "caller")}
	}},
	{6000 * time.Millisecond, func(a agent) []call { return []call{read(a.nth("area", `"([^"]+_test\.go)"`, 0), "test")} }},
	{5000 * time.Millisecond, func(a agent) []call { return []call{read(a.nth("caller", `(docs/\S+?\.md)`, 0), "contract")} }},
	{6000 * time.Millisecond, func(a agent) []call { return []call{a.explain()} }},
	{2000 * time.Millisecond, func(a agent) []call { return []call{get(a.bug(), "bug"), bugs("bugs left")} }},
	{3000 * time.Millisecond, func(a agent) []call {
		return []call{{tracker, "update_issue", map[string]any{
			"issue_number": a.twin(), "state": "closed", "comment": fmt.Sprintf("Duplicate of #%d.", a.bug()),
		}, "twin"}}
	}},
	{2000 * time.Millisecond, func(a agent) []call { return []call{bugs("bugs left")} }},
	{4000 * time.Millisecond, func(a agent) []call { return []call{get(a.number("bugs left", numbers, a.bug(), a.top()), "next")} }},
	// A last turn without calls, so that prefetches after the last call count as unused.
	{3000 * time.Millisecond, func(agent) []call { return nil }},
}

// survey lists the open bugs, and reads the first five with their comments, one call per turn.
func survey() []turn {
	turns := []turn{{0, func(agent) []call { return []call{bugs("bugs")} }}}
	for n := range 10 {
		turns = append(turns, turn{0, func(a agent) []call {
			number, _ := strconv.Atoi(a.nth("bugs", numbers, n%5))
			return []call{[]call{get(number, ""), comments(number, "")}[n/5]}
		}})
	}
	return turns
}

// surveyPlan does the same as one plan.
func surveyPlan() []turn {
	const plan = `{"steps":[
  {"id":"bugs","tool":"tracker__list_issues","arguments":{"state":"open","label":"bug"}},
  {"id":"each","tool":"tracker__get_issue","for_each":{"$ref":"bugs#/items"},"max_items":5,
   "arguments":{"issue_number":{"$ref":"item#/number"}}},
  {"id":"said","tool":"tracker__get_issue_comments","for_each":{"$ref":"bugs#/items"},"max_items":5,
   "arguments":{"issue_number":{"$ref":"item#/number"}}}],
 "output_steps":["each","said"],"budget_tokens":10000}`
	var args map[string]any
	_ = json.Unmarshal([]byte(plan), &args) // a constant
	return []turn{{0, func(agent) []call { return []call{{"", "execute_tool_plan", args, ""}} }}}
}
