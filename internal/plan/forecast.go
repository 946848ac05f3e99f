package plan

import (
	"cmp"
	"slices"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schedule"
)

// defaultTokens is the assumed size of a result of unknown size, so that it is not treated
// as free.
const defaultTokens = 500

// expectedTokens returns the expected size of a step's output.
func (s *Step) expectedTokens() int {
	n := cmp.Or(s.Tool.Tokens, defaultTokens)
	if s.MaxTokens > 0 {
		return min(n, s.MaxTokens)
	}
	return n
}

// leftOut returns, for each step, the reason why the budget excludes it, or "". Of the optional
// steps it selects the most valuable set with outputs that fit beside those of the required steps. A
// step without an output costs no tokens, and runs if a selected step refers to it.
//
// The selection is made once, before the first call. If it depended on the sizes of results,
// third parties could learn from a call, or its absence, how much another step had read.
func (r *Runner) leftOut(p *Plan) []string {
	room, reason := r.ResultTokens(p.Budget), "left out: not needed, or over budget_tokens"
	if r.NoOptional {
		reason = "left out: the tokens of [budgets] are used up"
	}
	required := make(map[*Step]bool) // and what those steps refer to
	for _, s := range p.Steps {
		if !s.Optional {
			required[s] = true
			p.markInputs(s, required)
		}
	}
	items, why := make([]schedule.Item, len(p.Steps)), make([]string, len(p.Steps))
	for i, s := range p.Steps {
		output := slices.Contains(p.Outputs, s)
		switch {
		case required[s] && output:
			room -= s.expectedTokens()
		case !required[s]:
			why[i] = reason
			items[i].Needs = s.Needs
			if output {
				items[i].Value, items[i].Cost = max(s.worth*s.probability, minWorth), s.expectedTokens()
			}
		}
	}
	if r.NoOptional {
		return why
	}
	for _, i := range schedule.Select(items, schedule.Limits{Budget: max(room, 0), Count: len(items)}) {
		why[i] = ""
	}
	return why
}

// Forecast is the result of a dry run, as JSON. Times are in milliseconds and assume one call per
// step, because the number of items of a for_each is not known.
type Forecast struct {
	Steps     []stepForecast `json:"steps"` // in the order of the plan
	Expected  costForecast   `json:"expected"`
	Writes    []string       `json:"writes"`    // ids of the steps that may change something
	Discloses []string       `json:"discloses"` // ids of the steps that disclose other steps' outcomes to third parties
}

// stepForecast is one step of a Forecast.
type stepForecast struct {
	ID    string   `json:"id"`
	Tool  string   `json:"tool"`
	After []string `json:"after,omitempty"` // ids of the steps that it requires, without those that it follows only for order
	Runs  bool     `json:"runs"`            // false if it is optional and the budget excludes it
	Start int64    `json:"start_ms"`
	End   int64    `json:"end_ms"`
}

// costForecast is the expected cost of a plan.
type costForecast struct {
	MS     int64 `json:"ms"`
	Tokens int   `json:"tokens"` // tokens of the outputs
	Calls  int   `json:"calls"`
}

// Forecast simulates Run with the mean duration of each call and no time for steps that do not
// run.
func (r *Runner) Forecast(p *Plan) *Forecast {
	leftOut := r.leftOut(p)
	tasks, slots := p.tasks(r.Parallel)
	took := schedule.Expected(tasks)
	o := &Forecast{Writes: []string{}, Discloses: []string{}}
	e := &o.Expected
	for i, s := range p.Steps {
		if leftOut[i] != "" {
			took[i], tasks[i] = 0, schedule.Task{} // delays no other step
			continue
		}
		e.Calls++
		if slices.Contains(p.Outputs, s) {
			e.Tokens += s.expectedTokens()
		}
		if s.Writes {
			o.Writes = append(o.Writes, s.ID)
		}
		if p.discloses(s) != nil {
			o.Discloses = append(o.Discloses, s.ID)
		}
	}
	e.Tokens = min(e.Tokens, r.ResultTokens(p.Budget))
	line := schedule.Simulate(tasks, took, slots)
	e.MS = line.Makespan.Milliseconds()
	for i, s := range p.Steps {
		o.Steps = append(o.Steps, stepForecast{
			ID: s.ID, Tool: s.Tool.Name, After: p.ids(s.Waits), Runs: leftOut[i] == "",
			Start: line.Start[i].Milliseconds(), End: line.End[i].Milliseconds(),
		})
	}
	return o
}

// Answer returns the result of execute_tool_plan for a dry run.
func (o *Forecast) Answer() []byte {
	return jsonrpc.Marshal(map[string]any{"steps": []any{}, "outputs": map[string]any{}, "plan": o})
}
