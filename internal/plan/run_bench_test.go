package plan_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/plan"
)

// BenchmarkRun runs a plan of a hundred steps, each with two references to earlier ones, over
// calls that take no time, to measure the overhead. Half of the optional steps fit, because their
// results have the expected size.
func BenchmarkRun(b *testing.B) {
	for _, kind := range []string{"", `,"optional":true,"value":1`} {
		b.Run("optional="+fmt.Sprint(kind != ""), func(b *testing.B) {
			var steps []string
			for i := range 100 {
				in := ""
				if i >= 2 {
					in = fmt.Sprintf(`"a":"$ref:s%d.v","b":{"$ref":"s%d#/v"}`, i-2, i*2/3)
				}
				steps = append(steps, fmt.Sprintf(`{"id":"s%d","tool":"large","arguments":{%s}%s}`, i, in, kind))
			}
			p := parse(b, plan.Limits{}, `{"steps":[`+strings.Join(steps, ",")+`],"budget_tokens":5000}`)
			r := &plan.Runner{
				Limits: plan.Limits{Parallel: 16},
				Call: func(ctx context.Context, c plan.Call) plan.Result {
					return plan.Result{JSON: []byte(`{"v":1}`)}
				},
				Tokens: func([]byte) int { return 100 },
			}
			for b.Loop() {
				if report := r.Run(b.Context(), p); report.Ended != "" {
					b.Fatal(report.Ended)
				}
			}
		})
	}
}

// BenchmarkForEach runs ten thousand items over calls that take no time.
func BenchmarkForEach(b *testing.B) {
	list := []byte("[" + strings.Repeat(`{"id":1},`, 9999) + "1]")
	p := parse(b, plan.Limits{}, `{"steps":[{"id":"list","tool":"read"},
		{"id":"e","tool":"read","for_each":"$ref:list","max_items":10000,"arguments":{"id":"$ref:item.id"}}],"output_steps":["e"]}`)
	r := &plan.Runner{
		Limits: plan.Limits{Parallel: 16},
		Call: func(ctx context.Context, c plan.Call) plan.Result {
			if c.Item < 0 {
				return plan.Result{JSON: list}
			}
			return plan.Result{JSON: []byte(`{"v":1}`)}
		},
	}
	b.ReportAllocs()
	for b.Loop() {
		r.Run(b.Context(), p)
	}
}

// BenchmarkAnswer cuts a hundred results of 4 KB to eight thousand tokens.
func BenchmarkAnswer(b *testing.B) {
	var steps []string
	for i := range 100 {
		steps = append(steps, fmt.Sprintf(`{"id":"s%d","tool":"read"}`, i))
	}
	p := parse(b, plan.Limits{}, `{"steps":[`+strings.Join(steps, ",")+`]}`)
	result := []byte(`{"items":[` + strings.Repeat(`{"id":1,"name":"a name"},`, 160) + `1],"total":160}`)
	r := &plan.Runner{Call: func(ctx context.Context, c plan.Call) plan.Result { return plan.Result{JSON: result} }}
	report := r.Run(b.Context(), p)
	for b.Loop() {
		report.Answer(p, excerpt.Limit{Tokens: 8000, Chars: 100_000}, nil)
	}
}
