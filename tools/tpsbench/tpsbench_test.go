package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"mcpschedd/tools/dataset"
	"mcpschedd/tools/launch"
)

func TestGenerate(t *testing.T) {
	patterns, err := readPatterns("")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(20) {
		var one, two bytes.Buffer
		tasks := newGenerator(seed, patterns, mostHard).tasks(5, 5)
		if err := writeTasks(&one, tasks); err != nil { // checks limits, references and cycles
			t.Fatalf("seed %d: %v", seed, err)
		}
		writeTasks(&two, newGenerator(seed, patterns, mostHard).tasks(5, 5))
		if one.String() != two.String() {
			t.Errorf("seed %d: got different tasks the second time", seed)
		}
		for _, task := range tasks {
			linked := 0
			for _, s := range task.Subtasks {
				linked += len(s.After)
			}
			if len(task.Tools) < 2 || task.Level == hard && (len(task.Subtasks) <= mostEasy || task.depth() < 3 || linked < 2) {
				t.Errorf("%s: got %d tools, %d subtasks, %d links, depth %d", task.ID, len(task.Tools), len(task.Subtasks), linked, task.depth())
			}
			if strings.ContainsAny(strings.ReplaceAll(task.Query, directory, ""), "{}") {
				t.Errorf("%s: placeholders are left in %q", task.ID, task.Query)
			}
		}
	}
}

func TestBadTasks(t *testing.T) {
	for name, line := range map[string]string{
		"cycle":     `{"id":"a","level":"hard","query":"q","subtasks":[{"id":"1","tool":"t","after":["2"]},{"id":"2","tool":"t","after":["1"]}]}`,
		"dangling":  `{"id":"a","level":"hard","query":"q","subtasks":[{"id":"1","tool":"t","after":["9"]}]}`,
		"twice":     `{"id":"a","level":"hard","query":"q","subtasks":[{"id":"1","tool":"t"},{"id":"1","tool":"t"}]}`,
		"too many":  `{"id":"a","level":"easy","query":"q","subtasks":[{"id":"1"},{"id":"2"},{"id":"3"},{"id":"4"},{"id":"5"},{"id":"6"}]}`,
		"no query":  `{"id":"a","level":"hard"}`,
		"same task": `{"id":"a","level":"hard","query":"q"}` + "\n" + `{"id":"a","level":"hard","query":"q"}`,
		"no JSON":   "rubbish\n{}",
		"nothing":   "",
	} {
		file := filepath.Join(t.TempDir(), "tasks.jsonl")
		os.WriteFile(file, []byte(line+"\n"), 0o600)
		if tasks, err := readTasks(file); err == nil {
			t.Errorf("%s: got %v, want an error", name, tasks)
		}
	}
}

func TestConvert(t *testing.T) {
	file := filepath.Join(t.TempDir(), "annotations.json")
	os.WriteFile(file, []byte(`[
		{"task_id":"x","Question":"q","Annotator Metadata":{"Steps":"1. look\n2. write it\ndown","Tools":"1. read\n2. write"}},
		{"task_id":"y","Question":"r","Annotator Metadata":{"Steps":"1. look","Tools":"1. b\n2. a\n3. b"}}]`), 0o600)
	found, err := dataset.LiveMCPBench(file)
	tasks := converted(found)
	if err != nil || len(tasks) != 2 {
		t.Fatalf("got %v, %v", tasks, err)
	}
	if s := tasks[0].Subtasks; len(s) != 2 || s[1].Text != "write it\ndown" || s[1].Tool != "write" || !slices.Equal(s[1].After, []string{"t1"}) {
		t.Errorf("got %+v", s)
	}
	if len(tasks[1].Subtasks) != 0 || !slices.Equal(tasks[1].Tools, []string{"a", "b"}) {
		t.Errorf("more steps than tools: got %+v", tasks[1])
	}
}

func TestPaper(t *testing.T) {
	var wrong []string
	for _, f := range published {
		cost, pass, costHolds, passHolds := f.recomputed()
		if !costHolds {
			t.Errorf("%s %s: cost %.2f", f.model, f.level, cost)
		}
		if !passHolds {
			wrong = append(wrong, fmt.Sprintf("%s %s %.2f", f.model, f.level, pass))
		}
	}
	if want := []string{"GLM-4.5 easy 15.10", "QwQ-32B easy 8.27", "QwQ-32B hard 10.90"}; !slices.Equal(wrong, want) {
		t.Errorf("got %q, want %q", wrong, want)
	}
}

// fake returns a cell with a server in this process: a chain of reads, a sum, a write, and those
// of the proxy's own tools that the tests use.
func fake(t *testing.T) *cell {
	s := server.NewMCPServer("fake", "1", server.WithToolCapabilities(false), server.WithResourceCapabilities(false, false))
	add := func(name, description string, answer func(args map[string]any) (any, error)) {
		s.AddTool(mcp.NewToolWithRawSchema(name, description, json.RawMessage(`{"type":"object"}`)), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			v, err := answer(r.GetArguments())
			if err != nil {
				return mcp.NewToolResultError(err.Error()), nil
			}
			return mcp.NewToolResultStructuredOnly(v), nil
		})
	}
	read := func(args map[string]any) (any, error) {
		if args["path"] == guess || args["path"] == nil {
			return nil, fmt.Errorf("no such file")
		}
		return fields{"content": fmt.Sprint(args["path"], "x"), "n": 2}, nil
	}
	add("s__read", "read a file", read)
	add("s__list", "list files", func(map[string]any) (any, error) { return fields{"content": "a b"}, nil })
	add("s__other", "does something else", func(map[string]any) (any, error) { return fields{}, nil })
	add(planTool, "a plan", func(args map[string]any) (any, error) {
		steps, outputs := []fields{}, fields{}
		for _, step := range args["steps"].([]any) {
			id := step.(fields)["id"].(string)
			steps, outputs[id] = append(steps, fields{"id": id, "status": "ok", "ms": 3}), fields{"content": "x"}
		}
		return fields{"steps": steps, "outputs": outputs}, nil
	})
	s.AddResource(mcp.NewResource("mcpschedd://stats", "stats"), func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		return []mcp.ResourceContents{mcp.TextResourceContents{URI: "mcpschedd://stats", Text: `{"totals":{"served_stored":0,"prefetch":{"dispatched":0,"used":0}}}`}}, nil
	})
	return inProcess(t, s, t.TempDir())
}

func inProcess(t *testing.T, s *server.MCPServer, dir string) *cell {
	t.Helper()
	proxy, err := client.NewInProcessClient(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := launch.Hello(t.Context(), proxy); err != nil {
		t.Fatal(err)
	}
	c, err := newCell(t.Context(), proxy, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

// task returns a task of two chains of two reads, and a list.
func task() Task {
	ref := func(id string) json.RawMessage { return json.RawMessage(`{"path":{"$ref":"` + id + `#/content"}}`) }
	path := json.RawMessage(`{"path":"{{dir}}/a"}`)
	t := Task{ID: "one", Level: easy, Query: "read the file {{dir}}/a and list files", Subtasks: []Subtask{
		{ID: "t1", Text: "read", Tool: "s__read", Arguments: path}, {ID: "t2", Text: "read", Tool: "s__read", Arguments: ref("t1"), After: []string{"t1"}},
		{ID: "t3", Text: "read", Tool: "s__read", Arguments: path}, {ID: "t4", Text: "read", Tool: "s__read", Arguments: ref("t3"), After: []string{"t3"}},
		{ID: "t5", Text: "list", Tool: "s__list"},
	}}
	t.need()
	return t
}

func withoutPlan(tools []Tool) []Tool {
	return slices.DeleteFunc(slices.Clone(tools), func(t Tool) bool { return t.Name == planTool })
}

func TestSkillsAndSchedules(t *testing.T) {
	c := fake(t)
	one := task().in("/w")
	for _, test := range []struct {
		skill, strategy, schedule string
		turns                     int
		rate, parallel            float64
	}{
		{well, none, parallel, 2, 1, 1},
		{well, none, serial, 5, 1, 0},
		{well, self, plan, 1, 1, 1},
		{well, rule, parallel, 2, 1, 1},
		{serially, none, parallel, 5, 1, 0},
		{inParallel, none, parallel, 1, 0.6, 1}, // calls that need results are made with guesses
		{badly, self, serial, 4, 0.8, 0},        // one subtask is forgotten
	} {
		s := script{task: one, skill: test.skill}
		a := agent{Arm: Arm{Model: test.skill, Strategy: test.strategy, Schedule: test.schedule}, tools: c.tools, call: c.call, model: s.ask, judge: s.ask, turns: 20, slots: 4}
		if test.schedule != plan {
			a.tools = withoutPlan(a.tools)
		}
		r := a.do(t.Context(), one)
		if r.Error != "" || r.Turns != test.turns || r.Rate != test.rate || r.Parallel != test.parallel || r.In == 0 || r.Out == 0 {
			t.Errorf("%+v: got %d turns, rate %.2f, parallelism %.2f, %d and %d tokens, error %q", test, r.Turns, r.Rate, r.Parallel, r.In, r.Out, r.Error)
		}
		for _, call := range r.work() {
			if call.Subtask == "" && test.skill != badly {
				t.Errorf("%+v: %+v belongs to no subtask", test, call)
			}
		}
		if scored := r.Score != nil; scored != (test.strategy != none) {
			t.Errorf("%+v: got a score %v", test, scored)
		} else if scored && test.strategy == self && (*r.Score == 100) != (test.skill == well) {
			t.Errorf("%+v: got score %v", test, *r.Score)
		}
	}
}

// chat returns an endpoint with OpenAI's interface.
func chat(t *testing.T, handle func(n int64, w http.ResponseWriter, body map[string]any)) (*endpoint, *atomic.Int64) {
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		json.NewDecoder(r.Body).Decode(&body)
		handle(n.Add(1), w, body)
		if w.Header().Get("X-Stall") != "" {
			<-r.Context().Done()
		}
	}))
	t.Cleanup(s.Close)
	return &endpoint{url: s.URL, api: openAI, model: "m", timeout: 20 * time.Second, longest: 100}, &n
}

const fine = `{"choices":[{"message":{"content":"yes"}}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`

func TestEndpointFaults(t *testing.T) {
	hello := Request{Messages: []Message{{Role: user, Content: "hello"}}}
	for name, test := range map[string]struct {
		handle func(n int64, w http.ResponseWriter)
		asked  int64
		want   string // part of the error; "" for none
	}{
		"fine":       {func(_ int64, w http.ResponseWriter) { io.WriteString(w, fine) }, 1, ""},
		"busy":       {func(n int64, w http.ResponseWriter) { busyOnce(n, w, http.StatusTooManyRequests) }, 2, ""},
		"broken":     {func(n int64, w http.ResponseWriter) { busyOnce(n, w, http.StatusBadGateway) }, 2, ""},
		"always":     {func(_ int64, w http.ResponseWriter) { w.WriteHeader(500) }, tries, "500"},
		"refused":    {func(_ int64, w http.ResponseWriter) { w.WriteHeader(401) }, 1, "401"},
		"rubbish":    {func(_ int64, w http.ResponseWriter) { io.WriteString(w, "<html>") }, tries, "cannot be used"},
		"no choices": {func(_ int64, w http.ResponseWriter) { io.WriteString(w, `{"choices":[]}`) }, tries, "no choices"},
		"nameless": {func(_ int64, w http.ResponseWriter) {
			io.WriteString(w, `{"choices":[{"message":{"tool_calls":[{"id":"1"}]}}]}`)
		}, tries, "without a name"},
		"endless": {func(_ int64, w http.ResponseWriter) { w.Write(make([]byte, mostAnswer+1)) }, 1, "over"},
	} {
		t.Run(name, func(t *testing.T) {
			e, n := chat(t, func(n int64, w http.ResponseWriter, _ map[string]any) { test.handle(n, w) })
			reply, err := patient(e.ask, time.Millisecond)(t.Context(), hello)
			if n.Load() != test.asked {
				t.Errorf("got %d requests, want %d", n.Load(), test.asked)
			}
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got error %v, want %q", err, test.want)
			}
			if err == nil && (reply.Message.Content != "yes" || reply.In != 7 || reply.Out != 3) {
				t.Errorf("got %+v", reply)
			}
		})
	}
	t.Run("stalls", func(t *testing.T) {
		e, n := chat(t, func(_ int64, w http.ResponseWriter, _ map[string]any) { w.Header().Set("X-Stall", "1") })
		e.timeout = 5 * time.Millisecond
		if _, err := patient(e.ask, time.Millisecond)(t.Context(), hello); err == nil || n.Load() > tries {
			t.Errorf("got error %v after %d requests", err, n.Load())
		}
	})
	t.Run("negative usage", func(t *testing.T) {
		e, _ := chat(t, func(_ int64, w http.ResponseWriter, _ map[string]any) {
			io.WriteString(w, `{"choices":[{"message":{"content":"yes"}}],"usage":{"prompt_tokens":-5}}`)
		})
		if reply, err := e.ask(t.Context(), hello); err != nil || reply.In <= 0 || reply.Out <= 0 {
			t.Errorf("got %+v, %v", reply, err)
		}
	})
}

func busyOnce(n int64, w http.ResponseWriter, code int) {
	if n == 1 {
		w.WriteHeader(code)
		return
	}
	io.WriteString(w, fine)
}

func TestEndpointWire(t *testing.T) {
	call := ToolCall{ID: "c1", Type: "function"}
	call.Function.Name, call.Function.Arguments = "read", `{"path":"a"}`
	request := Request{Serial: true, Tools: []Tool{{"read", "reads", json.RawMessage(`{"type":"object"}`)}}, Messages: []Message{
		{Role: system, Content: "be brief"}, {Role: user, Content: "hello"}, {Role: assistant, Calls: []ToolCall{call}}, {Role: toolRole, CallID: "c1", Content: "x"}, {Role: toolRole, CallID: "c2", Content: "y"},
	}}
	var got map[string]any
	e, _ := chat(t, func(_ int64, w http.ResponseWriter, body map[string]any) {
		got = body
		io.WriteString(w, `{"choices":[{"message":{"content":null,"tool_calls":[{"id":"c3","type":"function","function":{"name":"read","arguments":"{"}}]}}]}`)
	})
	reply, err := e.ask(t.Context(), request)
	if err != nil || len(reply.Message.Calls) != 1 || got["parallel_tool_calls"] != false || len(got["messages"].([]any)) != 5 {
		t.Errorf("openai: got %+v, %v; was sent %v", reply, err, got)
	}
	e, _ = chat(t, func(_ int64, w http.ResponseWriter, body map[string]any) {
		got = body
		io.WriteString(w, `{"content":[{"type":"text","text":"so"},{"type":"tool_use","id":"c3","name":"read","input":{"path":"b"}}],"usage":{"input_tokens":5,"cache_read_input_tokens":2,"output_tokens":4}}`)
	})
	e.api = anthropic
	reply, err = e.ask(t.Context(), request)
	if err != nil || reply.In != 7 || reply.Out != 4 || reply.Message.Content != "so" || reply.Message.Calls[0].Function.Arguments != `{"path":"b"}` {
		t.Errorf("anthropic: got %+v, %v", reply, err)
	}
	if turns := got["messages"].([]any); got["system"] != "be brief" || len(turns) != 3 || len(turns[2].(map[string]any)["content"].([]any)) != 2 {
		t.Errorf("anthropic: got %v, want the answers of a turn in one message", got)
	}
}

// TestBadCalls: arguments that are not JSON, unknown tools and a model that never ends are the
// model's faults, so the run ends without an error and is judged.
func TestBadCalls(t *testing.T) {
	c := fake(t)
	turn := 0
	model := func(context.Context, Request) (Reply, error) {
		turn++
		m := Message{Role: assistant}
		m.Calls = []ToolCall{{ID: fmt.Sprint("a", turn)}, {ID: fmt.Sprint("b", turn)}}
		m.Calls[0].Function.Name, m.Calls[0].Function.Arguments = "s__read", "{"
		m.Calls[1].Function.Name = "nothing"
		return Reply{m, 1, 1}, nil
	}
	s := script{task: task(), skill: well}
	a := agent{Arm: Arm{Strategy: none, Schedule: parallel}, tools: c.tools, call: c.call, model: model, judge: s.ask, turns: 3, slots: 2}
	r := a.do(t.Context(), task())
	if r.Error != "" || r.Rate != 0 || len(r.Calls) != 6 {
		t.Errorf("got rate %.2f, %d calls, error %q", r.Rate, len(r.Calls), r.Error)
	}
	for _, call := range r.Calls {
		if !call.Failed {
			t.Errorf("got %+v, want it failed", call)
		}
	}
}

// TestStalledCall: if a tool does not answer, its call ends, and the run continues.
func TestStalledCall(t *testing.T) {
	stalled := func(ctx context.Context, _ string, _ json.RawMessage) (string, bool, error) {
		<-ctx.Done()
		return "", true, ctx.Err()
	}
	s := script{task: task(), skill: well}
	a := agent{Arm: Arm{Strategy: none, Schedule: parallel}, tools: fake(t).tools, call: stalled, model: s.ask, judge: s.ask, turns: 9, slots: 4, patience: time.Millisecond}
	a.tools = withoutPlan(a.tools)
	if r := a.do(t.Context(), task()); r.Error != "" || r.Rate != 0 || len(r.Calls) != 3 {
		t.Errorf("got rate %.2f, calls %+v, error %q", r.Rate, r.Calls, r.Error)
	}
}

func TestFlags(t *testing.T) {
	for _, line := range []string{
		"run -model x", "run -model scripted:x", "run -model x -url http://127.0.0.1:1/v1", "run -model x -url http://127.0.0.1:1/v1 -api soap",
		"run -model x -url http://127.0.0.1:1/v1 -max-usd 1 -judge-model y -judge-url http://127.0.0.1:1/v1", "run -tools all", "run -tasks nothing", "run -slots 0",
		"generate -most 51", "convert", "report -runs nothing", "serve", "distance", "nothing", "",
	} {
		if err := command(t.Context(), strings.Fields(line), io.Discard, io.Discard); err == nil {
			t.Errorf("%q: got no error", line)
		}
	}
}

func TestJudgeAnswers(t *testing.T) {
	for text, want := range map[string]float64{
		"Completed subtasks: 3 out of 4\nCompletion rate: 70%":           0.75,
		"- **Completed subtasks:** 1 out of 2\n- Completion rate: 50\\%": 0.5,
		"Completion rate: 33.5%":                                         0.335,
	} {
		if got, _, err := readRate(text); err != nil || got != want {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "done!", "Completed subtasks: 9 out of 4", "Completion rate: 400%"} {
		if got, _, err := readRate(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
	if got, err := readScore("so: {\n\"total score\": 87.5,\n}"); got != 87.5 || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestBudget: a request that could cost too much is not sent. If an endpoint charges more than
// reserved, the run ends. The costs of earlier runs count.
func TestBudget(t *testing.T) {
	e, n := chat(t, func(_ int64, w http.ResponseWriter, _ map[string]any) {
		io.WriteString(w, `{"choices":[{"message":{"content":"yes"}}],"usage":{"prompt_tokens":5000000,"completion_tokens":3}}`)
	})
	p := &purse{most: 1}
	ask := p.limit(e.ask, Price{1, 1}, 100)
	if _, err := ask(t.Context(), Request{}); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t.Context(), Request{}); err != errBudget || n.Load() != 1 || p.total() < 5 {
		t.Errorf("got %v after %d requests and $%.2f", err, n.Load(), p.total())
	}
	for charged, want := range map[bool]float64{true: tries * 0.1, false: 0} { // every attempt that may have been charged counts
		p := &purse{most: 1}
		failing := func(context.Context, Request) (Reply, error) {
			return Reply{}, passing{error: io.EOF, charged: charged}
		}
		if _, err := patient(p.limit(failing, Price{1000, 1000}, 100), time.Millisecond)(t.Context(), Request{}); err == nil || p.total() < want || p.total() > want+0.01 {
			t.Errorf("charged %v: got error %v and $%.3f, want $%.3f", charged, err, p.total(), want)
		}
	}
	if _, err := (&purse{most: 0.00001}).limit(e.ask, Price{1, 1}, 100)(t.Context(), Request{}); err != errBudget || n.Load() != 1 {
		t.Errorf("an answer that may be too expensive: got %v after %d requests", err, n.Load())
	}
}

func newExperiment(t *testing.T, file string, model Model) *experiment {
	t.Helper()
	f, done, err := resume(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	two := task()
	two.ID = "two"
	return &experiment{
		tasks: []Task{task(), two}, arms: []Arm{{"m", none, parallel, false}}, slots: 4, turns: 9, runs: f, done: done, progress: io.Discard, purse: &purse{}, began: time.Now(), train: true,
		models: func(_ Arm, t Task) (Model, Model, Price, Price) {
			s := script{task: t, skill: well}
			if model == nil {
				return s.ask, s.ask, Price{1, 2}, Price{}
			}
			return model, s.ask, Price{}, Price{}
		},
	}
}

// TestResume: failed runs are repeated, others are not, and an incomplete line is removed.
func TestResume(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runs.jsonl")
	c := fake(t)
	c.tools = withoutPlan(c.tools)
	failing := func(context.Context, Request) (Reply, error) { return Reply{}, fmt.Errorf("out of order") }
	e := newExperiment(t, file, failing)
	if err := e.in(t.Context(), c, e.arms[0], e.tasks[:1]); err != nil {
		t.Fatal(err)
	}
	e = newExperiment(t, file, nil)
	if todo := e.todo(e.arms[0]); len(todo) != 2 {
		t.Fatalf("got %d tasks to do, want the one that failed and the one not done", len(todo))
	}
	if err := e.in(t.Context(), c, e.arms[0], e.tasks[:1]); err != nil {
		t.Fatal(err)
	}
	whole, _ := os.ReadFile(file)
	os.WriteFile(file, append(whole, `{"task":"two","mod`...), 0o600)
	e = newExperiment(t, file, nil)
	if todo := e.todo(e.arms[0]); len(todo) != 1 || todo[0].ID != "two" {
		t.Fatalf("got %v to do, want two", todo)
	}
	if err := e.in(t.Context(), c, e.arms[0], e.todo(e.arms[0])); err != nil {
		t.Fatal(err)
	}
	if e = newExperiment(t, file, nil); len(e.todo(e.arms[0])) != 0 {
		t.Error("got tasks to do at the end")
	}

	runs := e.all()
	var text, html, lines bytes.Buffer
	rows := tally(runs, e.tasks, 4)
	printReport(&text, rows)
	if !strings.Contains(text.String(), "| m | none | parallel | off | 2 | 0 | – | 100.0 % |") {
		t.Errorf("report: got %s", text.String())
	}
	if err := printPage(&html, rows, runs, e.tasks); err != nil || strings.Count(html.String(), "<figure>") < 3 || regexp.MustCompile("NaN|ZgotmplZ").MatchString(html.String()) {
		t.Errorf("page: %v, %s", err, &html)
	}
	if err := writeTrajectories(&lines, runs); err != nil {
		t.Fatal(err)
	}
	all, _, err := dataset.Lines[trajectory](&lines, "trajectories")
	if err != nil || len(all) != 2 || all[0].Reward != 1 || len(all[0].Prompt) != 2 || len(all[0].Completion) == 0 || len(all[0].Tools) != 3 || all[0].Advantage != 0 {
		t.Errorf("trajectories: got %+v, %v", all, err)
	}

	// The same calls are answered with the recorded answers.
	tools := filepath.Join(t.TempDir(), "tools.json")
	os.WriteFile(tools, []byte(`{"tools":[{"name":"read","inputSchema":{"type":"object"}}]}`), 0o600)
	list, err := readTools(tools)
	if err != nil {
		t.Fatal(err)
	}
	again := inProcess(t, recorded(list, runs, "s__"), c.dir)
	path, _ := json.Marshal(c.dir + "/a")
	if text, failed, err := again.call(t.Context(), "read", []byte(`{"path":`+string(path)+`}`)); failed || err != nil || !strings.Contains(text, "content") {
		t.Errorf("recorded: got %q, %v, %v", text, failed, err)
	}
	if _, failed, _ := again.call(t.Context(), "read", []byte(`{"path":"never"}`)); !failed {
		t.Error("a call that was not recorded: got an answer")
	}
}

func TestBudgetEndsRun(t *testing.T) {
	c := fake(t)
	e := newExperiment(t, filepath.Join(t.TempDir(), "runs.jsonl"), func(context.Context, Request) (Reply, error) { return Reply{}, errBudget })
	if err := e.in(t.Context(), c, e.arms[0], e.tasks); err != errBudget || len(e.all()) != 1 {
		t.Errorf("got %v after %d runs", err, len(e.all()))
	}
}

func TestFailuresEndRun(t *testing.T) {
	c := fake(t)
	e := newExperiment(t, filepath.Join(t.TempDir(), "runs.jsonl"), func(context.Context, Request) (Reply, error) { return Reply{}, io.EOF })
	for i := range 2 * mostBad {
		e.tasks = append(e.tasks, Task{ID: fmt.Sprint(i), Query: "q"})
	}
	if err := e.in(t.Context(), c, e.arms[0], e.tasks); err != errBad || len(e.all()) != mostBad {
		t.Errorf("got %v after %d runs", err, len(e.all()))
	}
}

func TestConfiguration(t *testing.T) {
	s := servers{text: "[upstreams.a]\ncommand = \"x\"\nargs = [\"{{dir}}\"]\n[upstreams.b]\nurl = \"http://127.0.0.1:1/mcp\"\n", self: "/me", distance: time.Second}
	settings, err := s.settings(Arm{"m", find, plan, true}, "/w")
	if err != nil {
		t.Fatal(err)
	}
	text, err := toml.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`command = "/me"`, `args = ["distance", "1s", "x", "/w"]`, `tools = "search"`, `mode = "on"`, `enabled = true`, `http://127.0.0.1:1/mcp`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("got %s, want %s in it", text, want)
		}
	}
	if _, err := (servers{text: "[server]\n"}).settings(Arm{}, "/w"); err == nil {
		t.Error("no servers: got no error")
	}
}

func TestLateKeepsOrder(t *testing.T) {
	var out bytes.Buffer
	late(strings.NewReader("a\nb\nc\n"), &out, 0)
	if out.String() != "a\nb\nc\n" {
		t.Errorf("got %q", out.String())
	}
}
