package plan_test

import (
	"strings"
	"testing"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/plan"
)

// Each result is expected to have 100 tokens; "long" has the actual number.
func TestBudget(t *testing.T) {
	const (
		out   = "left out: budget_tokens"
		vain  = "left out: no output needs it"
		limit = `,"budget_tokens":`
	)
	for _, c := range []struct {
		name, steps, rest string
		limits            plan.Limits
		want              string
	}{
		{
			"the most valuable",
			`{"id":"a","tool":"large","optional":true,"value":1},{"id":"b","tool":"large","optional":true,"value":3,"arguments":{"long":398}},
			{"id":"c","tool":"large","optional":true,"value":4,"probability":0.5,"arguments":{"long":398}}`, limit + "200", plan.Limits{},
			"a skipped: " + out + "\nb ok\nc ok",
		},
		{
			"the model's reserve", `{"id":"a","tool":"large","optional":true,"value":1},{"id":"b","tool":"large","optional":true,"value":3,"arguments":{"long":398}}`,
			limit + "200", plan.Limits{Reserve: 0.25}, "a skipped: " + out + "\nb ok",
		},
		{
			"what runs anyway comes first", `{"id":"a","tool":"large","arguments":{"long":398}},{"id":"b","tool":"large","arguments":{"long":398}},
			{"id":"c","tool":"large","optional":true,"value":3}`,
			limit + "250", plan.Limits{}, "a ok\nb ok\nc skipped: " + out,
		},
		{
			"what answers turn out to be is no matter", `{"id":"a","tool":"large","arguments":{"ms":5,"long":3000}},{"id":"c","tool":"large","optional":true,"value":1,"depends_on":["a"]}`,
			limit + "250", plan.Limits{}, "a ok\nc ok",
		},
		{
			"what only feeds others costs nothing",
			`{"id":"a","tool":"large","optional":true},{"id":"b","tool":"large","optional":true,"arguments":{"x":"$ref:a"}}`,
			limit + `100,"output_steps":["b"]`, plan.Limits{}, "a ok\nb ok",
		},
		{
			"what feeds one that is left out is left out",
			`{"id":"a","tool":"large","optional":true},{"id":"b","tool":"large","optional":true,"arguments":{"x":"$ref:a"}}`,
			limit + `90,"output_steps":["b"]`, plan.Limits{}, "a skipped: " + out + "\nb skipped: " + out,
		},
		{
			"what feeds no other step", `{"id":"a","tool":"large","optional":true,"value":9},{"id":"b","tool":"large"}`,
			limit + `1000,"output_steps":["b"]`, plan.Limits{}, "a skipped: " + vain + "\nb ok",
		},
		{
			"what waits for one that is left out", `{"id":"a","tool":"large","optional":true},{"id":"b","tool":"read","depends_on":["a"]}`,
			limit + `90`, plan.Limits{}, "a skipped: " + out + "\nb ok",
		},
		{
			"a required step makes what it needs a required one", `{"id":"a","tool":"large","optional":true},{"id":"b","tool":"read","arguments":{"x":"$ref:a"}}`,
			limit + `50`, plan.Limits{}, "a ok\nb ok",
		},
		{
			"what a required step can do without costs nothing either",
			`{"id":"a","tool":"large","optional":true},{"id":"b","tool":"read","arguments":{"x":{"$ref":"a#","default":1}}},{"id":"c","tool":"read","arguments":{"x":{"$ref":"a#","default":1}}}`,
			limit + `50,"output_steps":["c"]`, plan.Limits{}, "a ok\nb ok\nc ok",
		},
		{
			"one whose dependency failed", `{"id":"a","tool":"read","arguments":{"fail":"no"}},{"id":"b","tool":"large","optional":true,"value":9,"arguments":{"x":"$ref:a"}},
			{"id":"c","tool":"large","optional":true,"value":1}`,
			limit + `500,"output_steps":["b","c"]`, plan.Limits{}, "a failed: no\nb skipped: Skipped because dependency 'a' failed\nc ok",
		},
		{
			"nothing is limited", `{"id":"a","tool":"large","optional":true},{"id":"b","tool":"large","optional":true}`,
			"", plan.Limits{}, "a ok\nb ok",
		},
		{
			"one slot", `{"id":"a","tool":"large","optional":true,"arguments":{"long":398}},{"id":"b","tool":"large","optional":true},{"id":"c","tool":"large","arguments":{"long":398}}`,
			limit + "200", plan.Limits{Parallel: 1}, "a ok\nb skipped: " + out + "\nc ok",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				report, s := run(t, c.limits, `{"steps":[`+c.steps+`]`+c.rest+`}`)
				if got := fates(report); got != c.want {
					t.Errorf("got\n%s\nwant\n%s", got, c.want)
				}
				if c.limits.Parallel > 0 && s.most > c.limits.Parallel {
					t.Errorf("got %d calls at once", s.most)
				}
				for _, st := range report.Steps {
					if st.State == plan.Skipped && strings.HasPrefix(st.Reason, "left out") != st.Benign {
						t.Errorf("step %s: void is %t, and it was %s", st.Step.ID, st.Benign, st.Reason)
					}
				}
			})
		})
	}
}

// A required step does not wait until all others have ended and it is decided whether an optional
// step runs first.
func TestBudgetKeepsNobodyWaiting(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		report, _ := run(t, plan.Limits{}, `{"steps":[{"id":"slow","tool":"large","arguments":{"ms":50}},{"id":"a","tool":"large","optional":true},
			{"id":"b","tool":"read","depends_on":["a"],"arguments":{"ms":50}}],"budget_tokens":150,"output_steps":["slow","a"]}`)
		want := "slow ok\na skipped: left out: budget_tokens\nb ok"
		if got := fates(report); got != want || report.Makespan != 50*ms {
			t.Errorf("got\n%s\nin %s, want\n%s\nin 50ms", got, report.Makespan, want)
		}
	})
}
