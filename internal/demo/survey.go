package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// survey is a piece of reading done twice: a call a turn, and all of it as one plan.
// What an agent thinks in between is not in it.
type survey struct {
	Calls    int     `json:"calls"`
	DirectMs float64 `json:"direct_ms"` // waiting, a call after the other
	PlanMs   float64 `json:"plan_ms"`   // waiting for the plan
	Equal    bool    `json:"equal"`     // every answer
}

// surveyed is how many bugs are read.
const surveyed = 5

// surveyPlan lists the open bugs, and reads the first of them with what was said.
const surveyPlan = `{"steps":[
  {"id":"bugs","tool":"tracker__list_issues","arguments":{"state":"open","label":"bug"}},
  {"id":"each","tool":"tracker__get_issue","for_each":{"$ref":"bugs#/items"},"max_items":5,
   "arguments":{"issue_number":{"$ref":"item#/number"}}},
  {"id":"said","tool":"tracker__get_issue_comments","for_each":{"$ref":"bugs#/items"},"max_items":5,
   "arguments":{"issue_number":{"$ref":"item#/number"}}}],
 "output_steps":["each","said"],"budget_tokens":10000}`

// takeSurvey does it both ways, each at servers of its own that nobody asked
// anything before.
func (o Options) takeSurvey(ctx context.Context) (*survey, error) {
	d, err := openDirect(ctx, o)
	if err != nil {
		return nil, err
	}
	defer d.close()
	direct, each, said, err := surveyDirect(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("direct: %w", err)
	}
	t, err := openThrough(ctx, o)
	if err != nil {
		return nil, err
	}
	defer t.close()
	took, outputs, err := surveyByPlan(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("mcpschedd: %w", err)
	}
	return &survey{
		Calls: 1 + len(each) + len(said), DirectMs: milliseconds(direct), PlanMs: milliseconds(took),
		Equal: sameTexts(outputs["each"], each) && sameTexts(outputs["said"], said),
	}, nil
}

// surveyDirect makes the calls as most agents do: one after the other.
func surveyDirect(ctx context.Context, d *desk) (took time.Duration, each, said []string, err error) {
	read := func(tool string, args map[string]any, into any) string {
		if err != nil {
			return ""
		}
		var a answer
		a, err = ask(ctx, call{tracker, tool, args, into}, 0, d.call)
		took += a.Wait
		return a.Text
	}
	var bugs issueList
	read("list_issues", map[string]any{"state": "open", "label": "bug"}, &bugs)
	bugs.Items = bugs.Items[:min(len(bugs.Items), surveyed)]
	for _, b := range bugs.Items {
		each = append(each, read("get_issue", map[string]any{"issue_number": b.Number}, new(issue)))
	}
	for _, b := range bugs.Items {
		said = append(said, read("get_issue_comments", map[string]any{"issue_number": b.Number}, new(commentList)))
	}
	return took, each, said, err
}

// surveyByPlan runs the plan.
func surveyByPlan(ctx context.Context, t *desk) (time.Duration, map[string][]json.RawMessage, error) {
	var arguments map[string]any
	if err := json.Unmarshal([]byte(surveyPlan), &arguments); err != nil {
		return 0, nil, err
	}
	began := time.Now()
	r, err := t.proxy.client.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: "execute_tool_plan", Arguments: arguments}})
	took := time.Since(began)
	if err != nil {
		return 0, nil, t.proxy.explain(err)
	}
	text, ok := mcp.AsTextContent(r.Content[0])
	if !ok || r.IsError {
		return 0, nil, fmt.Errorf("execute_tool_plan: %v", r.Content)
	}
	var said struct {
		Outputs map[string][]json.RawMessage
		Left    []any `json:"left_out"`
	}
	if err := json.Unmarshal([]byte(text.Text), &said); err != nil {
		return 0, nil, err
	}
	if said.Left != nil {
		return 0, nil, errors.New("execute_tool_plan: not all of it came back")
	}
	return took, said.Outputs, nil
}

// sameTexts reports whether results are the JSON that texts are, but for white space.
func sameTexts(results []json.RawMessage, texts []string) bool {
	if len(results) != len(texts) {
		return false
	}
	for i, text := range texts {
		var a, b bytes.Buffer
		if json.Compact(&a, results[i]) != nil || json.Compact(&b, []byte(text)) != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
			return false
		}
	}
	return true
}

// write says in words what it comes to.
func (s *survey) write(w io.Writer) {
	fmt.Fprintf(w, "\nThe %d latest bugs and what was said on them, at fresh servers:\n", surveyed)
	fmt.Fprintf(w, "  a call a turn      %2d turns  %7.1f ms of waiting  %s\n", s.Calls, s.DirectMs, strings.Repeat(string(direct), barWidth))
	cells := max(1, int(barWidth*s.PlanMs/max(s.DirectMs, 0.1)+0.5))
	fmt.Fprintf(w, "  execute_tool_plan   1 turn   %7.1f ms of waiting  %s\n", s.PlanMs, strings.Repeat(string(through), cells))
}
