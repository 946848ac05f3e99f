package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"mcpschedd/internal/schedule"
	"mcpschedd/tools/dataset"
)

// Task is a compound task: a line in a file of tasks.
type Task struct {
	ID       string    `json:"id"`
	Level    string    `json:"level"` // easy or hard
	Query    string    `json:"query"` // text for the model
	Tools    []string  `json:"tools,omitempty"`
	Subtasks []Subtask `json:"subtasks,omitempty"` // as far as they are known; otherwise a judge decides without them
}

// Subtask is one call of a tool.
type Subtask struct {
	ID        string          `json:"id"`
	Text      string          `json:"text"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // with references to results of others, as in a plan
	After     []string        `json:"after,omitempty"`     // ids of the subtasks of which it needs the results
}

// Levels of tasks, and how many subtasks each may have (section 3.1 of the paper).
const (
	easy, hard         = "easy", "hard"
	mostEasy, mostHard = 5, 50
)

// directory stands for the working folder of the servers, in queries and arguments.
const directory = "{{dir}}"

// in returns the task for a folder.
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

// check returns what is invalid in a task.
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

// arguments returns the arguments of the call.
func (s *Subtask) arguments() json.RawMessage {
	if len(s.Arguments) == 0 {
		return json.RawMessage("{}")
	}
	return s.Arguments
}

// after returns the indexes of the subtasks that each subtask waits for.
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

// depth returns the length of the longest chain of dependent subtasks: the minimum number of turns
// for all calls.
func (t *Task) depth() int {
	after, err := t.after()
	if err != nil {
		return 0
	}
	tasks := make([]schedule.Task, len(after))
	for i := range after {
		tasks[i] = schedule.Task{After: after[i], Mean: 1}
	}
	return int(schedule.Simulate(tasks, schedule.Expected(tasks), schedule.Slots{Total: len(tasks)}).Makespan)
}

// need sets the tools from those of the subtasks.
func (t *Task) need() {
	t.Tools = nil
	for _, s := range t.Subtasks {
		if !slices.Contains(t.Tools, s.Tool) {
			t.Tools = append(t.Tools, s.Tool)
		}
	}
}

func readTasks(name string) ([]Task, error) {
	tasks, err := dataset.LinesOf[Task](name)
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

// converted converts tasks of LiveMCPBench. They do not say which step depends on which, so each
// waits for the one before it. Arguments of calls are not known.
func converted(all []dataset.Task) (tasks []Task) {
	for _, found := range all {
		t := Task{ID: found.ID, Level: easy, Query: found.Question}
		if len(found.Steps) == len(found.Tools) { // otherwise it is unknown which tool belongs to which step
			for i, text := range found.Steps {
				s := Subtask{ID: fmt.Sprintf("t%d", i+1), Text: text, Tool: found.Tools[i]}
				if i > 0 {
					s.After = []string{t.Subtasks[i-1].ID}
				}
				t.Subtasks = append(t.Subtasks, s)
			}
		}
		t.Tools = slices.Compact(slices.Sorted(slices.Values(found.Tools)))
		if len(found.Steps) > mostEasy {
			t.Level = hard
		}
		tasks = append(tasks, t)
	}
	return tasks
}
