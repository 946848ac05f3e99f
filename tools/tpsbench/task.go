package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"mcpschedd/internal/schedule"
)

// Task is a compound task: one line of a file of tasks.
type Task struct {
	ID       string    `json:"id"`
	Level    string    `json:"level"` // easy or hard
	Query    string    `json:"query"` // what the model is asked
	Tools    []string  `json:"tools,omitempty"`
	Subtasks []Subtask `json:"subtasks,omitempty"` // as far as they are known; a judge decides without them
}

// Subtask is what one call of a tool does.
type Subtask struct {
	ID        string          `json:"id"`
	Text      string          `json:"text"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // with references to other results, as in a plan
	After     []string        `json:"after,omitempty"`     // ids of subtasks whose results it needs
}

// Levels of tasks, and how many subtasks each may have (section 3.1 of the paper).
const (
	easy, hard         = "easy", "hard"
	mostEasy, mostHard = 5, 50
)

// directory stands for the folder that the servers work on, in queries and arguments.
const directory = "{{dir}}"

// in is the task in a folder.
func (t Task) in(dir string) Task {
	quoted, _ := json.Marshal(dir)
	t.Query = strings.ReplaceAll(t.Query, directory, dir)
	t.Subtasks = slices.Clone(t.Subtasks)
	for i := range t.Subtasks {
		s := &t.Subtasks[i]
		s.Text = strings.ReplaceAll(s.Text, directory, dir)
		s.Arguments = bytes.ReplaceAll(s.Arguments, []byte(directory), bytes.Trim(quoted, `"`))
	}
	return t
}

// check says what is wrong with a task.
func (t *Task) check() error {
	if t.ID == "" || strings.TrimSpace(t.Query) == "" {
		return fmt.Errorf("task %q: want an id and a query", t.ID)
	}
	if most := map[string]int{easy: mostEasy, hard: mostHard}[t.Level]; len(t.Subtasks) > most {
		return fmt.Errorf("task %q: level %q with %d subtasks: want easy with at most %d or hard with at most %d", t.ID, t.Level, len(t.Subtasks), mostEasy, mostHard)
	}
	after, err := t.after()
	if err != nil {
		return err
	}
	if cycle := schedule.Cycle(after); cycle != nil {
		return fmt.Errorf("task %q: subtask %q waits for itself", t.ID, t.Subtasks[cycle[0]].ID)
	}
	for _, s := range t.Subtasks {
		if !json.Valid(s.arguments()) {
			return fmt.Errorf("task %q: subtask %q: arguments are no JSON", t.ID, s.ID)
		}
	}
	return nil
}

// arguments are those of a call.
func (s *Subtask) arguments() json.RawMessage {
	if len(s.Arguments) == 0 {
		return json.RawMessage("{}")
	}
	return s.Arguments
}

// after is which subtasks each waits for, by their places.
func (t *Task) after() ([][]int, error) {
	place := make(map[string]int)
	for i, s := range t.Subtasks {
		if _, twice := place[s.ID]; twice || s.ID == "" {
			return nil, fmt.Errorf("task %q: subtask %q: want an id of its own", t.ID, s.ID)
		}
		place[s.ID] = i
	}
	out := make([][]int, len(t.Subtasks))
	for i, s := range t.Subtasks {
		for _, id := range s.After {
			k, ok := place[id]
			if !ok {
				return nil, fmt.Errorf("task %q: subtask %q: no subtask %q to wait for", t.ID, s.ID, id)
			}
			out[i] = append(out[i], k)
		}
	}
	return out, nil
}

// depth is how many subtasks wait for each other in a row: the least turns that make all calls.
func (t *Task) depth() int {
	after, err := t.after()
	if err != nil {
		return 0
	}
	tasks := make([]schedule.Task, len(after))
	for i := range after {
		tasks[i] = schedule.Task{After: after[i], Mean: 1}
	}
	return int(schedule.Simulate(tasks, schedule.Expected(tasks), schedule.Slots{}).Makespan)
}

// need fills in the tools that the subtasks name.
func (t *Task) need() {
	t.Tools = nil
	for _, s := range t.Subtasks {
		if !slices.Contains(t.Tools, s.Tool) {
			t.Tools = append(t.Tools, s.Tool)
		}
	}
}

// readLines reads JSON lines, and says how many bytes the whole ones have: the last may have
// been cut short.
func readLines[T any](r io.Reader, name string) (all []T, whole int64, err error) {
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			if one := new(T); len(bytes.TrimSpace(line)) > 0 && json.Unmarshal(line, one) == nil {
				return append(all, *one), whole + int64(len(line)), nil
			}
			return all, whole, nil
		}
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", name, err)
		}
		whole += int64(len(line))
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var one T
		if err := json.Unmarshal(line, &one); err != nil {
			return nil, 0, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		all = append(all, one)
	}
}

func readTasks(name string) ([]Task, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	tasks, _, err := readLines[Task](f, name)
	if err != nil {
		return nil, err
	}
	if len(tasks) == 0 {
		return nil, fmt.Errorf("%s: no tasks in it", name)
	}
	seen := make(map[string]bool)
	for i := range tasks {
		if err := tasks[i].check(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if seen[tasks[i].ID] {
			return nil, fmt.Errorf("%s: task %q stands there twice", name, tasks[i].ID)
		}
		seen[tasks[i].ID] = true
	}
	return tasks, nil
}

func writeTasks(out io.Writer, tasks []Task) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	for _, t := range tasks {
		if err := t.check(); err != nil {
			return err
		}
		if err := e.Encode(t); err != nil {
			return err
		}
	}
	return nil
}

var numbered = regexp.MustCompile(`(?m)^\s*\d+[.)]\s*`)

// convert makes tasks of LiveMCPBench's annotations. Steps and tools are those of its
// annotators; which step feeds which is not said there, so each waits for the one before it.
// A step has no arguments: what was called is not recorded.
func convert(in io.Reader) ([]Task, error) {
	var all []struct {
		ID        string `json:"task_id"`
		Question  string
		Annotator struct{ Steps, Tools string } `json:"Annotator Metadata"`
	}
	if err := json.NewDecoder(in).Decode(&all); err != nil {
		return nil, fmt.Errorf("annotations of LiveMCPBench: %w", err)
	}
	items := func(text string) (out []string) {
		for _, part := range numbered.Split(text, -1)[1:] {
			out = append(out, strings.TrimSpace(part))
		}
		return out
	}
	var tasks []Task
	for _, a := range all {
		t := Task{ID: a.ID, Level: easy, Query: a.Question}
		steps, tools := items(a.Annotator.Steps), items(a.Annotator.Tools)
		if len(steps) == len(tools) { // else it is not said which tool goes with which step
			for i := range steps {
				s := Subtask{ID: fmt.Sprintf("t%d", i+1), Text: steps[i], Tool: tools[i]}
				if i > 0 {
					s.After = []string{t.Subtasks[i-1].ID}
				}
				t.Subtasks = append(t.Subtasks, s)
			}
		}
		slices.Sort(tools)
		t.Tools = slices.Compact(tools)
		if len(steps) > mostEasy {
			t.Level = hard
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}
