package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/config"
	"mcpschedd/internal/tune"
)

// write merges a layer into the configuration. What would come of it is checked before
// it takes the file's place.
func (t *tuning) write(l tune.Layer, stdout io.Writer) error {
	path := t.config.Path
	if path == "" {
		return hinted{misused{errors.New("there is no place for a configuration: neither XDG_CONFIG_HOME nor HOME is set")}, "name one with --config"}
	}
	file, err := tune.OpenFile(path)
	if err != nil {
		return err
	}
	m, err := t.merge(path, file.Text, l)
	if err != nil {
		return fmt.Errorf("%s: nothing was written: what is proposed does not go into it: %v", path, err)
	}
	for _, kept := range m.Kept {
		t.note("kept: " + kept)
	}
	if m.Changes == 0 {
		fmt.Fprintf(t.stderr, "mcpschedd: nothing to change in %s\n", path)
		return nil
	}
	backup, err := file.Replace(m.Text, time.Now())
	if err != nil {
		return err
	}
	if _, err := stdout.Write(tune.Diff(path, file.Text, m.Text)); err != nil {
		return err
	}
	fmt.Fprintf(t.stderr, "mcpschedd: wrote %s\n", path)
	if backup != "" {
		fmt.Fprintf(t.stderr, "mcpschedd: as it was: %s\n", backup)
	}
	return nil
}

// merge puts a layer into the text of a configuration. A proposal that makes no sense
// beside what the user has set, such as a longest answer shorter than their usual one,
// is left out.
func (t *tuning) merge(path string, text []byte, l tune.Layer) (tune.Merged, error) {
	for {
		m, wrong, err := t.try(path, text, l)
		if wrong == nil {
			return m, err
		}
		suspects := about(l, wrong.Key)
		if len(suspects) == 0 {
			return m, err
		}
		left := suspects
		for _, one := range suspects { // perhaps it is one of them alone
			_, still, err := t.try(path, text, without(l, one))
			if err == nil || still != nil && still.Key != wrong.Key {
				left = []at{one}
				break
			}
		}
		for _, one := range left {
			line := l.Blocks[one.block].Lines[one.line]
			t.note(fmt.Sprintf("left out: %s = %s (%s), as then %s: %s", keysOf(l.Blocks[one.block].Tool, line.Key)[0], line.Value, line.Evidence, wrong.Key, wrong.Message))
		}
		l = without(l, left...)
	}
}

// try merges a layer and loads what comes of it; wrong is what makes no sense in that.
func (t *tuning) try(path string, text []byte, l tune.Layer) (m tune.Merged, wrong *config.Problem, err error) {
	m, err = tune.Merge(text, l, tune.MergeOptions{Alone: t.alone})
	if err != nil {
		return m, nil, err
	}
	_, err = config.Parse(path, m.Text, unmeant)
	if bad, ok := errors.AsType[*config.Error](err); ok {
		wrong = &bad.Problems[0]
	}
	return m, wrong, err
}

// at is where in a layer a proposal stands.
type at struct{ block, line int }

// about are the proposals for a key of the configuration. Without any they are those
// for what stands beside it: two keys may not go together.
func about(l tune.Layer, key string) []at {
	for ; strings.ContainsAny(key, ".["); key = key[:strings.LastIndexAny(key, ".[")] {
		var found []at
		for i, b := range l.Blocks {
			for j, line := range b.Lines {
				if !line.Advice && slices.ContainsFunc(keysOf(b.Tool, line.Key), func(own string) bool { return inside(own, key) || inside(key, own) }) {
					found = append(found, at{i, j})
				}
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

// keysOf are the keys under which a proposal may stand: that of the tool's full name,
// and that of its bare one.
func keysOf(tool, key string) []string {
	path := strings.Split(key, ".")
	if tool == "" {
		return []string{config.Key(append([]string{"enrichment"}, path...)...)}
	}
	keys := []string{config.Key(append([]string{"tools", tool}, path...)...)}
	if _, bare, ok := strings.Cut(tool, "/"); ok {
		keys = append(keys, config.Key(append([]string{"tools", bare}, path...)...))
	}
	return keys
}

// inside says whether key is outer or stands inside it.
func inside(key, outer string) bool {
	rest, ok := strings.CutPrefix(key, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// without is a layer without some of its proposals.
func without(l tune.Layer, some ...at) tune.Layer {
	blocks := make([]tune.Block, len(l.Blocks))
	for i, b := range l.Blocks {
		blocks[i].Tool = b.Tool
		for j, line := range b.Lines {
			if !slices.Contains(some, at{i, j}) {
				blocks[i].Lines = append(blocks[i].Lines, line)
			}
		}
	}
	l.Blocks = blocks
	return l
}

// alone says whether no other upstream has, or may have, a tool of the same name.
func (t *tuning) alone(tool string) bool {
	owner, name, _ := strings.Cut(tool, "/")
	return !slices.ContainsFunc(t.upstreams, func(k lastKnown) bool {
		return k.name() != owner && (k.offer == nil || k.has(name))
	})
}
