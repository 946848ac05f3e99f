package main

import (
	"math/rand/v2"
	"slices"

	"mcpschedd/internal/toolsearch"
)

// depths are numbers of hits.
var depths = [...]int{1, 5, 10}

// figures are the recalls at each depth.
type figures struct {
	task [3]float64 // share of a task's tools that its question finds
	hit  float64    // share of tasks for which the first hit is one of their tools
	step [3]float64 // share of steps for which their text finds the tool
}

// sum adds up the recalls for figures.
type sum struct {
	figures
	tasks, steps float64
}

func (s *sum) mean() figures {
	out := figures{hit: s.hit / s.tasks}
	for i := range depths {
		out.task[i], out.step[i] = s.task[i]/s.tasks, s.step[i]/s.steps
	}
	return out
}

// measure adds the recalls of tasks. learned is what was learned from other tasks; with nil only
// words count.
func (b *benchmark) measure(x *toolsearch.Index, tasks []task, learned []byte, s *sum) {
	for i := range tasks {
		t := &tasks[i]
		if len(t.tools) == 0 {
			continue
		}
		found := names(x.Search(t.question, depths[2], begin(learned)))
		s.tasks++
		for d, depth := range depths {
			s.task[d] += share(found[:min(depth, len(found))], t.tools)
		}
		if len(found) > 0 && slices.Contains(t.tools, found[0]) {
			s.hit++
		}
		session := begin(learned) // in which the tools of earlier steps were called
		for _, st := range t.steps {
			found := names(x.Search(st.text, depths[2], session))
			s.steps++
			for d, depth := range depths {
				s.step[d] += share(found[:min(depth, len(found))], []string{st.tool})
			}
			session.Called(b.key(st.tool, t))
		}
	}
}

// begin begins a session with what was learned. What the session learns is discarded.
func begin(state []byte) *toolsearch.Session {
	if state == nil {
		return nil
	}
	l := toolsearch.NewLearned()
	if _, err := l.Merge(state); err != nil {
		panic(err) // numbers always marshal
	}
	return l.Begin()
}

// train plays tasks: it searches for the task and, where steps are known, for each step, and calls
// the tools.
func (b *benchmark) train(x *toolsearch.Index, tasks []task) []byte {
	learned := toolsearch.NewLearned()
	for i := range tasks {
		t := &tasks[i]
		s := learned.Begin()
		search := func(text string) { s.Searched(text, keys(x.Search(text, depths[2], nil))) }
		search(t.question)
		for _, st := range t.steps {
			search(st.text)
			s.Called(b.key(st.tool, t))
		}
		for _, name := range t.tools {
			s.Called(b.key(name, t))
		}
	}
	state, err := learned.Merge(nil)
	if err != nil {
		panic(err)
	}
	return state
}

// crossValidate measures each task with what was learned from the tasks of the other folds, for
// several divisions.
func (b *benchmark) crossValidate(x *toolsearch.Index, folds, divisions int) figures {
	var s sum
	for division := range divisions {
		tasks := slices.Clone(b.tasks)
		rand.New(rand.NewPCG(uint64(division), 1)).Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
		for fold := range folds {
			var tests, others []task
			for i, t := range tasks {
				if i%folds == fold {
					tests = append(tests, t)
				} else {
					others = append(others, t)
				}
			}
			b.measure(x, tests, b.train(x, others), &s)
		}
	}
	return s.mean()
}

// share returns how many of the wanted tools were found, as a share of all wanted ones.
func share(found, wanted []string) float64 {
	n := 0
	for _, name := range wanted {
		if slices.Contains(found, name) {
			n++
		}
	}
	return float64(n) / float64(len(wanted))
}

func keys(hits []toolsearch.Hit) (out []string) {
	for _, h := range hits {
		out = append(out, h.Key)
	}
	return out
}

func names(hits []toolsearch.Hit) (out []string) {
	for _, h := range hits {
		out = append(out, nameOf(h.Key))
	}
	return out
}
