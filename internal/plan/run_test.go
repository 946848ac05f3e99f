package plan_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/plan"
)

// servers answers calls as their arguments say, and records them.
type servers struct {
	mu     sync.Mutex
	began  time.Time
	made   []made
	open   int // calls in flight
	most   int // maximum of open
	failed map[string]int
}

// made is a recorded call.
type made struct {
	id         string
	item       int
	start, end time.Duration
}

// order is the behaviour that a call's arguments ask for.
type order struct {
	MS    int             `json:"ms"`    // duration
	Give  json.RawMessage `json:"give"`  // the result; by default the arguments
	Fail  string          `json:"fail"`  // the error
	Times int             `json:"times"` // number of failures before it succeeds; 0 means always
	Deaf  bool            `json:"deaf"`  // ignores cancellation
	Long  int             `json:"long"`  // the result is a string of this length
}

func newServers() *servers { return &servers{began: time.Now(), failed: make(map[string]int)} }

func (s *servers) call(ctx context.Context, c plan.Call) plan.Result {
	key := fmt.Sprintf("%s/%d", c.Step.ID, c.Item)
	m := made{id: c.Step.ID, item: c.Item, start: time.Since(s.began)}
	s.mu.Lock()
	if s.open++; s.open > s.most {
		s.most = s.open
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.open--
		m.end = time.Since(s.began)
		s.made = append(s.made, m)
		s.mu.Unlock()
	}()
	if ctx.Err() != nil {
		return plan.Result{Err: "called when all was over"}
	}
	var o order
	if err := json.Unmarshal(c.Arguments, &o); err != nil {
		return plan.Result{Err: err.Error()}
	}
	done := ctx.Done()
	if o.Deaf {
		done = nil
	}
	select {
	case <-time.After(time.Duration(o.MS) * time.Millisecond):
	case <-done:
		return plan.Result{Err: ctx.Err().Error()}
	}
	s.mu.Lock()
	fails := o.Fail != "" && (o.Times == 0 || s.failed[key] < o.Times)
	s.failed[key]++
	s.mu.Unlock()
	if fails {
		return plan.Result{Err: o.Fail}
	}
	give := []byte(o.Give)
	switch {
	case o.Long > 0:
		give = []byte(`"` + strings.Repeat("x", o.Long) + `"`)
	case give == nil:
		give = c.Arguments
	}
	return plan.Result{Value: plan.Value{JSON: give}, Bytes: len(give), Source: "fetched"}
}

// ids returns the steps of the calls, in order of their starts where the order is defined.
func (s *servers) ids() string {
	var ids []string
	for _, m := range s.made {
		ids = append(ids, m.id)
	}
	return strings.Join(ids, " ")
}

var tools = map[string]*plan.Tool{
	"read":   {Name: "read", Writes: never},
	"write":  {Name: "write", Writes: always, Domains: []string{"files"}},
	"look":   {Name: "look", Writes: never, Domains: []string{"files"}},
	"write2": {Name: "write2", Writes: always, Domains: []string{"mail"}},
	"maybe":  {Name: "maybe", Writes: func(args []byte) bool { return strings.Contains(string(args), "delete") }},
	"host":   {Name: "host", Writes: never, Host: "h", Capacity: 2},
	"large":  {Name: "large", Writes: never, Tokens: 100},
}

func always([]byte) bool { return true }
func never([]byte) bool  { return false }

func parse(t testing.TB, l plan.Limits, text string) *plan.Plan {
	t.Helper()
	p, defects := plan.Parse([]byte(text), plan.Options{Limits: within(l), Find: func(name string) *plan.Tool { return tools[name] }})
	if len(defects) > 0 {
		t.Fatal(defects.Error())
	}
	return p
}

// unlimited are limits that no test reaches.
var unlimited = within(plan.Limits{})

// within returns limits in which those that are zero are so large that no test reaches them.
func within(l plan.Limits) plan.Limits {
	for _, limit := range []*int{&l.Steps, &l.Parallel, &l.Depth, &l.Bytes, &l.Budget} {
		if *limit == 0 {
			*limit = 1 << 30
		}
	}
	return l
}

// resultOf returns the result of a call with this value.
func resultOf[T string | []byte](json T) plan.Result {
	return plan.Result{Value: plan.Value{JSON: []byte(json)}}
}

// run runs a plan of these steps.
func run(t *testing.T, l plan.Limits, text string) (*plan.Report, *servers) {
	t.Helper()
	s := newServers()
	r := &plan.Runner{Limits: within(l), Call: s.call}
	l.Bytes = 0 // the plan itself has no limit
	report := r.Run(t.Context(), parse(t, l, text))
	if s.open != 0 {
		t.Errorf("%d calls in flight after the end", s.open)
	}
	return report, s
}

// fates formats the outcome of each step.
func fates(r *plan.Report) string {
	var lines []string
	for _, st := range r.Steps {
		line := st.Step.ID + " " + string(st.State)
		if st.Reason != "" {
			line += ": " + st.Reason
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// afterWrite ends the reason of a write that was skipped because of another one.
const afterWrite = `: a write after a failed write runs only if that has "on_error": "continue"`

func TestRunErrors(t *testing.T) {
	const s1 = `{"id":"s1","tool":"read","arguments":{"fail":"no"}`
	for _, c := range []struct{ name, steps, want string }{
		{
			"the guide's example", s1 + `},{"id":"s2","tool":"read"},{"id":"s3","tool":"read","arguments":{"data":"$ref:s1"}}`,
			"s1 failed: no\ns2 ok\ns3 skipped: Skipped because dependency 's1' failed",
		},
		{
			"it is passed on", s1 + `},{"id":"b","tool":"read","arguments":{"d":"$ref:s1"}},{"id":"c","tool":"read","depends_on":["b"]}`,
			"s1 failed: no\nb skipped: Skipped because dependency 's1' failed\nc skipped: Skipped because dependency 'b' was skipped",
		},
		{
			"what only waits is skipped too", s1 + `},{"id":"b","tool":"read","depends_on":["s1"]}`,
			"s1 failed: no\nb skipped: Skipped because dependency 's1' failed",
		},
		{
			"skip", s1 + `,"on_error":"skip"},{"id":"b","tool":"read","depends_on":["s1"]},{"id":"c","tool":"read","arguments":{"d":"$ref:s1"}}`,
			"s1 failed: no\nb ok\nc skipped: Skipped because dependency 's1' failed",
		},
		{
			"default", s1 + `,"on_error":"default","default":{"x":[1]}},{"id":"b","tool":"read","arguments":{"give":{"$ref":"s1#/x/0"}}}`,
			"s1 failed: no\nb ok = 1",
		},
		{
			"continue", s1 + `,"on_error":"continue"},{"id":"b","tool":"read","arguments":{"give":["$ref:s1",{"$ref":"s1#/x/0"},{"$ref":"s1#/y","default":7}]}}`,
			"s1 failed: no\nb ok = [null,null,7]",
		},
		{
			"continue of a skipped one", s1 + `},{"id":"b","tool":"read","on_error":"continue","arguments":{"d":"$ref:s1"}},{"id":"c","tool":"read","arguments":{"give":["$ref:b"]}}`,
			"s1 failed: no\nb skipped: Skipped because dependency 's1' failed\nc ok = [null]",
		},
		{
			"a condition that does not hold", `{"id":"a","tool":"read","arguments":{"give":{"n":0}}},{"id":"b","tool":"read","when":"$ref:a.n"},` +
				`{"id":"c","tool":"read","depends_on":["b"]},{"id":"d","tool":"read","arguments":{"x":"$ref:b"}},` +
				`{"id":"e","tool":"read","arguments":{"give":{"$ref":"b#/x","default":3}}},{"id":"f","tool":"read","depends_on":["d"]}`,
			"a ok = {\"n\":0}\nb skipped: when: false\nc ok\nd skipped: Skipped because dependency 'b' was skipped\ne ok = 3\nf ok",
		},
		{
			"a condition on what failed", s1 + `},{"id":"b","tool":"read","when":{"ref":"$ref:s1","op":"exists","value":false}}`,
			"s1 failed: no\nb skipped: Skipped because dependency 's1' failed",
		},
		{
			"a failure counts for more than a condition", s1 + `},{"id":"a","tool":"read","when":{"ref":"$ref:z","op":"eq","value":1}},{"id":"z","tool":"read","arguments":{"give":2}},` +
				`{"id":"b","tool":"read","arguments":{"x":["$ref:a","$ref:s1"]}},{"id":"c","tool":"read","depends_on":["b"]}`,
			"s1 failed: no\na skipped: when: false\nz ok\nb skipped: Skipped because dependency 's1' failed\nc skipped: Skipped because dependency 'b' was skipped",
		},
		{
			"a target that is missing", `{"id":"a","tool":"read","arguments":{"give":{}}},{"id":"b","tool":"read","arguments":{"d":{"$ref":"a#/x"}}},{"id":"c","tool":"read","arguments":{"give":["$ref:a.x"]}}`,
			`a ok = {}` + "\n" + `b failed: /steps/1/arguments/d: "a#/x" refers to nothing: it is in {}` + "\nc ok = [null]",
		},
		{
			"order alone is no dependency", `{"id":"a","tool":"look","arguments":{"fail":"no"}},{"id":"b","tool":"write"},{"id":"c","tool":"look"}`,
			"a failed: no\nb ok\nc ok",
		},
		{
			"writes after one that failed", `{"id":"a","tool":"look"},{"id":"w1","tool":"write","arguments":{"fail":"no"}},{"id":"w2","tool":"write"},{"id":"r","tool":"look"},{"id":"w3","tool":"write2","depends_on":["r"]}`,
			"a ok\nw1 failed: no\nw2 skipped: Skipped because 'w1' failed" + afterWrite + "\nr ok\nw3 skipped: Skipped because 'w1' failed" + afterWrite,
		},
		{
			"writes after the first of two that failed, also those before the other",
			`{"id":"w0","tool":"write","arguments":{"ms":5,"fail":"no"}},{"id":"r","tool":"read","arguments":{"ms":20}},` +
				`{"id":"w1","tool":"write","depends_on":["r"]},{"id":"w2","tool":"write2","arguments":{"ms":10,"fail":"no"}}`,
			"w0 failed: no\nr ok\nw1 skipped: Skipped because 'w0' failed" + afterWrite + "\nw2 failed: no",
		},
		{
			"writes written before one that failed, and waiting for it", `{"id":"w1","tool":"write2","depends_on":["w2"]},{"id":"w2","tool":"write","arguments":{"fail":"no"},"on_error":"skip"}`,
			"w1 skipped: Skipped because 'w2' failed" + afterWrite + "\nw2 failed: no",
		},
		{
			"writes after one that may fail", `{"id":"w1","tool":"write","arguments":{"fail":"no"},"on_error":"continue"},{"id":"w2","tool":"write"}`,
			"w1 failed: no\nw2 ok",
		},
		{
			"writes after a read that failed", `{"id":"a","tool":"read","arguments":{"fail":"no"}},{"id":"w","tool":"write"}`,
			"a failed: no\nw ok",
		},
		{
			"no result", `{"id":"a","tool":"read","arguments":{"give":null}},{"id":"b","tool":"read","arguments":{"give":["$ref:a"]}}`,
			"a ok = null\nb ok = [null]",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				report, _ := run(t, plan.Limits{}, `{"steps":[`+c.steps+`]}`)
				if diff := cmp.Diff(c.want, withResults(report, c.want)); diff != "" {
					t.Errorf("-want +got\n%s", diff)
				}
			})
		})
	}
}

// withResults adds the results of the steps named in want.
func withResults(r *plan.Report, want string) string {
	lines := strings.Split(fates(r), "\n")
	wanted := strings.Split(want, "\n")
	for i, st := range r.Steps {
		if i < len(wanted) && strings.Contains(wanted[i], " = ") {
			lines[i] += " = " + string(st.Result.JSON)
		}
	}
	return strings.Join(lines, "\n")
}
