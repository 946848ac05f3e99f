package plan_test

import (
	"slices"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/plan"
)

// timed has tools whose names give their duration in tenths of a second: "t8".
func timed(t testing.TB) plan.Options {
	o := parsing(t)
	o.Find = func(name string) *plan.Tool {
		tool := &plan.Tool{Name: name, Tokens: 100, Worth: 1, Writes: func([]byte) bool { return name[0] == 'w' }}
		switch name[0] {
		case 'w':
			tool.Domains = []string{"d"}
		case 'h':
			tool.Host, tool.Capacity = "host", 1
		}
		tool.Mean, _ = time.ParseDuration(name[1:] + "00ms")
		return tool
	}
	return o
}

// forecast returns what a runner with the limits expects of a plan.
func forecast(p *plan.Plan, l plan.Limits) *plan.Forecast {
	return (&plan.Runner{Limits: within(l)}).Forecast(p)
}

func TestForecast(t *testing.T) {
	p := parsed(t, `{"steps":[
		{"id":"list","tool":"t5"},
		{"id":"w1","tool":"w2","arguments":{"x":"$ref:list"}},
		{"id":"w2","tool":"w2"},
		{"id":"dear","tool":"t10","optional":true,"value":9,"max_tokens":60},
		{"id":"cheap","tool":"t10","optional":true,"value":1,"max_tokens":50},
		{"id":"strange","tool":"x","depends_on":["dear","cheap"]}
		],"output_steps":["w2","dear","cheap"],"budget_tokens":200}`, timed(t))
	got := string(jsonrpc.Marshal(forecast(p, plan.Limits{Parallel: 2, Reserve: 0.2})))
	want := `{"steps":[` +
		`{"id":"list","tool":"t5","runs":true,"start_ms":0,"end_ms":500},` +
		`{"id":"w1","tool":"w2","after":["list"],"runs":true,"start_ms":500,"end_ms":700},` +
		`{"id":"w2","tool":"w2","runs":true,"start_ms":700,"end_ms":900},` +
		`{"id":"dear","tool":"t10","runs":true,"start_ms":0,"end_ms":1000},` +
		`{"id":"cheap","tool":"t10","runs":false,"start_ms":0,"end_ms":0},` +
		`{"id":"strange","tool":"x","after":["dear","cheap"],"runs":true,"start_ms":1000,"end_ms":1580}],` +
		`"expected":{"ms":1580,"tokens":160,"calls":5},"writes":["w1","w2"],"discloses":[]}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	told := parsed(t, `{"steps":[{"id":"a","tool":"find"},{"id":"b","tool":"fetch","arguments":{"x":{"$ref":"a#"}}},{"id":"c","tool":"fetch"}]}`, plan.Options{Find: shop})
	if got := forecast(told, plan.Limits{}).Discloses; !slices.Equal(got, []string{"b"}) {
		t.Errorf("%v disclose results of others, want b", got)
	}
	host := parsed(t, steps(`{"id":"x","tool":"h2"}`, `{"id":"y","tool":"h3"}`), timed(t))
	if got := forecast(host, plan.Limits{}).Expected.MS; got != 500 {
		t.Errorf("got %d ms at a host with one slot, want 500", got)
	}
}

// expected fails if a forecast is not a valid schedule of its plan.
func expected(t testing.TB, p *plan.Plan, l plan.Limits) {
	t.Helper()
	o := forecast(p, l)
	for i, s := range p.Steps {
		one := o.Steps[i]
		if !one.Runs && !s.Optional || one.End > o.Expected.MS {
			t.Errorf("step %s: got %+v of %+v", s.ID, one, o.Expected)
		}
		for _, j := range slices.Concat(s.Waits, s.OrderAfter) {
			if one.Runs && o.Steps[j].Runs && o.Steps[j].End > one.Start {
				t.Errorf("step %s begins at %d, before %s has ended at %d", s.ID, one.Start, o.Steps[j].ID, o.Steps[j].End)
			}
		}
	}
}

// Optional steps run if their outputs of 100 tokens each fit beside those of the required steps.
func TestBudget(t *testing.T) {
	const out = " skipped: left out: not needed, or over budget_tokens"
	for _, c := range []struct {
		name, steps, rest string
		limits            plan.Limits
		want              string
	}{
		{
			"the most valuable",
			`{"id":"a","tool":"large","optional":true,"value":1},{"id":"b","tool":"large","optional":true,"value":3},
			{"id":"c","tool":"large","optional":true,"value":4,"probability":0.5}`, `"budget_tokens":200`, plan.Limits{}, "a" + out + "\nb ok\nc ok",
		},
		{
			"the model's reserve", `{"id":"a","tool":"large","optional":true,"value":1},{"id":"b","tool":"large","optional":true,"value":3}`,
			`"budget_tokens":200`, plan.Limits{Reserve: 0.25}, "a" + out + "\nb ok",
		},
		{
			"what runs anyway comes first", `{"id":"a","tool":"large"},{"id":"b","tool":"large"},{"id":"c","tool":"large","optional":true,"value":3}`,
			`"budget_tokens":250`, plan.Limits{}, "a ok\nb ok\nc" + out,
		},
		{
			"sizes of results do not matter", `{"id":"a","tool":"large","arguments":{"long":3000}},{"id":"c","tool":"large","optional":true,"depends_on":["a"]}`,
			`"budget_tokens":250`, plan.Limits{}, "a ok\nc ok",
		},
		{
			"an input costs nothing", `{"id":"a","tool":"large","optional":true},{"id":"b","tool":"large","optional":true,"arguments":{"x":"$ref:a"}}`,
			`"budget_tokens":100,"output_steps":["b"]`, plan.Limits{}, "a ok\nb ok",
		},
		{
			"an input that is not needed", `{"id":"a","tool":"large","optional":true},{"id":"b","tool":"large","optional":true,"arguments":{"x":"$ref:a"}}`,
			`"budget_tokens":90,"output_steps":["b"]`, plan.Limits{}, "a" + out + "\nb" + out,
		},
		{
			"a step that waits for one that is left out", `{"id":"a","tool":"large","optional":true},{"id":"b","tool":"read","depends_on":["a"]}`,
			`"budget_tokens":90`, plan.Limits{}, "a" + out + "\nb ok",
		},
		{
			"inputs of required steps, also with a default",
			`{"id":"a","tool":"large","optional":true},{"id":"b","tool":"large","optional":true,"arguments":{"x":"$ref:a"}},{"id":"c","tool":"read","arguments":{"x":{"$ref":"b#","default":1}}}`,
			`"budget_tokens":50,"output_steps":["c"]`, plan.Limits{}, "a ok\nb ok\nc ok",
		},
		{"no budget", `{"id":"a","tool":"large","optional":true}`, `"dry_run":false`, plan.Limits{}, "a ok"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				report, _ := run(t, c.limits, `{"steps":[`+c.steps+`],`+c.rest+`}`)
				if got := fates(report); got != c.want {
					t.Errorf("got\n%s\nwant\n%s", got, c.want)
				}
				for _, st := range report.Steps {
					if st.State == plan.Skipped != st.Benign {
						t.Errorf("step %s: got benign %t with the reason %s", st.Step.ID, st.Benign, st.Reason)
					}
				}
			})
		})
	}
}

// Optional steps do not run if the client's budget is used up.
func TestBudgetUsedUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newServers()
		r := &plan.Runner{Limits: unlimited, NoOptional: true, Call: s.call}
		report := r.Run(t.Context(), parse(t, plan.Limits{}, `{"steps":[{"id":"a","tool":"large","optional":true},{"id":"b","tool":"large"}]}`))
		want := "a skipped: left out: the tokens of [budgets] are used up\nb ok"
		if got := fates(report); got != want || !report.Steps[0].Benign {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}
