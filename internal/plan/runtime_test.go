package plan_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/plan"
)

const ms = time.Millisecond

// A step starts when its last input is available, not when all steps before it have ended.
func TestRunDataflow(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		report, s := run(t, plan.Limits{}, `{"steps":[
			{"id":"slow","tool":"read","arguments":{"ms":100}},
			{"id":"quick","tool":"read","arguments":{"ms":10}},
			{"id":"after","tool":"read","arguments":{"ms":90,"x":"$ref:quick"}},
			{"id":"last","tool":"read","arguments":{"ms":5,"x":["$ref:slow","$ref:after"]}}]}`)
		if want := 105 * ms; report.Makespan != want {
			t.Errorf("got a makespan of %s, want %s: %v", report.Makespan, want, s.made)
		}
		if got := report.Steps[2].Took; got != 90*ms {
			t.Errorf("got %s for the third step, want 90ms", got)
		}
	})
}

func TestRunTimeout(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		report, _ := run(t, plan.Limits{}, `{"steps":[
			{"id":"a","tool":"read","arguments":{"ms":5000},"timeout":"1s"},
			{"id":"late","tool":"read","arguments":{"ms":2000,"deaf":true,"give":1},"timeout":"1s"},
			{"id":"w","tool":"write","arguments":{"ms":5000},"timeout":"1s"},
			{"id":"after","tool":"write2","depends_on":["late"]}]}`)
		want := "a failed: no answer within 1s\n" +
			"late ok\n" + // its result arrived, although late, so it is used
			"w failed: no answer within 1s\n" +
			"after skipped: Skipped because 'w' failed" + afterWrite
		if got := fates(report); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		if report.Ended != "" {
			t.Errorf("got %q, want a plan that was not cancelled", report.Ended)
		}
	})
}

func TestRunRetry(t *testing.T) {
	for _, c := range []struct {
		name, steps, want string
		calls             int
		took              time.Duration
	}{
		{
			"until it works", `{"id":"a","tool":"read","retry":5,"arguments":{"ms":10,"fail":"no","times":2}}`,
			"a ok", 3, 3*10*ms + 250*ms + 500*ms,
		},
		{
			"until it is enough", `{"id":"a","tool":"read","retry":1,"arguments":{"ms":10,"fail":"no"}}`,
			"a failed: no", 2, 2*10*ms + 250*ms,
		},
		{
			"each try has its own time", `{"id":"a","tool":"read","retry":1,"timeout":"1s","arguments":{"ms":3000}}`,
			"a failed: no answer within 1s", 2, 2*time.Second + 250*ms,
		},
		{
			"not for what works", `{"id":"a","tool":"read","retry":3}`,
			"a ok", 1, 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				report, s := run(t, plan.Limits{}, `{"steps":[`+c.steps+`]}`)
				st := report.Steps[0]
				if got := fates(report); got != c.want || st.Calls != c.calls || len(s.made) != c.calls || st.Took != c.took {
					t.Errorf("got %s after %d calls (%d made) and %s, want %s after %d and %s",
						got, st.Calls, len(s.made), st.Took, c.want, c.calls, c.took)
				}
			})
		})
	}
}

// Cancellation interrupts calls in flight. Other steps never start. The report distinguishes them.
func TestRunCancelled(t *testing.T) {
	const steps = `{"steps":[
		{"id":"w1","tool":"write","arguments":{"ms":10}},
		{"id":"w2","tool":"write","arguments":{"ms":100}},
		{"id":"w3","tool":"write","arguments":{"ms":10}},
		{"id":"r1","tool":"read","arguments":{"ms":20,"give":7}},
		{"id":"r2","tool":"read","arguments":{"ms":1000,"x":"$ref:r1"},"retry":5},
		{"id":"again","tool":"read","arguments":{"ms":1,"fail":"busy"},"retry":5},
		{"id":"each","tool":"read","for_each":"$ref:list","max_parallel":1,"arguments":{"ms":20}},
		{"id":"list","tool":"read","arguments":{"give":[1,2,3,4,5,6]}}]}`
	for _, c := range []struct {
		name   string
		limits plan.Limits
		cancel error
		want   string // reason
	}{
		{"by the client", plan.Limits{}, context.Canceled, "cancelled"},
		{"with a cause", plan.Limits{}, errors.New("the client has gone"), "the client has gone"},
		{"by its own time", plan.Limits{Timeout: 50 * ms}, nil, "a plan may take 50ms (timeout)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s := newServers()
				r := &plan.Runner{Limits: within(c.limits), Call: s.call}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if c.cancel != nil {
					time.AfterFunc(50*ms, func() { cancel(c.cancel) })
				}
				report := r.Run(ctx, parse(t, c.limits, steps))
				want := "w1 ok\nw2 failed: cut short: " + c.want + "\nw3 cancelled: " + c.want +
					"\nr1 ok\nr2 failed: cut short: " + c.want + "\nagain failed: busy" +
					"\neach failed: 3 of 6 items tried; 1 failed; item 2: cut short: " + c.want + "\nlist ok"
				if got := fates(report); got != want {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
				if report.Ended != c.want || report.Makespan != 50*ms {
					t.Errorf("got %q after %s, want %q after 50ms", report.Ended, report.Makespan, c.want)
				}
				if !strings.Contains(s.ids(), "w2") || strings.Contains(s.ids(), "w3") {
					t.Errorf("got calls %s", s.ids())
				}
			})
		})
	}
}

func TestRunCancelledBefore(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newServers()
		r := &plan.Runner{Limits: unlimited, Call: s.call}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		report := r.Run(ctx, parse(t, plan.Limits{}, `{"steps":[{"id":"a","tool":"write"},{"id":"b","tool":"read","optional":true}]}`))
		want := "a cancelled: cancelled\nb cancelled: cancelled"
		if got := fates(report); got != want || len(s.made) > 0 || !report.Failed() {
			t.Errorf("got\n%s\nafter calls %s, want\n%s\nand none", got, s.ids(), want)
		}
	})
}

// A call that is answered just as ctx ends has a result.
func TestRunEndsAsItIsCancelled(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newServers()
		ctx, cancel := context.WithCancel(t.Context())
		r := &plan.Runner{Limits: unlimited, Call: s.call, Progress: func(float64, int, string) { cancel() }}
		report := r.Run(ctx, parse(t, plan.Limits{}, `{"steps":[{"id":"a","tool":"write","arguments":{"ms":10}}]}`))
		if got := fates(report); got != "a ok" || report.Ended != "" {
			t.Errorf("got %s, ended %q, want a plan that was not cancelled", got, report.Ended)
		}
	})
}

// References in a result are not resolved.
func TestRunResultsAreData(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const sly = `{"x":"$ref:secret","y":{"$ref":"secret#"},"z":{"$tpl":"${secret#}"},"l":[{"$lit":1}]}`
		p := parse(t, plan.Limits{}, `{"steps":[{"id":"secret","tool":"read"},{"id":"a","tool":"read"},
			{"id":"b","tool":"read","arguments":{"all":"$ref:a","part":"$ref:a.x"}},
			{"id":"e","tool":"read","for_each":"$ref:a.l","arguments":{"item":"$ref:item"}}]}`)
		var got []string
		r := &plan.Runner{Limits: within(plan.Limits{Parallel: 1}), Call: func(_ context.Context, c plan.Call) plan.Result {
			if c.Step.ID == "b" || c.Step.ID == "e" {
				got = append(got, string(c.Arguments))
			}
			return resultOf(sly)
		}}
		r.Run(t.Context(), p)
		slices.Sort(got)
		want := []string{`{"all":` + sly + `,"part":"$ref:secret"}`, `{"item":{"$lit":1}}`}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// A result that is not valid JSON is never inserted into arguments or answers as it is.
func TestRunResultThatIsNoJSON(t *testing.T) {
	for _, result := range []string{"", "{", "[1,2", `{"a":1} 2`, "NaN"} {
		r := &plan.Runner{Limits: unlimited, Call: func(context.Context, plan.Call) plan.Result { return resultOf(result) }}
		report := r.Run(t.Context(), parse(t, plan.Limits{}, `{"steps":[{"id":"w","tool":"write"}]}`))
		if got, want := fates(report), "w failed: the result is "; !strings.HasPrefix(got, want) {
			t.Errorf("%q: got %s, want %s", result, got, want)
		}
	}
}

// Results are stored if a step or the client needs them, up to the limit of bytes.
func TestRunBytes(t *testing.T) {
	const too = "answer of 102 bytes: all results of a plan may have 150 (max_result_bytes)"
	for _, c := range []struct{ name, steps, want string }{
		{
			"both at once",
			`{"id":"a","tool":"read","arguments":{"long":100}},{"id":"b","tool":"read","arguments":{"ms":1,"long":100}},
			{"id":"d","tool":"read","arguments":{"x":["$ref:a","$ref:b"]}}`,
			"a ok\nb failed: " + too + "\nd skipped: Skipped because dependency 'b' failed",
		},
		{
			"not those that no step needs",
			`{"id":"a","tool":"read","arguments":{"long":100}},{"id":"d","tool":"read","depends_on":["a"],"arguments":{"long":100}}`,
			"a ok\nd ok",
		},
		{
			"a write was run, be its answer too long",
			`{"id":"a","tool":"write","arguments":{"long":200}},{"id":"b","tool":"write"},{"id":"d","tool":"read","when":"$ref:a"}`,
			"a failed: answer of 202 bytes: all results of a plan may have 150 (max_result_bytes)\n" +
				"b skipped: Skipped because 'a' failed" + afterWrite + "\nd skipped: Skipped because dependency 'a' failed",
		},
		{
			"arguments",
			`{"id":"a","tool":"read","arguments":{"long":70}},{"id":"d","tool":"read","arguments":{"x":["$ref:a","$ref:a"]}}`,
			"a ok\nd failed: the arguments are too large ([plan].max_result_bytes)",
		},
		{
			"what stands in for items that failed",
			`{"id":"a","tool":"read","arguments":{"give":[1,2,3,4]}},{"id":"d","tool":"read","for_each":"$ref:a","max_parallel":1,"on_error":"default",
			"default":"` + strings.Repeat("y", 60) + `","arguments":{"fail":"no"}}`,
			"a ok\nd failed: 3 of 4 items tried; 3 failed; item 2: answer of 62 bytes: all results of a plan may have 150 (max_result_bytes)",
		},
		{
			"of for_each",
			`{"id":"a","tool":"read","arguments":{"give":[1,2,3,4]}},{"id":"d","tool":"read","for_each":"$ref:a","max_parallel":1,"arguments":{"long":60}}`,
			"a ok\nd failed: 3 of 4 items tried; 1 failed; item 2: answer of 62 bytes: all results of a plan may have 150 (max_result_bytes)",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				report, s := run(t, plan.Limits{Bytes: 150}, `{"steps":[`+c.steps+`],"output_steps":["d"]}`)
				if got := fates(report); got != c.want {
					t.Errorf("got\n%s\nwant\n%s\nafter %s", got, c.want, s.ids())
				}
			})
		})
	}
}
