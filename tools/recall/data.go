package main

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"mcpschedd/internal/toolsearch"
	"mcpschedd/tools/dataset"
)

// benchmark is LiveMCPBench: tools of real servers, and tasks with the tools that annotators found
// necessary.
type benchmark struct {
	tools []toolsearch.Tool
	keys  map[string][]string // name of a tool → keys of the tools with this name
	tasks []task
}

// task is a compound task.
type task struct {
	question string
	tools    []string // distinct names of existing tools
	steps    []step   // empty if their number differs from that of the tools, as then it is unknown which belong together
}

type step struct{ text, tool string }

func readBenchmark(dir string) (*benchmark, error) {
	b := &benchmark{keys: make(map[string][]string)}
	var servers []struct {
		Name, Description string
		Tools             map[string]struct {
			Tools []struct {
				Name, Description string
				InputSchema       struct {
					Properties map[string]json.RawMessage
				}
			}
		}
	}
	if err := dataset.JSON(filepath.Join(dir, "tools.json.gz"), &servers); err != nil {
		return nil, err
	}
	for _, s := range servers {
		for _, name := range slices.Sorted(maps.Keys(s.Tools)) {
			for _, t := range s.Tools[name].Tools {
				key := name + "/" + t.Name
				b.keys[t.Name] = append(b.keys[t.Name], key)
				b.tools = append(b.tools, toolsearch.Tool{
					Key: key, Name: t.Name, Description: t.Description, Server: name, About: s.Description,
					Parameters: slices.Sorted(maps.Keys(t.InputSchema.Properties)),
				})
			}
		}
	}
	annotated, err := dataset.LiveMCPBench(filepath.Join(dir, "all_annotations.json.gz"))
	for _, a := range annotated {
		b.tasks = append(b.tasks, b.task(a))
	}
	return b, err
}

func (b *benchmark) task(a dataset.Task) task {
	t := task{question: a.Question}
	for i, name := range a.Tools {
		if len(b.keys[name]) == 0 {
			continue // no server of the benchmark has it
		}
		if !slices.Contains(t.tools, name) {
			t.tools = append(t.tools, name)
		}
		if len(a.Steps) == len(a.Tools) {
			t.steps = append(t.steps, step{a.Steps[i], name})
		}
	}
	return t
}

// key returns the tool that a task means by a name: of several tools with the name, the one of the
// server with most of the task's other tools.
func (b *benchmark) key(name string, t *task) string {
	keys := b.keys[name]
	most, best := -1, ""
	for _, key := range keys {
		n := 0
		for _, other := range t.tools {
			if len(b.keys[other]) == 1 && server(b.keys[other][0]) == server(key) {
				n++
			}
		}
		if n > most {
			most, best = n, key
		}
	}
	return best
}

func server(key string) string { name, _, _ := strings.Cut(key, "/"); return name }

func nameOf(key string) string { _, name, _ := strings.Cut(key, "/"); return name }
