package plan

import (
	"cmp"
	"slices"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schedule"
)

// Forecast is the result of a dry run, as JSON. Times are in milliseconds and assume one call per
// step, because the number of items of a for_each is not known.
type Forecast struct {
	Steps        []StepForecast `json:"steps"`         // in the order of the plan
	Order        []string       `json:"order"`         // ids of the steps that run, by start time
	CriticalPath PathForecast   `json:"critical_path"` // the longest chain of steps
	Expected     CostForecast   `json:"expected"`
	Writes       []string       `json:"writes"`    // ids of the steps that may change something
	Discloses    []string       `json:"discloses"` // ids of the steps that disclose other steps' outcomes
}

// StepForecast is one step of a Forecast.
type StepForecast struct {
	ID       string   `json:"id"`
	Tool     string   `json:"tool"`
	After    []string `json:"after,omitempty"` // ids of the steps it waits for
	Writes   bool     `json:"writes"`
	Optional bool     `json:"optional,omitempty"`
	Runs     bool     `json:"runs"`                     // false if it is optional and the budget excludes it
	Items    int      `json:"for_each_up_to,omitempty"` // maximum number of items; 0 without for_each
	Start    int64    `json:"start_ms"`
	End      int64    `json:"end_ms"`
}

// PathForecast is a chain of steps and its duration.
type PathForecast struct {
	IDs []string `json:"ids"`
	MS  int64    `json:"ms"`
}

// CostForecast is the expected cost of a plan.
type CostForecast struct {
	MS         int64    `json:"ms"`
	Sequential int64    `json:"sequential_ms"` // time if all calls were sequential
	Tokens     int      `json:"tokens"`        // tokens of the outputs
	Calls      int      `json:"calls"`
	Guessed    []string `json:"guessed,omitempty"` // ids of steps with unknown duration: the mean of the others is used, or a second
}

// Forecast simulates the Runner with the mean duration of each call and zero for steps that do
// not run.
func (p *Plan) Forecast(l Limits) *Forecast {
	leftOut := p.leftOut(&l)
	tasks, slots := p.tasks(l.Parallel)
	took := schedule.Expected(tasks)
	o := &Forecast{Steps: []StepForecast{}, Order: []string{}, Writes: []string{}, Discloses: []string{}}
	e := &o.Expected
	var sum time.Duration
	for i, s := range p.Steps {
		t := &tasks[i]
		if leftOut[i] != "" {
			took[i], t.Mean, t.P90, t.Host, t.After = 0, 1, 0, "", nil // delays no other step
			continue
		}
		if t.Mean <= 0 && t.P90 <= 0 {
			e.Guessed = append(e.Guessed, s.ID)
		}
		t.Mean = took[i]
		e.Calls++
		sum += took[i]
		if p.returns(s) {
			e.Tokens += s.expectedTokens()
		}
		if s.Writes {
			o.Writes = append(o.Writes, s.ID)
		}
		if p.Discloses(s) != nil {
			o.Discloses = append(o.Discloses, s.ID)
		}
	}
	if p.Budget > 0 {
		e.Tokens = min(e.Tokens, l.ResultTokens(p.Budget)) // less the model's reserve
	}
	line := schedule.Simulate(tasks, took, slots)
	e.MS, e.Sequential = line.Makespan.Milliseconds(), sum.Milliseconds()
	for i, s := range p.Steps {
		one := StepForecast{ID: s.ID, Tool: s.Tool.Name, After: p.waitsFor(s), Writes: s.Writes, Optional: s.Optional, Runs: leftOut[i] == ""}
		if s.ForEach != nil {
			one.Items = s.ForEach.MaxItems
		}
		if one.Runs {
			one.Start, one.End = line.Start[i].Milliseconds(), line.End[i].Milliseconds()
			o.Order = append(o.Order, s.ID)
		}
		o.Steps = append(o.Steps, one)
	}
	slices.SortStableFunc(o.Order, func(a, b string) int { return cmp.Compare(line.Start[p.index(a)], line.Start[p.index(b)]) })
	length, chain := schedule.CriticalPath(tasks)
	o.CriticalPath.MS = length.Milliseconds()
	for _, i := range chain {
		if leftOut[i] == "" {
			o.CriticalPath.IDs = append(o.CriticalPath.IDs, p.Steps[i].ID)
		}
	}
	return o
}

// Answer returns the result of execute_tool_plan for a dry run.
func (o *Forecast) Answer() []byte {
	return jsonrpc.Marshal(map[string]any{"steps": []any{}, "outputs": map[string]any{}, "plan": o})
}

// waitsFor returns the ids of the steps that a step waits for; of those it only follows within a
// domain, the last.
func (p *Plan) waitsFor(s *Step) (ids []string) {
	for _, i := range s.After {
		if !slices.Contains(s.Order, i) || i == s.Order[len(s.Order)-1] {
			ids = append(ids, p.Steps[i].ID)
		}
	}
	return ids
}
