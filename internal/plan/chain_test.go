package plan_test

import (
	"testing"

	"mcpschedd/internal/plan"
)

func TestChain(t *testing.T) {
	step := func(i int, after, order []int) *plan.Step { return &plan.Step{Index: i, After: after, Order: order} }
	tests := map[string]struct {
		steps []*plan.Step
		calls []int
		want  int
	}{
		"none":                     {nil, nil, 0},
		"side by side":             {[]*plan.Step{step(0, nil, nil), step(1, nil, nil)}, []int{1, 1}, 1},
		"in a row":                 {[]*plan.Step{step(0, nil, nil), step(1, []int{0}, nil), step(2, []int{1}, nil)}, []int{1, 1, 1}, 3},
		"written in another order": {[]*plan.Step{step(0, []int{1}, nil), step(1, nil, nil)}, []int{1, 1}, 2},
		"one was skipped":          {[]*plan.Step{step(0, nil, nil), step(1, []int{0}, nil), step(2, []int{1}, nil)}, []int{1, 0, 1}, 2},
		"only kept in order":       {[]*plan.Step{step(0, nil, nil), step(1, []int{0}, []int{0})}, []int{1, 1}, 1},
		"many items":               {[]*plan.Step{step(0, nil, nil), step(1, []int{0}, nil)}, []int{1, 40}, 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var r plan.Report
			for i, st := range test.steps {
				r.Steps = append(r.Steps, &plan.Status{Step: st, Calls: test.calls[i]})
			}
			if got := r.ChainLength(); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}
