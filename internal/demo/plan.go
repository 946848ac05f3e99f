package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
)

// planned is a piece of reading done twice: a call a turn, and all of it as one plan. What
// an agent thinks in between is not in it.
type planned struct {
	Calls    int     `json:"calls"`
	DirectMS float64 `json:"direct_ms"` // waiting, a call after the other
	PlanMS   float64 `json:"plan_ms"`   // waiting for the plan
}

// planText lists the open bugs, and reads the first five of them with what was said.
const planText = `{"steps":[
  {"id":"bugs","tool":"tracker__list_issues","arguments":{"state":"open","label":"bug"}},
  {"id":"each","tool":"tracker__get_issue","for_each":{"$ref":"bugs#/items"},"max_items":5,
   "arguments":{"issue_number":{"$ref":"item#/number"}}},
  {"id":"said","tool":"tracker__get_issue_comments","for_each":{"$ref":"bugs#/items"},"max_items":5,
   "arguments":{"issue_number":{"$ref":"item#/number"}}}],
 "output_steps":["each","said"],"budget_tokens":10000}`

// plan does it both ways, each at new servers that were not asked anything before. What the
// plan brings must hold every answer of the single calls.
func (o Options) plan(ctx context.Context, dir string) (*planned, error) {
	p := &planned{}
	var one []answer
	var all answer
	err := both(ctx, func(ctx context.Context) error {
		a, err := o.openDirect(ctx)
		if err != nil {
			return err
		}
		defer a.close()
		one, err = oneByOne(ctx, a.call)
		return err
	}, func(ctx context.Context) error {
		a, err := o.openThrough(ctx, dir, filepath.Join(dir, "plan"))
		if err != nil {
			return err
		}
		defer a.close()
		all, err = ask(ctx, call{}, func(ctx context.Context, _ call) (*mcp.CallToolResult, error) {
			return a.peers[tracker].CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: "execute_tool_plan", Arguments: json.RawMessage(planText)}})
		})
		p.PlanMS = milliseconds(all.Wait)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("as one plan: %w", err)
	}
	var text bytes.Buffer
	if err := json.Compact(&text, []byte(all.Text)); err != nil {
		return nil, err
	}
	for i, a := range one {
		p.Calls++
		p.DirectMS += milliseconds(a.Wait)
		if i > 0 && !strings.Contains(text.String(), a.Text) { // the list is not among its outputs
			return nil, fmt.Errorf("%s: the plan brought another answer", a.short(70))
		}
	}
	return p, nil
}

// oneByOne makes the calls as most agents do: one after the other.
func oneByOne(ctx context.Context, do caller) ([]answer, error) {
	list, err := ask(ctx, bugs("bugs"), do)
	if err != nil {
		return nil, err
	}
	answers := []answer{list}
	found := agent{"bugs": list.Text}.all("bugs", numbers)
	for _, next := range []func(int, string) call{get, comments} {
		for _, text := range found[:min(len(found), 5)] {
			number, _ := strconv.Atoi(text)
			a, err := ask(ctx, next(number, ""), do)
			if err != nil {
				return nil, err
			}
			answers = append(answers, a)
		}
	}
	return answers, nil
}
