package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mcpschedd/internal/toolsearch"
)

// Arm is a way of doing tasks.
type Arm struct {
	Model    string `json:"model"`
	Strategy string `json:"strategy"` // how the tools that the model gets are chosen
	Schedule string `json:"schedule"` // how the model may call them
	Prefetch bool   `json:"prefetch"`
}

// Strategies and schedules.
const (
	none, rule, self, find = "none", "rule", "self", "find"
	serial, parallel, plan = "serial", "parallel", "plan"

	mostTools = 10 // maximum number of selected tools (section 3.2 of the paper)

	findTools = "find_tools"
	planTool  = "execute_tool_plan"
)

var (
	strategies = []string{none, rule, self, find}
	schedules  = []string{serial, parallel, plan}
)

// ownTools are the proxy's own tools, which are added to the selected ones.
var ownTools = []string{findTools, "call_read_tool", "call_tool", planTool, "mcpschedd_read_result"}

// Run is one task done by one arm: a line in a file of runs. All figures are computed from these
// lines.
type Run struct {
	Arm
	Task     string    `json:"task"`
	Level    string    `json:"level"`
	Chosen   []string  `json:"chosen,omitempty"`
	Score    *float64  `json:"score,omitempty"` // of the selection, 0 to 100; nil without a selection
	Rate     float64   `json:"rate"`            // share of completed subtasks, 0 to 1, according to the judge
	Judged   int       `json:"judged"`          // number of subtasks found by the judge
	In       int       `json:"in"`              // tokens, including those of the selection
	Out      int       `json:"out"`
	Turns    int       `json:"turns"`   // number of turns with calls
	Cost     float64   `json:"cost"`    // dollars, without those of the judge
	Judging  float64   `json:"judging"` // dollars
	Total    float64   `json:"total_s"` // from the task to the answer
	Thinking float64   `json:"model_s"` // time spent in the model
	Waiting  float64   `json:"wait_s"`  // time spent waiting for tools: the makespan of the calls
	Calls    []Called  `json:"calls"`
	Proxy    prefetch  `json:"proxy"`
	Parallel float64   `json:"parallelism"` // 1: as few turns as the dependencies allow, 0: one call per turn
	Messages []Message `json:"messages"`
	Tools    []Tool    `json:"tools,omitempty"` // tools of the model, if the runs are for training
	Error    string    `json:"error,omitempty"` // why the run ended early; it is repeated when the runs are resumed
}

// Called is a call that was made.
type Called struct {
	ID      string  `json:"id"`
	Tool    string  `json:"tool"`
	Subtask string  `json:"subtask,omitempty"` // to which it belongs, as far as the tool shows
	Plan    bool    `json:"plan,omitempty"`    // a step of a plan
	Turn    int     `json:"turn"`
	Took    float64 `json:"took_s"`
	Failed  bool    `json:"failed,omitempty"`
}

// prefetch is the proxy's prefetching during a run.
type prefetch struct {
	Sent   int `json:"sent"`   // number of prefetches
	Used   int `json:"used"`   // prefetches that were used
	Stored int `json:"stored"` // calls answered from the cache
}

func (a Arm) name() string {
	return fmt.Sprintf("%s/%s/%s/prefetch-%s", a.Model, a.Strategy, a.Schedule, a.prefetches())
}

func (a Arm) prefetches() string {
	if a.Prefetch {
		return "on"
	}
	return "off"
}

// toolCaller calls a tool. The error of a tool is returned as text; err means that the connection
// has ended.
type toolCaller func(ctx context.Context, name string, args json.RawMessage) (text string, failed bool, err error)

// agent does tasks in one arm.
type agent struct {
	Arm
	tools        []Tool
	call         toolCaller
	model, judge Model
	price        Price
	judgePrice   Price
	turns        int           // maximum number of turns
	slots        int           // maximum number of concurrent calls
	patience     time.Duration // maximum duration of a call; 0 for none
	keepTools    bool
}

// do does a task. Errors are recorded in the run.
func (a *agent) do(ctx context.Context, t Task) Run {
	r := Run{Arm: a.Arm, Task: t.ID, Level: t.Level}
	began := time.Now()
	err := a.attempt(ctx, t, &r)
	r.Total = time.Since(began).Seconds()
	r.Cost = a.price.of(r.In, r.Out)
	r.match(t)
	r.Parallel = parallelism(&r, t)
	if err == nil {
		err = a.judgeRun(ctx, t, &r)
	}
	if err != nil {
		r.Error = err.Error()
	}
	return r
}

// ask sends a request to the model, and adds up its tokens and cost.
func (a *agent) ask(ctx context.Context, q Request, r *Run) (Message, error) {
	began := time.Now()
	reply, err := a.model(ctx, q)
	r.Thinking += time.Since(began).Seconds()
	r.In, r.Out = r.In+reply.In, r.Out+reply.Out
	return reply.Message, err
}

func (a *agent) attempt(ctx context.Context, t Task, r *Run) error {
	shown, err := a.choose(ctx, t, r)
	if err != nil {
		return err
	}
	if a.keepTools {
		r.Tools = shown
	}
	how := prompts.Schedule
	if a.Schedule == serial {
		how += prompts.Serial
	} else if a.Schedule == plan {
		how += prompts.Plan
	}
	r.Messages = []Message{{Role: system, Content: how}, {Role: user, Content: t.Query}}
	for {
		said, err := a.ask(ctx, Request{For: forCalls, Messages: r.Messages, Tools: shown, Serial: a.Schedule == serial}, r)
		if err != nil {
			return err
		}
		r.Messages = append(r.Messages, said)
		if len(said.Calls) == 0 {
			return nil
		}
		if r.Turns++; r.Turns > a.turns {
			return nil // subtasks without an answer by now are not completed
		}
		if err := a.perform(ctx, said.Calls, r); err != nil {
			return err
		}
	}
}

var barred = regexp.MustCompile(`\|([^|\s]+)\|`)

// choose returns the tools that the model gets.
func (a *agent) choose(ctx context.Context, t Task, r *Run) ([]Tool, error) {
	var own, others []Tool
	for _, tool := range a.tools {
		if slices.Contains(ownTools, tool.Name) {
			own = append(own, tool)
		} else {
			others = append(others, tool)
		}
	}
	switch a.Strategy {
	case rule:
		r.Chosen = mostAlike(others, t.Query)
	case self:
		said, err := a.ask(ctx, Request{For: forSelection, Messages: []Message{{Role: user, Content: fmt.Sprintf(prompts.Selection, t.Query, catalogue(others), mostTools)}}}, r)
		if err != nil {
			return nil, err
		}
		r.Chosen = []string{}
		for _, name := range barred.FindAllStringSubmatch(said.Content, -1) {
			if len(r.Chosen) < mostTools && !slices.Contains(r.Chosen, name[1]) {
				r.Chosen = append(r.Chosen, name[1])
			}
		}
	default:
		return a.tools, nil
	}
	return append(own, named(others, r.Chosen)...), nil
}

func named(tools []Tool, names []string) (out []Tool) {
	for _, t := range tools {
		if slices.Contains(names, t.Name) {
			out = append(out, t)
		}
	}
	return out
}

// mostAlike returns the ten tools with names and descriptions most similar to a text, by words.
func mostAlike(tools []Tool, text string) (names []string) {
	var all []toolsearch.Tool
	for _, t := range tools {
		all = append(all, toolsearch.Tool{Key: t.Name, Name: t.Name, Description: t.Description})
	}
	for _, hit := range toolsearch.New(all).Search(text, mostTools, nil) {
		names = append(names, hit.Key)
	}
	return names
}

// perform makes the calls of a turn, concurrently if the schedule allows it.
func (a *agent) perform(ctx context.Context, calls []ToolCall, r *Run) error {
	slots := a.slots
	if a.Schedule == serial {
		slots = 1
	}
	free := make(chan struct{}, slots)
	texts, made, errs := make([]string, len(calls)), make([]Called, len(calls)), make([]error, len(calls))
	began := time.Now()
	var all sync.WaitGroup
	for i, c := range calls {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			texts[i], made[i], errs[i] = a.one(ctx, c)
		})
	}
	all.Wait()
	r.Waiting += time.Since(began).Seconds()
	for i, c := range calls {
		made[i].Turn = r.Turns
		r.Calls = append(r.Calls, made[i])
		if c.Function.Name == planTool {
			r.Calls = append(r.Calls, planSteps(texts[i], c, r.Turns)...)
		}
		r.Messages = append(r.Messages, Message{Role: toolRole, CallID: c.ID, Content: texts[i]})
	}
	return errors.Join(errs...)
}

// one makes a call. It is recorded under the name of the tool that is called in the end.
func (a *agent) one(ctx context.Context, c ToolCall) (string, Called, error) {
	name, _ := c.target()
	made := Called{ID: c.ID, Tool: name}
	args := c.arguments()
	if !isObject(args) {
		made.Failed = true
		return failure + "the arguments are not a JSON object", made, nil
	}
	began := time.Now()
	within := ctx
	if a.patience > 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, a.patience)
		defer cancel()
	}
	text, failed, err := a.call(within, c.Function.Name, args)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		text, err = "no answer in time", nil
	}
	made.Took, made.Failed = time.Since(began).Seconds(), failed
	if failed && !strings.HasPrefix(text, failure) {
		text = failure + text
	}
	return text, made, err
}

func (c *ToolCall) arguments() json.RawMessage {
	if strings.TrimSpace(c.Function.Arguments) == "" {
		return json.RawMessage("{}")
	}
	return json.RawMessage(c.Function.Arguments)
}

// target returns the tool that a call calls in the end, and its arguments.
func (c *ToolCall) target() (string, json.RawMessage) {
	var inner struct {
		Name      string
		Arguments json.RawMessage
	}
	if slices.Contains(ownTools, c.Function.Name) && json.Unmarshal(c.arguments(), &inner) == nil && inner.Name != "" {
		return inner.Name, inner.Arguments
	}
	return c.Function.Name, c.arguments()
}

// planAnswer is the result of a plan.
type planAnswer struct {
	Steps []struct {
		ID, Status, Reason string
		MS                 float64
	}
	Outputs map[string]json.RawMessage
}

// planSteps returns the calls that a plan made.
func planSteps(answer string, c ToolCall, turn int) (out []Called) {
	var said planAnswer
	var asked struct{ Steps []struct{ ID, Tool string } }
	if json.Unmarshal([]byte(answer), &said) != nil || json.Unmarshal([]byte(c.Function.Arguments), &asked) != nil {
		return nil
	}
	for _, s := range said.Steps {
		if s.Status == "skipped" {
			continue
		}
		one := Called{ID: s.ID, Plan: true, Turn: turn, Took: s.MS / 1000, Failed: s.Status != "ok"}
		for _, a := range asked.Steps {
			if a.ID == s.ID {
				one.Tool = strings.Replace(a.Tool, "/", "__", 1)
			}
		}
		out = append(out, one)
	}
	return out
}

// judgeRun lets the judge rate how much of the task was completed, and the selection of tools.
func (a *agent) judgeRun(ctx context.Context, t Task, r *Run) error {
	answer := ""
	if last := r.Messages[len(r.Messages)-1]; last.Role == assistant && len(last.Calls) == 0 {
		answer = last.Content
	}
	ask := func(what, prompt string) (string, error) {
		reply, err := a.judge(ctx, Request{For: what, Messages: []Message{{Role: user, Content: prompt}}})
		r.Judging += a.judgePrice.of(reply.In, reply.Out)
		return reply.Message.Content, err
	}
	said, err := ask(forRate, fmt.Sprintf(prompts.Rate, t.Query, answer))
	if err == nil {
		r.Rate, r.Judged, err = readRate(said)
	}
	if err != nil || r.Chosen == nil {
		return err
	}
	if said, err = ask(forScore, fmt.Sprintf(prompts.Score, t.Query, catalogue(named(a.tools, r.Chosen)), catalogue(a.tools))); err != nil {
		return err
	}
	score, err := readScore(said)
	r.Score = &score
	return err
}

var (
	outOf = regexp.MustCompile(`(?i)completed subtasks:\W*(\d+)\s+out of\s+(\d+)`)
	rate  = regexp.MustCompile(`(?i)completion rate:\W*(\d+(?:\.\d+)?)\s*\\?%`)
	total = regexp.MustCompile(`(?i)"total[ _]score"\s*:\s*(-?\d+(?:\.\d+)?)`)
)

// readRate reads a judge's answer. The counts have priority over the percentage, which judges
// round.
func readRate(text string) (float64, int, error) {
	if m := outOf.FindAllStringSubmatch(text, -1); m != nil {
		done, _ := strconv.Atoi(m[len(m)-1][1])
		of, _ := strconv.Atoi(m[len(m)-1][2])
		if done <= of && of > 0 {
			return float64(done) / float64(of), of, nil
		}
	}
	if m := rate.FindAllStringSubmatch(text, -1); m != nil {
		if percent, err := strconv.ParseFloat(m[len(m)-1][1], 64); err == nil && percent <= 100 {
			return percent / 100, 0, nil
		}
	}
	return 0, 0, fmt.Errorf("judge: no completion rate in %.200q", text)
}

func readScore(text string) (float64, error) {
	m := total.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("judge: no total score in %.200q", text)
	}
	score, err := strconv.ParseFloat(m[1], 64)
	return min(max(score, 0), 100), err
}
