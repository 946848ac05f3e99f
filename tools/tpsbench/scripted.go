package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/tools/launch"
)

// Skills of the scripted model, with the models of the paper that behave like them.
const (
	well       = "well"     // the right tools; independent calls together, or one plan (DeepSeek-R1)
	serially   = "serially" // the right tools, always one call per turn (GLM-4.5)
	inParallel = "parallel" // everything together, with guesses for missing results (QwQ-32B)
	badly      = "badly"    // one call per turn; wrong tools, and one of four subtasks is forgotten (Qwen3-1.7B)
)

// script is a model for one task that knows its subtasks. Its messages depend only on the
// conversation, so requests can be repeated. The id of a call is that of its subtask.
type script struct {
	task  Task
	skill string
	think time.Duration // before each message
	word  time.Duration // for each token of a message

	counted map[string]int // text → number of tokens
}

const guess = "unknown" // stands for a missing result

// guessed is the suffix of the id of a call with a guess.
const guessed = "-guess"

func (s *script) ask(ctx context.Context, r Request) (Reply, error) {
	m := Message{Role: assistant}
	switch r.For {
	case forSelection:
		m.Content = s.selection(r.Messages)
	case forRate:
		m.Content = rated(r.Messages[0].Content, len(s.task.Subtasks))
	case forScore:
		m.Content = s.scored(r.Messages[0].Content)
	default:
		m = s.step(r)
	}
	reply := Reply{Message: m, In: s.tokens(r.Tools), Out: s.tokens(m)}
	for _, old := range r.Messages {
		reply.In += s.tokens(old)
	}
	return reply, launch.Pause(ctx, s.think+time.Duration(reply.Out)*s.word)
}

// tokens counts each text once, as a conversation is sent again in every turn.
func (s *script) tokens(v any) int {
	data, _ := json.Marshal(v)
	if s.counted == nil {
		s.counted = make(map[string]int)
	}
	n, ok := s.counted[string(data)]
	if !ok {
		n = tokens(v)
		s.counted[string(data)] = n
	}
	return n
}

// selection names the tools of the task. With the skill badly it omits every third one, and takes
// the first two of the list instead.
func (s *script) selection(messages []Message) string {
	var names []string
	for i, name := range s.task.Tools {
		if s.skill != badly || i%3 != 2 {
			names = append(names, name)
		}
	}
	if s.skill == badly {
		for line := range strings.Lines(messages[0].Content) {
			name, _, ok := strings.Cut(strings.TrimPrefix(line, "- "), ":")
			if ok && strings.HasPrefix(line, "- ") && !slices.Contains(s.task.Tools, name) && len(names) < len(s.task.Tools)+2 {
				names = append(names, name)
			}
		}
	}
	return "|" + strings.Join(names[:min(len(names), mostTools)], "|\n|") + "|"
}

// state is the progress of the subtasks according to a conversation.
type state struct {
	answers map[string]string // subtask → answer
	failed  map[string]bool
	found   map[string]string // tool → the tool that calls it
	sought  map[string]bool   // ids of searches, and tools that were searched for
	planned bool
}

// failure is the prefix of the answer to a failed call.
const failure = "error: "

func (s *script) read(messages []Message) state {
	st := state{make(map[string]string), make(map[string]bool), make(map[string]string), make(map[string]bool), false}
	for _, m := range messages {
		if m.Role != toolRole {
			continue
		}
		switch id := m.CallID; {
		case strings.HasPrefix(id, "find-"), strings.HasPrefix(id, "again-"):
			st.sought[id], st.sought[strings.TrimPrefix(id, "find-")] = true, true
			var answer struct {
				Tools []struct {
					Name string
					With string `json:"call_with"`
				}
			}
			json.Unmarshal([]byte(m.Content), &answer)
			for _, t := range answer.Tools {
				st.found[t.Name] = t.With
			}
		case id == "plan":
			st.planned = true
			var answer planAnswer
			json.Unmarshal([]byte(m.Content), &answer)
			for _, step := range answer.Steps {
				st.answers[step.ID] = cmp.Or(string(answer.Outputs[step.ID]), step.Reason)
				st.failed[step.ID] = step.Status != "ok"
			}
		default:
			real := strings.TrimSuffix(id, guessed)
			st.answers[real] = m.Content
			st.failed[real] = strings.HasPrefix(m.Content, failure) || real != id
		}
	}
	return st
}

// step returns the next message: calls, or the answer.
func (s *script) step(r Request) Message {
	st := s.read(r.Messages)
	has := func(name string) bool {
		return slices.ContainsFunc(r.Tools, func(t Tool) bool { return t.Name == name })
	}
	m := Message{Role: assistant}
	one := r.Serial || s.skill == serially || s.skill == badly // one call per turn
	if has(findTools) {
		for _, sub := range s.task.Subtasks {
			id, query := "find-"+sub.Tool, sub.Text
			if st.sought[sub.Tool] {
				id, query = "again-"+sub.Tool, inWords(sub.Tool) // repeats the search in other words
			}
			if st.found[sub.Tool] == "" && !st.sought[id] && !m.calls(id) && !(one && len(m.Calls) > 0) {
				m.call(id, findTools, fields{"query": query})
			}
		}
		if len(m.Calls) > 0 {
			return m
		}
	}
	reach := func(sub Subtask) bool { return has(sub.Tool) || st.found[sub.Tool] != "" }
	var open []Subtask
	for i, sub := range s.task.Subtasks {
		if _, tried := st.answers[sub.ID]; !tried && reach(sub) && (s.skill != badly || i%4 != 3) {
			open = append(open, sub)
		}
	}
	if has(planTool) && !st.planned && (s.skill == well || s.skill == inParallel) && len(open) > 0 {
		var steps []fields
		for _, sub := range open {
			if !slices.ContainsFunc(sub.After, func(id string) bool { return !contains(open, id) }) {
				steps = append(steps, fields{"id": sub.ID, "tool": sub.Tool, "arguments": sub.arguments()})
			}
		}
		m.call("plan", planTool, fields{"steps": steps})
		return m
	}
	for _, sub := range open {
		waits := slices.ContainsFunc(sub.After, func(id string) bool { _, tried := st.answers[id]; return !tried && contains(open, id) })
		if waits && s.skill != inParallel || one && len(m.Calls) > 0 {
			continue
		}
		id := sub.ID
		args, whole := resolved(sub.arguments(), st)
		if !whole && s.skill != inParallel {
			continue // a result that it needs is missing
		} else if !whole {
			id += guessed
		}
		if with := st.found[sub.Tool]; with != "" && !has(sub.Tool) {
			m.call(id, with, fields{"name": sub.Tool, "arguments": args})
		} else {
			m.call(id, sub.Tool, args)
		}
	}
	if len(m.Calls) == 0 {
		m.Content = s.answer(st)
	}
	return m
}

// inWords returns the name of a tool as words.
func inWords(tool string) string {
	_, name, ok := strings.Cut(tool, "__")
	if !ok {
		name = tool
	}
	return strings.NewReplacer("_", " ", "-", " ").Replace(name)
}

func contains(all []Subtask, id string) bool {
	return slices.ContainsFunc(all, func(s Subtask) bool { return s.ID == id })
}

func (m *Message) calls(id string) bool {
	return slices.ContainsFunc(m.Calls, func(c ToolCall) bool { return c.ID == id })
}

func (m *Message) call(id, tool string, args any) {
	c := ToolCall{ID: id, Type: "function"}
	data, _ := json.Marshal(args)
	c.Function.Name, c.Function.Arguments = tool, string(data)
	m.Calls = append(m.Calls, c)
}

// answer returns the result of each subtask as text, for the judge of the same script.
func (s *script) answer(st state) string {
	var b strings.Builder
	for _, sub := range s.task.Subtasks {
		text, tried := st.answers[sub.ID]
		switch {
		case !tried:
			fmt.Fprintf(&b, "- %s: not done\n", sub.ID)
		case st.failed[sub.ID]:
			fmt.Fprintf(&b, "- %s: failed: %.80q\n", sub.ID, text)
		default:
			fmt.Fprintf(&b, "- %s: done: %.80q\n", sub.ID, text)
		}
	}
	return b.String()
}

// rated judges the answer in a prompt, in the format of the paper's judge.
func rated(prompt string, of int) string {
	done := strings.Count(prompt, ": done: ")
	return fmt.Sprintf("Total subtasks: %d\nCompleted subtasks: %d out of %d\nCompletion rate: %.2f%%\nSummary: counted", of, done, of, 100*float64(done)/float64(max(of, 1)))
}

// scored judges a selection of tools by the rules in the prompt, given the tools of the task.
func (s *script) scored(prompt string) string {
	_, rest, _ := strings.Cut(prompt, "Chosen:\n")
	chosen, _, _ := strings.Cut(rest, "Available:")
	var names []string
	for line := range strings.Lines(chosen) {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "- "), ":"); ok {
			names = append(names, name)
		}
	}
	score := 100 - 5*max(0, len(names)-mostTools)
	for _, name := range s.task.Tools {
		if !slices.Contains(names, name) {
			score -= 10
		}
	}
	for _, name := range names {
		if !slices.Contains(s.task.Tools, name) {
			score -= 8
		}
	}
	return fmt.Sprintf(`{"total score": %d}`, max(score, 0))
}

// resolved replaces references by results, and reports whether there were all.
func resolved(args json.RawMessage, st state) (any, bool) {
	var v any
	if json.Unmarshal(args, &v) != nil {
		return nil, false
	}
	whole := true
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok && len(v) == 1 {
				id, pointer, _ := strings.Cut(ref, "#")
				if got := part(st.answers[id], pointer); got != nil && !st.failed[id] {
					return got
				}
				whole = false
				return guess
			}
			for k := range v {
				v[k] = walk(v[k])
			}
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		}
		return v
	}
	v = walk(v)
	return v, whole
}

// part returns the part of a result that a JSON pointer refers to, or nil. As in a plan, a result
// that is not JSON is a text.
func part(text, pointer string) json.RawMessage {
	value := []byte(strings.TrimSpace(text))
	if !json.Valid(value) {
		value, _ = json.Marshal(text)
	}
	return jsonrpc.At(value, pointer)
}
