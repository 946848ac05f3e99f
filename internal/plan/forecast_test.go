package plan_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/plan"
)

// timed has tools whose names give their duration in tenths of a second: "t8".
func timed(t testing.TB) plan.Options {
	o := parsing(t)
	o.Find = func(name string) *plan.Tool {
		tool := &plan.Tool{Name: name, Tokens: 100, Value: 1, Probability: 0.5, Writes: func([]byte) bool { return name[0] == 'w' }}
		if name[0] == 'w' {
			tool.Domains = []string{"d"}
		}
		switch name[0] {
		case 'h': // host with a capacity of one call
			tool.Host, tool.Capacity = "host", 1
		case 'c': // without a host
			tool.Capacity = 1
		case 'p': // only P90 is known
			tool.P90 = 800 * time.Millisecond
			return tool
		}
		if d, err := time.ParseDuration(name[1:] + "00ms"); err == nil {
			tool.Mean, tool.P90 = d, 3*d
		}
		return tool
	}
	return o
}

// Seed 1, 4.3: four checks take 1.1 s, 2.91 times less than one after the other.
func TestForecastHeartbeat(t *testing.T) {
	p := parsed(t, steps(
		`{"id":"email","tool":"t8"}`, `{"id":"calendar","tool":"t9"}`, `{"id":"health","tool":"t11"}`, `{"id":"state","tool":"t4"}`,
	), timed(t))
	got := p.Forecast(plan.Limits{Parallel: 4})
	want := &plan.Forecast{
		Steps: []plan.StepForecast{
			{ID: "email", Tool: "t8", Runs: true, End: 800}, {ID: "calendar", Tool: "t9", Runs: true, End: 900},
			{ID: "health", Tool: "t11", Runs: true, End: 1100}, {ID: "state", Tool: "t4", Runs: true, End: 400},
		},
		Order:        []string{"email", "calendar", "health", "state"},
		CriticalPath: plan.PathForecast{IDs: []string{"health"}, MS: 1100},
		Expected:     plan.CostForecast{MS: 1100, Sequential: 3200, Tokens: 400, Calls: 4},
		Writes:       []string{}, Discloses: []string{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if speedup := float64(got.Expected.Sequential) / float64(got.Expected.MS); speedup < 2.905 || speedup > 2.915 {
		t.Errorf("got %.3f times faster, want 2.91", speedup)
	}
}

func TestForecast(t *testing.T) {
	p := parsed(t, `{"steps":[
		{"id":"list","tool":"t5"},
		{"id":"w1","tool":"w2","arguments":{"x":"$ref:list"}},
		{"id":"w2","tool":"w2"},
		{"id":"w3","tool":"w2"},
		{"id":"dear","tool":"t10","optional":true,"value":9,"max_tokens":60},
		{"id":"cheap","tool":"t10","optional":true,"value":1,"max_tokens":50},
		{"id":"strange","tool":"x","depends_on":["dear","cheap"]}
		],"output_steps":["w3","dear","cheap"],"budget_tokens":200}`, timed(t))
	o := p.Forecast(plan.Limits{Parallel: 2, Reserve: 0.2})
	got, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"steps":[` +
		`{"id":"list","tool":"t5","writes":false,"runs":true,"start_ms":0,"end_ms":500},` +
		`{"id":"w1","tool":"w2","after":["list"],"writes":true,"runs":true,"start_ms":500,"end_ms":700},` +
		`{"id":"w2","tool":"w2","after":["w1"],"writes":true,"runs":true,"start_ms":700,"end_ms":900},` +
		`{"id":"w3","tool":"w2","after":["w2"],"writes":true,"runs":true,"start_ms":900,"end_ms":1100},` +
		`{"id":"dear","tool":"t10","writes":false,"optional":true,"runs":true,"start_ms":0,"end_ms":1000},` +
		`{"id":"cheap","tool":"t10","writes":false,"optional":true,"runs":false,"start_ms":0,"end_ms":0},` +
		`{"id":"strange","tool":"x","after":["dear","cheap"],"writes":false,"runs":true,"start_ms":1000,"end_ms":1516}],` +
		`"order":["list","dear","w1","w2","w3","strange"],` +
		`"critical_path":{"ids":["dear","strange"],"ms":1516},` +
		`"expected":{"ms":1516,"sequential_ms":2616,"tokens":160,"calls":6,"guessed":["strange"]},` +
		`"writes":["w1","w2","w3"],"discloses":[]}`
	if diff := cmp.Diff(strings.Split(want, ","), strings.Split(string(got), ",")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Limits of concurrency, and the assumptions for unknown durations.
func TestForecastBounds(t *testing.T) {
	for _, c := range []struct {
		name, raw string
		ms        int64
		tokens    int
	}{
		{"nothing", steps(`{"id":"x","tool":"t2"}`, `{"id":"y","tool":"t3"}`), 300, 200},
		{"a host", steps(`{"id":"x","tool":"h2"}`, `{"id":"y","tool":"h3"}`), 500, 200},
		{"no host", steps(`{"id":"x","tool":"c2"}`, `{"id":"y","tool":"c3"}`), 300, 200},
		{"half of what slow calls take", steps(`{"id":"x","tool":"p"}`, `{"id":"y","tool":"t1"}`), 400, 200},
		{"the budget", `{"steps":[{"id":"x","tool":"t2"},{"id":"y","tool":"t3"}],"budget_tokens":150}`, 300, 150},
		{"what comes back", `{"steps":[{"id":"x","tool":"t2"},{"id":"y","tool":"t3"}],"output_steps":["y"]}`, 300, 100},
	} {
		p := parsed(t, c.raw, timed(t))
		if e := p.Forecast(plan.Limits{}).Expected; e.MS != c.ms || e.Tokens != c.tokens {
			t.Errorf("%s: got %+v, want %d ms and %d tokens", c.name, e, c.ms, c.tokens)
		}
	}
}

// The outputs are limited to the budget without the model's reserve. Durations are not rounded
// before they are added: otherwise the sequential time could be less than the concurrent one.
func TestForecastAddsUp(t *testing.T) {
	p := parsed(t, `{"steps":[{"id":"x","tool":"t2"},{"id":"y","tool":"t3"}],"budget_tokens":150}`, timed(t))
	if got := p.Forecast(plan.Limits{Reserve: 0.2}).Expected.Tokens; got != 120 {
		t.Errorf("got %d tokens, want 120: four fifths of 150", got)
	}
	o := timed(t)
	o.Find = func(name string) *plan.Tool {
		return &plan.Tool{Name: name, Mean: 1900 * time.Microsecond, Writes: func([]byte) bool { return true }}
	}
	var chain []string
	for i := range 100 {
		chain = append(chain, fmt.Sprintf(`{"id":"s%d","tool":"a","depends_on":[%s]}`, i, strings.Join(slices.Repeat([]string{fmt.Sprintf(`"s%d"`, i-1)}, min(i, 1)), ",")))
	}
	o.Depth = 0
	e := parsed(t, steps(chain...), o).Forecast(plan.Limits{}).Expected
	if e.Sequential != 190 || e.MS != 190 {
		t.Errorf("got %d ms one after the other and %d ms in order, want 190 for both", e.Sequential, e.MS)
	}
}

// A step with for_each counts as one call and shows its maximum number.
func TestForecastForEach(t *testing.T) {
	p := parsed(t, steps(`{"id":"x","tool":"t2"}`, `{"id":"y","tool":"t3","for_each":"$ref:x"}`, `{"id":"z","tool":"t3","for_each":"$ref:x","max_items":7}`), timed(t))
	o := p.Forecast(plan.Limits{})
	if o.Steps[0].Items != 0 || o.Steps[1].Items != 100 || o.Steps[2].Items != 7 || o.Expected.Calls != 3 {
		t.Errorf("got %+v, want up to 100 and 7 items", o.Steps)
	}
	raw, err := json.Marshal(o.Steps)
	if err != nil || strings.Count(string(raw), `"for_each_up_to":`) != 2 {
		t.Errorf("got %s, %v", raw, err)
	}
}

// A step lists the steps it refers to, even if they are implied by another dependency; of the
// steps it only follows, the last.
func TestForecastAfter(t *testing.T) {
	p := parsed(t, steps(
		`{"id":"a","tool":"w1"}`, `{"id":"b","tool":"w1","arguments":{"x":"$ref:a"}}`,
		`{"id":"c","tool":"w1","arguments":{"x":"$ref:a","y":"$ref:b"}}`, `{"id":"d","tool":"w1"}`,
	), timed(t))
	var got [][]string
	for _, s := range p.Forecast(plan.Limits{}).Steps {
		got = append(got, s.After)
	}
	if diff := cmp.Diff([][]string{nil, {"a"}, {"a", "b"}, {"c"}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// expected checks that a forecast is a valid schedule.
func expected(t testing.TB, p *plan.Plan, l plan.Limits) {
	t.Helper()
	o := p.Forecast(l)
	running := 0
	for i, s := range p.Steps {
		one := o.Steps[i]
		if one.Runs != slices.Contains(o.Order, s.ID) || !one.Runs && !s.Optional {
			t.Errorf("step %s: runs %v, order %v", s.ID, one.Runs, o.Order)
		}
		if !one.Runs {
			continue
		}
		running++
		for _, j := range s.After {
			if o.Steps[j].Runs && o.Steps[j].End > one.Start {
				t.Errorf("step %s begins at %d, before %s has ended at %d", s.ID, one.Start, o.Steps[j].ID, o.Steps[j].End)
			}
		}
		if one.End > o.Expected.MS {
			t.Errorf("step %s ends at %d, the plan at %d", s.ID, one.End, o.Expected.MS)
		}
	}
	e := o.Expected
	if e.Calls != running || len(o.Steps) != len(p.Steps) {
		t.Errorf("got %+v of %d steps, %d run", e, len(p.Steps), running)
	}
}
