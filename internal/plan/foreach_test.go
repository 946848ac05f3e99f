package plan_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/plan"
)

// A step that is not an output has no tokens of its output.
func TestForEachTokens(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		report, _ := run(t, plan.Limits{}, `{"steps":[{"id":"list","tool":"read","arguments":{"give":[{},{"fail":"no"},{}]}},
			{"id":"e","tool":"read","for_each":"$ref:list","on_error":"default","default":"instead","arguments":{"$ref":"item#"}},
			{"id":"last","tool":"read","arguments":{"x":"$ref:e"}}],"output_steps":["last"]}`)
		if list, each := report.Steps[0].Tokens, report.Steps[1].Tokens; list != 0 || each != 0 {
			t.Errorf("got %d and %d tokens\n%s", list, each, fates(report))
		}
	})
}

func TestForEach(t *testing.T) {
	const list = `{"id":"list","tool":"read","arguments":{"give":[{"n":1,"ms":30},{"n":2,"ms":10,"fail":"no"},{"n":3,"ms":20}]}},`
	const each = `"tool":"read","for_each":"$ref:list","arguments":{"give":"$ref:item.n","ms":"$ref:item.ms","fail":{"$ref":"item#/fail","default":""}}`
	for _, c := range []struct {
		name, steps, want string
		calls             int // number of calls of the last step
	}{
		{
			"item and index",
			list + `{"id":"e","tool":"read","for_each":"$ref:list","arguments":{"give":[{"$ref":"index#"},"$ref:item.n",{"$tpl":"${index#} of ${item#/n}"}]}}`,
			`e ok = [[0,1,"0 of 1"],[1,2,"1 of 2"],[2,3,"2 of 3"]]`, 3,
		},
		{
			"fail", list + `{"id":"e",` + each + `,"max_parallel":1}`,
			"e failed: 2 of 3 items tried; 1 failed; item 1: no", 2,
		},
		{
			"fail, with all under way", list + `{"id":"e",` + each + `}`,
			"e failed: 3 of 3 items tried; 1 failed; item 1: no", 3,
		},
		{"skip", list + `{"id":"e",` + each + `,"on_error":"skip"}`, "e ok: 3 of 3 items tried; 1 failed; item 1: no = [1,3]", 3},
		{"default", list + `{"id":"e",` + each + `,"on_error":"default","default":{"x":0}}`, `e ok: 3 of 3 items tried; 1 failed; item 1: no = [1,{"x":0},3]`, 3},
		{"continue", list + `{"id":"e",` + each + `,"on_error":"continue"}`, "e ok: 3 of 3 items tried; 1 failed; item 1: no = [1,null,3]", 3},
		{
			"arguments that cannot be made", list + `{"id":"e","tool":"read","for_each":"$ref:list","on_error":"skip","arguments":{"give":{"$ref":"item#/fail"}}}`,
			`e ok: 3 of 3 items tried; 2 failed; item 0: /steps/1/arguments/give: "item#/fail" refers to nothing: the members there are n, ms = ["no"]`, 1,
		},
		{
			"arguments that cannot be made, one by one", list + `{"id":"e","tool":"read","for_each":"$ref:list","max_parallel":1,"arguments":{"give":{"$ref":"item#/fail"}}}`,
			`e failed: 1 of 3 items tried; 1 failed; item 0: /steps/1/arguments/give: "item#/fail" refers to nothing: the members there are n, ms`, 0,
		},
		{
			"none of the items (was ok, without a result)", list + `{"id":"e","tool":"read","for_each":"$ref:list","on_error":"skip","arguments":{"fail":"no"}}`,
			"e failed: 3 of 3 items tried; 3 failed; item 0: no", 3,
		},
		{
			"none of the items, with something in their places", list + `{"id":"e","tool":"read","for_each":"$ref:list","on_error":"continue","arguments":{"fail":"no"}}`,
			"e ok: 3 of 3 items tried; 3 failed; item 0: no = [null,null,null]", 3,
		},
		{
			"skip, of no items", `{"id":"list","tool":"read","arguments":{"give":[]}},{"id":"e","tool":"read","for_each":"$ref:list","on_error":"skip"}`,
			"e ok = []", 0,
		},
		{
			"some of the items", list + `{"id":"e","tool":"read","for_each":"$ref:list","max_items":2,"arguments":{"give":"$ref:item.n"}}`,
			"e ok: 2 of 3 items tried = [1,2]", 2,
		},
		{
			"none", `{"id":"list","tool":"read","arguments":{"give":[ ]}},{"id":"e","tool":"write","for_each":"$ref:list"}`,
			"e ok = []", 0,
		},
		{
			"an object", `{"id":"list","tool":"read","arguments":{"give":{}}},{"id":"e","tool":"read","for_each":"$ref:list"}`,
			"e failed: for_each: want an array, have object", 0,
		},
		{
			"null", `{"id":"list","tool":"read","arguments":{"give":{}}},{"id":"e","tool":"read","for_each":"$ref:list.x","on_error":"default","default":[]}`,
			`e failed: for_each: /steps/1/for_each: "list#/x" refers to nothing: it is in {}`, 0,
		},
		{
			"writes stop at the first failure, and go one by one",
			list + `{"id":"e","tool":"write","for_each":"$ref:list","on_error":"continue","max_parallel":9,"arguments":{"ms":"$ref:item.ms","fail":{"$ref":"item#/fail","default":""}}}`,
			"e failed: 2 of 3 items tried; 1 failed; item 1: no", 2,
		},
		{
			"retries", list + `{"id":"e",` + strings.Replace(each, `"ms"`, `"times":1,"ms"`, 1) + `,"retry":1}`,
			"e ok = [1,2,3]", 4,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				report, s := run(t, plan.Limits{}, `{"steps":[`+c.steps+`]}`)
				got := strings.Split(withResults(report, "\n"+c.want), "\n")
				if diff := cmp.Diff(c.want, got[1]); diff != "" {
					t.Errorf("-want +got\n%s", diff)
				}
				if n := report.Steps[1].Calls; n != c.calls || len(s.made) != c.calls+1 {
					t.Errorf("got %d calls, %s made, want %d", n, s.ids(), c.calls)
				}
				for _, m := range s.made {
					for _, k := range s.made {
						if report.Steps[1].Step.Writes && m.id == "e" && k.id == "e" && m.start < k.end && k.start < m.end && m != k {
							t.Errorf("writes overlap: %v", s.made)
						}
					}
				}
			})
		})
	}
}

// A step with many items uses the slots that no other step needs, up to its own limit.
func TestForEachSlots(t *testing.T) {
	for _, c := range []struct {
		name     string
		limits   plan.Limits
		tool     string
		most     string // value of max_parallel
		want     int
		makespan time.Duration
	}{
		{"of the plan", plan.Limits{Parallel: 4}, "read", "", 4, 30 * ms},
		{"its own", plan.Limits{Parallel: 4}, "read", `,"max_parallel":3`, 3, 40 * ms},
		{"the host's", plan.Limits{Parallel: 4}, "host", "", 2, 60 * ms},
		{"any", plan.Limits{}, "read", "", 12, 10 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				report, s := run(t, c.limits, `{"steps":[{"id":"list","tool":"read","arguments":{"give":[1,2,3,4,5,6,7,8,9,10,11,12]}},
					{"id":"e","tool":"`+c.tool+`","for_each":"$ref:list"`+c.most+`,"arguments":{"ms":10}}]}`)
				if s.most != c.want || report.Makespan != c.makespan {
					t.Errorf("got %d at once and %s, want %d and %s", s.most, report.Makespan, c.want, c.makespan)
				}
			})
		})
	}
}

// Items whose arguments cannot be resolved take no slots from other steps.
func TestForEachGivesSlotsBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		report, _ := run(t, plan.Limits{Parallel: 2}, `{"steps":[{"id":"list","tool":"read","arguments":{"give":[{"ms":10},{},{"ms":10},{},{"ms":10},{"ms":10}]}},
			{"id":"e","tool":"read","for_each":"$ref:list","on_error":"skip","arguments":{"ms":{"$ref":"item#/ms"}}}]}`)
		if report.Makespan != 20*ms || report.Steps[1].Calls != 4 {
			t.Errorf("got %s and %d calls, want 20ms and 4: %s", report.Makespan, report.Steps[1].Calls, fates(report))
		}
	})
}

// Items that have not started when the plan ends are reported, even if none failed.
func TestForEachCutBetweenItems(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newServers()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(15*ms, cancel)
		report := (&plan.Runner{Limits: unlimited, Call: s.call}).Run(ctx, parse(t, plan.Limits{}, `{"steps":[{"id":"list","tool":"read","arguments":{"give":[1,2,3,4]}},
			{"id":"e","tool":"read","for_each":"$ref:list","max_parallel":1,"arguments":{"ms":10,"deaf":true}}]}`))
		want := "list ok\ne failed: 2 of 4 items tried; cut short: cancelled"
		if got := fates(report); got != want || report.Ended != "cancelled" {
			t.Errorf("got\n%s\nended %q, want\n%s", got, report.Ended, want)
		}
	})
}

// Blocks are returned in the order of the items, whatever the order of their results.
func TestForEachBlocks(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := &plan.Runner{Limits: unlimited, Call: func(ctx context.Context, c plan.Call) plan.Result {
			time.Sleep(time.Duration(10-c.Item) * ms)
			return plan.Result{Value: plan.Value{JSON: []byte("[1,2,3]")}, Blocks: [][]byte{fmt.Append(nil, c.Item)}}
		}}
		p := parse(t, plan.Limits{}, `{"steps":[{"id":"list","tool":"read"},{"id":"e","tool":"read","for_each":"$ref:list"}],"output_steps":["e"]}`)
		_, blocks := r.Run(t.Context(), p).Answer(p, excerpt.Limit{}, nil)
		if diff := cmp.Diff([][]byte{[]byte(`{"type":"text","text":"step e:"}`), {'0'}, {'1'}, {'2'}}, blocks); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	})
}

// Other ready steps start before the next item.
func TestForEachLetsOthersThrough(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		report, s := run(t, plan.Limits{Parallel: 2}, `{"steps":[{"id":"list","tool":"read","arguments":{"give":[1,2,3,4,5,6,7,8]}},
			{"id":"first","tool":"read","arguments":{"ms":15}},
			{"id":"e","tool":"read","for_each":"$ref:list","arguments":{"ms":10}},
			{"id":"second","tool":"read","arguments":{"ms":1,"x":"$ref:first"}}]}`)
		for _, m := range s.made {
			if m.id == "second" && m.start > 25*ms {
				t.Errorf("the other step began at %s: %v", m.start, s.made)
			}
		}
		if got := fates(report); strings.Count(got, "ok") != 4 {
			t.Errorf("got\n%s", got)
		}
	})
}

// Ten thousand items need memory only for their results.
func TestForEachOfManyItems(t *testing.T) {
	items := "[" + strings.Repeat("1,", 9999) + "1]"
	before := runtime.NumGoroutine()
	var most, open, routines, calls atomic.Int64
	r := &plan.Runner{
		Limits: within(plan.Limits{Parallel: 8}),
		Call: func(ctx context.Context, c plan.Call) plan.Result {
			if c.Item < 0 {
				return resultOf(items)
			}
			defer open.Add(-1)
			raise(&most, open.Add(1))
			raise(&routines, int64(runtime.NumGoroutine()))
			calls.Add(1)
			return resultOf(fmt.Append(nil, c.Item))
		},
	}
	report := r.Run(t.Context(), parse(t, plan.Limits{}, `{"steps":[{"id":"list","tool":"read"},
		{"id":"e","tool":"read","for_each":"$ref:list","max_items":10000}],"output_steps":["e"]}`))
	if got := fates(report); got != "list ok\ne ok" || calls.Load() != 10000 {
		t.Fatalf("got %s after %d calls", got, calls.Load())
	}
	if most.Load() > 8 || routines.Load() > int64(before)+100 {
		t.Errorf("got %d calls at once and %d goroutines, %d before", most.Load(), routines.Load(), before)
	}
	result := string(report.Steps[1].Result.JSON)
	if !strings.HasPrefix(result, "[0,1,2,") || !strings.HasSuffix(result, ",9998,9999]") {
		t.Errorf("got %.40s", result)
	}
}

func raise(most *atomic.Int64, n int64) {
	for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
	}
}

// Of a result with millions of items, only those that are called for take memory beyond their text.
func TestMillionsOfItems(t *testing.T) {
	list := resultOf(`{"ids":[` + strings.Repeat(`{},`, 5_000_000) + `{}]}`)
	used := func(step string) (bytes uint64) {
		p := parse(t, plan.Limits{}, `{"steps":[{"id":"list","tool":"read"},{"id":"e","tool":"read",`+step+`}],"output_steps":["e"]}`)
		r := &plan.Runner{Limits: unlimited, Call: func(_ context.Context, c plan.Call) plan.Result {
			if c.Step.ID == "list" {
				return list
			}
			return resultOf(`1`)
		}}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		report := r.Run(t.Context(), p)
		runtime.ReadMemStats(&after)
		if e := report.Steps[1]; e.State != plan.OK {
			t.Errorf("%s: %s, %s", step, e.State, e.Reason)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	for step, most := range map[string]uint64{
		`"for_each":"$ref:list.ids","max_items":3`:   10 << 20,
		`"for_each":"$ref:list.ids.*","max_items":3`: 200 << 20,
		`"when":"$ref:list.ids"`:                     10 << 20,
	} {
		if bytes := used(step); bytes > most {
			t.Errorf("%s: took %d MiB, want at most %d", step, bytes>>20, most>>20)
		}
	}
}
