package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
)

// pattern is a subtask in the tool repository, with names in braces for the parts that differ
// between tasks. It gives and needs kinds of results: a subtask that needs a kind can follow one
// that gives it.
type pattern struct {
	Tool, Text, Gives string
	Arguments         json.RawMessage
	Needs             []string
}

//go:embed subtasks.json
var builtIn []byte

// readPatterns reads a repository of subtasks; "" means the one for the servers that tpsbench.sh
// starts.
func readPatterns(name string) ([]pattern, error) {
	data, err := builtIn, error(nil)
	if name != "" {
		if data, err = os.ReadFile(name); err != nil {
			return nil, err
		}
	}
	var all []pattern
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if !slices.ContainsFunc(all, func(t pattern) bool { return len(t.Needs) == 0 }) {
		return nil, fmt.Errorf("%s: want subtasks that need nothing", name)
	}
	return all, nil
}

// generator composes tasks (section 3.1 and Figure 3 of the paper): easy ones of up to five mostly
// independent subtasks, and hard ones of subtasks that need each other's results. The same seed
// gives the same tasks.
type generator struct {
	rand     *rand.Rand
	patterns []pattern
	most     int // maximum subtasks of a hard task
}

func newGenerator(seed uint64, patterns []pattern, most int) *generator {
	return &generator{rand.New(rand.NewPCG(seed, 3)), patterns, min(most, mostHard)}
}

func (g *generator) tasks(easyOnes, hardOnes int) (out []Task) {
	for i := range easyOnes + hardOnes {
		level, n, least, linked := easy, 3+g.rand.IntN(mostEasy-2), 1, 0.15
		if i >= easyOnes {
			level, n, least, linked = hard, mostEasy+1+g.rand.IntN(max(g.most-mostEasy, 1)), 3, 0.6
		}
		t := Task{}
		for range 100 { // tasks that one tool can solve are discarded, as the paper's annotators did
			t = g.compose(fmt.Sprintf("%s-%02d", level, i+1), level, n, linked)
			if len(t.Tools) > 1 && t.depth() >= least {
				break
			}
		}
		out = append(out, t)
	}
	return out
}

// compose makes a task of n subtasks, of which a share needs results of others.
func (g *generator) compose(id, level string, n int, linked float64) Task {
	t := Task{ID: id, Level: level}
	givers := make(map[string][]string) // kind of result → subtasks that give it
	made := make(map[string]bool)
	link, drawn := false, -1 // number of subtasks for which link was last drawn
	for tries := 0; len(t.Subtasks) < n && tries < 100*n; tries++ {
		if tries%20 == 0 || len(t.Subtasks) > drawn {
			drawn, link = len(t.Subtasks), g.rand.Float64() < linked
		}
		one := g.patterns[g.rand.IntN(len(g.patterns))]
		if link != (len(one.Needs) > 0) || slices.ContainsFunc(one.Needs, func(kind string) bool { return givers[kind] == nil }) {
			continue
		}
		s := g.subtask(one, id, fmt.Sprintf("t%d", len(t.Subtasks)+1), givers)
		if len(s.After) < len(one.Needs) {
			continue // it has drawn the same values for both parameters
		}
		key := s.Tool + strings.ReplaceAll(string(s.Arguments), s.ID, "") // without the name of the file that it writes
		if made[key] {
			continue
		}
		made[key] = true
		if one.Gives != "" {
			givers[one.Gives] = append(givers[one.Gives], s.ID)
		}
		t.Subtasks = append(t.Subtasks, s)
	}
	t.need()
	t.Query = query(t.Subtasks)
	return t
}

// query returns the text that asks for the subtasks.
func query(subtasks []Subtask) string {
	var b strings.Builder
	b.WriteString("Please do all of this, and tell me what came of each:")
	for _, s := range subtasks {
		fmt.Fprintf(&b, "\n- (%s) %s", s.ID, s.Text)
	}
	return b.String()
}

var (
	people = []string{"Ada", "Bela", "Chidi", "Dara", "Emre", "Fay", "Goran", "Hana"}
	cities = []string{"New York", "Chicago", "Los Angeles"}
	words  = []string{"amber", "birch", "cedar", "dune", "ember", "fjord"}
	number = regexp.MustCompile(`"#(\d+)"`)
)

// size is the number of notes and of trails of files.
const size = 10

func (g *generator) subtask(one pattern, task, id string, givers map[string][]string) Subtask {
	s := Subtask{ID: id, Tool: one.Tool}
	pick := func(from []string) string { return from[g.rand.IntN(len(from))] }
	pairs := []string{"{task}", task, "{id}", id, "{n}", fmt.Sprint(g.rand.IntN(size)), "{m}", fmt.Sprint(g.rand.IntN(size)),
		"{person}", pick(people), "{city}", pick(cities), "{word}", pick(words)}
	for i, kind := range one.Needs {
		from := pick(givers[kind])
		pairs = append(pairs, "{"+string(rune('a'+i))+"}", from)
		if !slices.Contains(s.After, from) {
			s.After = append(s.After, from)
		}
	}
	// The braces of the folder's placeholder are not those of a name.
	fill := func(text string) string {
		return strings.NewReplacer(append(pairs, directory, directory)...).Replace(text)
	}
	s.Text = fill(one.Text)
	s.Arguments = number.ReplaceAll([]byte(fill(string(one.Arguments))), []byte("$1"))
	return s
}
