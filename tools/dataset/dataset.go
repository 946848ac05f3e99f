// Package dataset reads the files with which tools measure: recorded sessions and the classes of
// their tools, JSON lines, and LiveMCPBench.
package dataset

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"mcpschedd/internal/config"
	"mcpschedd/internal/replay"
	"mcpschedd/internal/valuemodel"
)

// Classes reads the models of the tools in recorded sessions, from a file of [tools.*] blocks as
// for `mcpschedd replay --config`.
func Classes(name string) (func(tool string) *valuemodel.Model, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	c, err := config.Default().Parse(name, data)
	if err != nil {
		return nil, err
	}
	// One upstream has all recorded tools.
	upstream := valuemodel.Upstream{Name: "trace", Provider: "claude-code", Domain: "trace"}
	return func(tool string) *valuemodel.Model {
		return c.Models.Resolve(upstream, tool, valuemodel.Hints{})
	}, nil
}

// BySession groups calls by session, in the order in which the sessions begin.
func BySession(calls []replay.Call) [][]replay.Call {
	at := make(map[string]int)
	var all [][]replay.Call
	for _, c := range calls {
		if _, known := at[c.Session]; !known {
			at[c.Session] = len(all)
			all = append(all, nil)
		}
		all[at[c.Session]] = append(all[at[c.Session]], c)
	}
	return all
}

// Open opens a file, and decompresses it if its name ends in .gz.
func Open(name string) (io.ReadCloser, error) {
	f, err := os.Open(name)
	if err != nil || !strings.HasSuffix(name, ".gz") {
		return f, err
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return struct {
		io.Reader
		io.Closer
	}{z, f}, nil
}

// JSON reads a file with one value, plain or compressed.
func JSON(name string, into any) error {
	f, err := Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := json.NewDecoder(f).Decode(into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// LinesOf reads a file of JSON lines, plain or compressed.
func LinesOf[T any](name string) ([]T, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, _, err := Lines[T](f, name)
	return all, err
}

// Lines reads JSON lines, and returns how many bytes the complete ones have. An incomplete last
// line is left out.
func Lines[T any](r io.Reader, name string) (all []T, whole int64, err error) {
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, end := lines.ReadBytes('\n')
		if end != nil && end != io.EOF {
			return nil, 0, fmt.Errorf("%s: %w", name, end)
		}
		if len(bytes.TrimSpace(line)) > 0 {
			var one T
			err := json.Unmarshal(line, &one)
			switch {
			case err == nil:
				all = append(all, one)
			case end == nil:
				return nil, 0, fmt.Errorf("%s:%d: %w", name, n, err)
			default:
				return all, whole, nil
			}
		}
		whole += int64(len(line))
		if end != nil {
			return all, whole, nil
		}
	}
}

// Task is a task of LiveMCPBench with its annotations. They do not say which step depends on
// which, nor the arguments of calls, but the tool of each step if there are as many tools as
// steps.
type Task struct {
	ID           string
	Question     string
	Steps, Tools []string
}

// LiveMCPBench reads the annotations of the tasks.
func LiveMCPBench(name string) ([]Task, error) {
	var all []struct {
		ID        string `json:"task_id"`
		Question  string
		Annotator struct{ Steps, Tools string } `json:"Annotator Metadata"`
	}
	if err := JSON(name, &all); err != nil {
		return nil, err
	}
	var tasks []Task
	for _, a := range all {
		tasks = append(tasks, Task{a.ID, a.Question, numbered(a.Annotator.Steps), numbered(a.Annotator.Tools)})
	}
	return tasks, nil
}

var item = regexp.MustCompile(`(?m)^\s*\d+[.)]\s*`)

// numbered returns the items of a numbered list.
func numbered(text string) (out []string) {
	for _, part := range item.Split(text, -1)[1:] {
		out = append(out, strings.TrimSpace(part))
	}
	return out
}
