package plan

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"mcpschedd/internal/schedule"
)

var (
	scheduleMembers = newNames([]string{"calls", "budget_tokens", "slots"})
	callMembers     = newNames([]string{"id", "tool", "arguments", "value", "probability", "cost_tokens", "after"})
)

// Schedule reads the arguments of mcpschedd_schedule: calls that somebody may make,
// a budget for their answers and how many may be under way at once. It returns as
// JSON which of them to make and in what order, and runs nothing. What calls refer
// to comes before them, as in a plan.
//
// A call without an id has its place as one, from 1 on. What is not said of its
// answer is what is known of the tool. A tool that nobody knows needs cost_tokens, and
// its answer is worth 0.5 if nothing is said.
func Schedule(raw []byte, o Options) ([]byte, Defects) {
	o.ReadOnly, o.Depth, o.Params = false, 0, nil // nothing is run
	r := &reading{o: o, many: "calls", count: true, unless: " (to schedule it all the same give its cost_tokens)"}
	members := r.document(raw, scheduleMembers)
	if members == nil {
		return nil, r.told()
	}
	budget := cmp.Or(r.whole(nil, "/budget_tokens", members["budget_tokens"], 1, anyNumber), o.Budget)
	slots := cmp.Or(r.whole(nil, "/slots", members["slots"], 1, anyNumber), o.Parallel)
	r.readSteps(members["calls"], "/calls", (*reading).call)
	r.link()
	r.check()
	r.order()
	if r.found > 0 {
		return nil, r.told()
	}
	if budget <= 0 {
		budget = anyNumber
	}
	answer, _ := json.Marshal(newBatches(r.steps, budget, slots)) // numbers are finite
	return answer, nil
}

// call reads one call as a step.
func (r *reading) call(d *draft, raw []byte) {
	m := r.members(d, d.at, raw, callMembers)
	m["id"] = r.idOf(m["id"], d.Index)
	d.foreign = m["cost_tokens"] != nil
	r.name(d, m)
	if m["arguments"] != nil { // else they are not known yet
		r.arguments(d, m["arguments"])
	}
	d.dependsOn = r.list(d, d.at+"/after", m["after"])
	r.worth(d, m, 1)
	if d.foreign {
		d.cost = r.whole(d, d.at+"/cost_tokens", m["cost_tokens"], 0, anyNumber)
	} else if d.Tool != nil {
		d.cost = d.Tool.Tokens
	}
}

// batches is the answer.
type batches struct {
	Selected []selected `json:"selected"` // as they begin
	LeftOut  []leftOut  `json:"left_out"`
	Value    float64    `json:"value"` // value times probability, of all that is selected
	Cost     int        `json:"cost_tokens"`
	Exact    bool       `json:"exact"` // no other choice is worth more
	Expected struct {
		Makespan   int64    `json:"makespan_ms"`
		LowerBound int64    `json:"lower_bound_ms"`
		Critical   []string `json:"critical_path"`
		Guessed    []string `json:"guessed,omitempty"`
	} `json:"expected"`
}

type selected struct {
	ID    string `json:"id"`
	Start int64  `json:"start_ms"`
	End   int64  `json:"end_ms"`
	Batch int    `json:"batch"` // from 1 on: it needs nothing of its own batch or a later one
}

type leftOut struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

func newBatches(calls []*draft, budget, slots int) *batches {
	items, steps, runs := make([]schedule.Item, len(calls)), make([]*Step, len(calls)), make([]bool, len(calls))
	for i, d := range calls {
		items[i] = schedule.Item{Value: d.Value * d.Probability, Cost: d.cost, Needs: d.waits}
		steps[i] = d.Step
	}
	choice := schedule.Select(items, schedule.Limits{Budget: budget})
	for _, i := range choice.Items {
		runs[i] = true
	}
	const digits = 1e9 // beyond them a sum of decimals shows what is not there
	b := &batches{Selected: []selected{}, LeftOut: []leftOut{}, Value: math.Round(choice.Value*digits) / digits, Cost: choice.Cost, Exact: choice.Exact}
	a := newAgenda(steps, runs, slots)
	b.Expected.Critical, b.Expected.Guessed = a.critical().IDs, a.guessed
	cost := a.cost()
	b.Expected.Makespan, b.Expected.LowerBound = cost.MS, cost.LowerBound
	batch := levels(a.tasks)
	for i, s := range a.steps {
		start, end := a.span(s)
		b.Selected = append(b.Selected, selected{s.ID, start, end, batch[i]})
	}
	slices.SortStableFunc(b.Selected, func(x, y selected) int { return cmp.Compare(x.Start, y.Start) })
	for i, d := range calls {
		if !runs[i] {
			b.LeftOut = append(b.LeftOut, leftOut{d.ID, missed(items, runs, i, budget)})
		}
	}
	return b
}

// levels are the batches in which tasks can be made at the earliest.
func levels(tasks []schedule.Task) []int {
	batch := make([]int, len(tasks))
	var of func(i int) int
	of = func(i int) int {
		if batch[i] == 0 {
			batch[i] = 1
			for _, k := range tasks[i].After {
				batch[i] = max(batch[i], of(k)+1)
			}
		}
		return batch[i]
	}
	for i := range tasks {
		of(i)
	}
	return batch
}

// missed is why a call is not selected.
func missed(items []schedule.Item, runs []bool, call, budget int) string {
	if items[call].Value <= 0 {
		return "worth nothing by itself"
	}
	whole := closure(items, call)
	cost := 0
	for _, i := range whole {
		cost += items[i].Cost
	}
	switch {
	case cost > budget && len(whole) > 1:
		return "takes " + strconv.Itoa(cost) + " tokens with what it needs, of " + strconv.Itoa(budget)
	case cost > budget:
		return "takes " + strconv.Itoa(cost) + " tokens, of " + strconv.Itoa(budget)
	}
	return "other calls are worth more of the budget"
}

// closure is an item and all that it needs.
func closure(items []schedule.Item, of int) []int {
	seen := map[int]bool{of: true}
	all := []int{of}
	for at := 0; at < len(all); at++ {
		for _, need := range items[all[at]].Needs {
			if !seen[need] {
				seen[need] = true
				all = append(all, need)
			}
		}
	}
	return all
}
