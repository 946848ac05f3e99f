package plan

import (
	"cmp"
	"slices"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schedule"
)

// Forecast is what is to be expected of a plan before it runs, as JSON. Times are in
// milliseconds and count one call for each step, be it of for_each: how many items
// there will be is not known.
type Forecast struct {
	Steps        []StepForecast `json:"steps"`         // as in the plan
	Order        []string       `json:"order"`         // ids of those that run, as they begin
	CriticalPath PathForecast   `json:"critical_path"` // the chain of steps that takes longest
	Expected     CostForecast   `json:"expected"`
	Writes       []string       `json:"writes"`    // ids of the steps that may change something
	Discloses    []string       `json:"discloses"` // ids of the steps that tell third parties what others returned
}

// StepForecast is one step of a Forecast.
type StepForecast struct {
	ID       string   `json:"id"`
	Tool     string   `json:"tool"`
	After    []string `json:"after,omitempty"` // ids of what it waits for
	Writes   bool     `json:"writes"`
	Optional bool     `json:"optional,omitempty"`
	Runs     bool     `json:"runs"`                     // false: it is optional, and the budget has no room for it
	Items    int      `json:"for_each_up_to,omitempty"` // calls it may become; 0: it is one
	Start    int64    `json:"start_ms"`
	End      int64    `json:"end_ms"`
}

// PathForecast is a chain of steps and how long it takes.
type PathForecast struct {
	IDs []string `json:"ids"`
	MS  int64    `json:"ms"`
}

// CostForecast is what a plan takes.
type CostForecast struct {
	MS         int64    `json:"ms"`
	Sequential int64    `json:"sequential_ms"` // one call after the other
	Tokens     int      `json:"tokens"`        // of what comes back
	Calls      int      `json:"calls"`
	Guessed    []string `json:"guessed,omitempty"` // ids of steps whose time is not known: the mean of the others stands for it, or a second
}

// Forecast looks ahead: which steps will run, in what order, and what that takes. It plays
// the plan as the Runner would, if each call took its mean and a step that is left out no
// time.
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
			took[i], t.Mean, t.P90, t.Host, t.After = 0, 1, 0, "", nil // in no other's way
			continue
		}
		if t.Mean <= 0 && t.P90 <= 0 {
			e.Guessed = append(e.Guessed, s.ID)
		}
		t.Mean = took[i]
		e.Calls++
		sum += took[i]
		if p.returns(s) {
			e.Tokens += s.expected()
		}
		if s.Writes {
			o.Writes = append(o.Writes, s.ID)
		}
		if p.Discloses(s) != nil {
			o.Discloses = append(o.Discloses, s.ID)
		}
	}
	if p.Budget > 0 {
		e.Tokens = min(e.Tokens, l.ResultTokens(p.Budget)) // without the model's reserve
	}
	line := schedule.Simulate(tasks, took, slots)
	e.MS, e.Sequential = line.Makespan.Milliseconds(), sum.Milliseconds()
	for i, s := range p.Steps {
		one := StepForecast{ID: s.ID, Tool: s.Tool.Name, After: p.leaders(s), Writes: s.Writes, Optional: s.Optional, Runs: leftOut[i] == ""}
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

// Answer is what the client gets of a plan that is only to be looked at.
func (o *Forecast) Answer() []byte {
	return jsonrpc.Marshal(map[string]any{"steps": []any{}, "outputs": map[string]any{}, "plan": o})
}

// leaders are the ids of what a step waits for; of those whose writes or reads it only
// follows, the last.
func (p *Plan) leaders(s *Step) (ids []string) {
	for _, i := range s.After {
		if !slices.Contains(s.Order, i) || i == s.Order[len(s.Order)-1] {
			ids = append(ids, p.Steps[i].ID)
		}
	}
	return ids
}
