package plan_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/plan"
)

// world answers the calls of random plans. Results depend only on the arguments; durations are
// random.
type world struct {
	*rand.Rand
	mu    sync.Mutex
	fails map[string]bool // ids of failing calls: id, or id/item
	log   []span
	bad   []string
	open  map[*plan.Step]int
	text  string // of the plan
}

type span struct {
	step       *plan.Step
	start, end time.Time
}

func (w *world) call(ctx context.Context, c plan.Call) plan.Result {
	w.mu.Lock()
	if ctx.Err() != nil {
		w.bad = append(w.bad, c.Step.ID+" is called after the end")
	}
	took := time.Duration(w.ExpFloat64()*float64(20*ms)) + 1
	w.open[c.Step]++
	w.checkOpen(c.Step)
	fails := w.fails[c.Step.ID] || w.fails[fmt.Sprintf("%s/%d", c.Step.ID, c.Item)]
	w.mu.Unlock()

	start := time.Now()
	cut := false
	select {
	case <-time.After(took):
	case <-ctx.Done():
		cut = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[c.Step]--
	w.log = append(w.log, span{c.Step, start, time.Now()})
	if cut || fails {
		return plan.Result{Err: "it fails"}
	}
	h := fnv.New32a()
	h.Write([]byte(c.Step.ID))
	h.Write(c.Arguments)
	n := h.Sum32() % 1000
	return resultOf(fmt.Appendf(nil, `{"v":%d,"list":[%d,%d,%d,null,"x"],"no":0}`, n, n, n+1, n+2))
}

// checkOpen checks which calls are in flight when a call starts.
func (w *world) checkOpen(s *plan.Step) {
	total, host := 0, 0
	for k, n := range w.open {
		total += n
		if k.Tool.Host == s.Tool.Host {
			host += n
		}
		if k == s && n > 1 && (s.Writes || s.ForEach == nil || s.Parallel > 0 && n > s.Parallel) {
			w.bad = append(w.bad, fmt.Sprintf("%s has %d calls at once", s.ID, n))
		}
		if k == s || n == 0 {
			continue
		}
		if (s.Writes || k.Writes) && len(s.Tool.Domains) > 0 && slices.Equal(s.Tool.Domains, k.Tool.Domains) {
			w.bad = append(w.bad, s.ID+" overlaps "+k.ID+", and one of them writes")
		}
	}
	if total > w.limits().Parallel || s.Tool.Capacity > 0 && host > s.Tool.Capacity {
		w.bad = append(w.bad, fmt.Sprintf("%d calls at once, %d to host %q", total, host, s.Tool.Host))
	}
}

func (w *world) limits() plan.Limits { return plan.Limits{Parallel: 3, Budget: 10_000} }

var drawnTools = []string{"read", "read", "read", "look", "host", "large", "write", "write2"}

// draw returns the text of a random plan.
func (w *world) draw(n int) string {
	var steps []string
	perm := w.Perm(n) // step → position in the order of possible references
	for i := range n {
		var before []string
		for k := range n {
			if perm[k] < perm[i] {
				before = append(before, fmt.Sprintf("s%d", k))
			}
		}
		steps = append(steps, w.step(fmt.Sprintf("s%d", i), before))
	}
	text := `{"steps":[` + strings.Join(steps, ",") + `]`
	if w.IntN(2) == 0 {
		text += fmt.Sprintf(`,"output_steps":["s%d","s%d"]`, 0, n-1)
	}
	if w.IntN(2) == 0 {
		text += fmt.Sprintf(`,"budget_tokens":%d`, 50+w.IntN(600))
	}
	return text + `}`
}

func (w *world) step(id string, before []string) string {
	tool := drawnTools[w.IntN(len(drawnTools))]
	s := fmt.Sprintf(`{"id":%q,"tool":%q`, id, tool)
	reads := !strings.HasPrefix(tool, "write")
	some := func() string { return before[w.IntN(len(before))] }
	var in []string
	if len(before) > 0 {
		for range w.IntN(3) {
			in = append(in, []string{`"$ref:%s.v"`, `{"$ref":"%s#/v","default":-1}`, `{"$ref":"%s#/v"}`}[w.IntN(3)])
			in[len(in)-1] = fmt.Sprintf(in[len(in)-1], some())
		}
		switch w.IntN(8) {
		case 0:
			s += fmt.Sprintf(`,"for_each":"$ref:%s.list"`, some())
			if w.IntN(2) == 0 {
				s += `,"max_parallel":2`
			}
			in = append(in, `"$ref:item"`, `{"$ref":"index#"}`)
		case 1:
			s += fmt.Sprintf(`,"when":"$ref:%s.%s"`, some(), []string{"v", "no"}[w.IntN(2)])
		case 2:
			s += fmt.Sprintf(`,"depends_on":[%q]`, some())
		}
	}
	s += `,"arguments":{"in":[` + strings.Join(in, ",") + `]}`
	switch w.IntN(6) {
	case 0:
		s += `,"on_error":"skip"`
	case 1:
		s += `,"on_error":"default","default":{"v":5,"list":[1]}`
	case 2:
		s += `,"on_error":"continue"`
	}
	if reads && w.IntN(4) == 0 {
		s += fmt.Sprintf(`,"optional":true,"value":%d`, w.IntN(5))
	}
	if reads && w.IntN(6) == 0 {
		s += `,"retry":1`
	}
	return s + `}`
}

// accepted draws plans until one is accepted. Some have cycles of references and orders of writes,
// and some refer to fields that for_each results do not have.
func (w *world) accepted(t *testing.T) *plan.Plan {
	for {
		text := w.draw(2 + w.IntN(30))
		w.text = text
		p, defects := plan.Parse([]byte(text), plan.Options{Limits: within(w.limits()), Find: func(name string) *plan.Tool { return tools[name] }})
		if len(defects) == 0 {
			return p
		}
		if !strings.Contains(defects.Error(), "cycle") && !strings.Contains(defects.Error(), "is an array") {
			t.Fatalf("%s\n%s", defects.Error(), text)
		}
	}
}

// play runs a plan once.
func (w *world) play(t *testing.T, p *plan.Plan, end time.Duration) *plan.Report {
	w.log, w.bad, w.open = nil, nil, make(map[*plan.Step]int)
	r := &plan.Runner{Limits: within(w.limits()), Call: w.call}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if end > 0 {
		time.AfterFunc(end, cancel)
	}
	told := 0.0
	r.Progress = func(done float64, of int, what string) {
		if done <= told || done > told+1 || of != len(p.Steps) || what == "" {
			w.bad = append(w.bad, fmt.Sprintf("told of %g of %d after %g: %q", done, of, told, what))
		}
		told = done
	}
	report := r.Run(ctx, p)
	if told != float64(len(p.Steps)) {
		w.bad = append(w.bad, fmt.Sprintf("%g steps ended, of %d", told, len(p.Steps)))
	}
	w.check(report)
	for _, bad := range w.bad {
		t.Error(bad)
	}
	return report
}

// check fails if a report breaks an invariant.
func (w *world) check(r *plan.Report) {
	first, last, calls := make(map[*plan.Step]time.Time), make(map[*plan.Step]time.Time), make(map[*plan.Step]int)
	for _, s := range w.log {
		if calls[s.step]++; calls[s.step] == 1 || s.start.Before(first[s.step]) {
			first[s.step] = s.start
		}
		if s.end.After(last[s.step]) {
			last[s.step] = s.end
		}
	}
	for _, st := range r.Steps {
		s := st.Step
		if st.Calls != calls[s] || (st.State == plan.Skipped || st.State == plan.Cancelled) && calls[s] > 0 {
			w.bad = append(w.bad, fmt.Sprintf("%s is %s with %d calls, %d made", s.ID, st.State, st.Calls, calls[s]))
		}
		if st.State == plan.OK && calls[s] == 0 && s.ForEach == nil || (st.State != plan.OK) != (st.Reason != "") && s.ForEach == nil {
			w.bad = append(w.bad, fmt.Sprintf("%s is %s with %d calls: %q", s.ID, st.State, calls[s], st.Reason))
		}
		if calls[s] > 0 && st.Took != last[s].Sub(first[s]) {
			w.bad = append(w.bad, fmt.Sprintf("%s took %s, said to be %s", s.ID, last[s].Sub(first[s]), st.Took))
		}
		for _, i := range slices.Concat(s.Waits, s.OrderAfter) {
			if d := r.Steps[i].Step; calls[s] > 0 && first[s].Before(last[d]) {
				w.bad = append(w.bad, fmt.Sprintf("%s began before %s had ended", s.ID, d.ID))
			}
		}
		if has := st.Result.JSON != nil; has && st.State != plan.OK || !has && st.State == plan.OK && st.Output {
			w.bad = append(w.bad, fmt.Sprintf("%s is %s, output %t: result %s", s.ID, st.State, st.Output, st.Result.JSON))
		}
	}
}

// foretell computes the outcome of each step of a plan without a budget and without failing
// writes. It does not depend on the order of calls.
func (w *world) foretell(p *plan.Plan) []string {
	fate := make([]string, len(p.Steps)) // "?" if it depends on values
	var of func(i int) string
	of = func(i int) string {
		if fate[i] != "" {
			return fate[i]
		}
		s := p.Steps[i]
		fate[i] = "ok"
		switch {
		case s.When != nil:
			fate[i] = "?"
		case s.ForEach != nil || needsValue(s):
			fate[i] = "ok or failed"
		case w.fails[s.ID]:
			fate[i] = "failed"
		}
		for _, k := range s.Waits {
			d, refers := p.Steps[k], slices.Contains(s.Needs, k)
			switch of(k) {
			case "failed", "skipped":
				if d.OnError == plan.Fail || d.OnError == "" || d.OnError == plan.Skip && refers {
					fate[i] = "skipped"
				}
			case "?", "ok or failed":
				if fate[i] != "skipped" {
					fate[i] = "?"
				}
			}
			if fate[i] == "skipped" {
				break
			}
		}
		return fate[i]
	}
	for i := range p.Steps {
		of(i)
	}
	return fate
}

// needsValue reports whether a reference of a step may have no value.
func needsValue(s *plan.Step) bool {
	return slices.ContainsFunc(s.Refs(), func(r *plan.Ref) bool { return !r.Null && r.Default == nil })
}

func rounds() int { return slice(200, 20_000) }

// slice returns few, or all in make soak.
func slice(few, all int) int {
	if os.Getenv("MCPSCHEDD_SOAK") == "1" {
		return all
	}
	return few
}

func TestRunRandomPlans(t *testing.T) {
	count := make(map[plan.State]int)
	for seed := range rounds() {
		bubble.Test(t, func(t *testing.T) {
			w := &world{Rand: rand.New(rand.NewPCG(uint64(seed), 5)), fails: make(map[string]bool)}
			p := w.accepted(t)
			w.chance(p, true)
			end := time.Duration(0)
			if w.IntN(3) == 0 {
				end = time.Duration(w.IntN(100)) * ms
			}
			report := w.play(t, p, end)
			for _, st := range report.Steps {
				count[st.State]++
				if end == 0 && st.State == plan.Cancelled {
					t.Errorf("%s is cancelled: %s", st.Step.ID, st.Reason)
				}
			}
			if t.Failed() {
				t.Fatalf("seed %d:\n%s\n%s", seed, fates(report), w.text)
			}
		})
	}
	for _, state := range []plan.State{plan.OK, plan.Failed, plan.Skipped, plan.Cancelled} {
		if count[state] < rounds()/10 {
			t.Errorf("%d steps are %s: the test proves nothing about it", count[state], state)
		}
	}
	t.Log(count)
}

// The outcome of a plan does not depend on durations, if no write fails and no step is optional.
func TestRunIsTheSameInAnyOrder(t *testing.T) {
	foretold := 0
	for seed := range rounds() {
		bubble.Test(t, func(t *testing.T) {
			w := &world{Rand: rand.New(rand.NewPCG(uint64(seed), 6)), fails: make(map[string]bool)}
			p := w.accepted(t)
			for _, s := range p.Steps {
				s.Optional = false
			}
			w.chance(p, false)
			want, first := w.foretell(p), ""
			for range 3 {
				report := w.play(t, p, 0)
				var all []string
				for i, st := range report.Steps {
					all = append(all, fmt.Sprintf("%s %s %s %s", st.Step.ID, st.State, reasonOf(st), st.Result.JSON))
					if want[i] == "?" || writeFailed(report) {
						continue
					}
					if foretold++; !strings.Contains(want[i], string(st.State)) {
						t.Errorf("%s is %s (%s), want %s", st.Step.ID, st.State, st.Reason, want[i])
					}
				}
				if text := strings.Join(all, "\n"); first == "" {
					first = text
				} else if diff := cmp.Diff(first, text); diff != "" && !writeFailed(report) {
					t.Errorf("another order, another end\n%s", diff)
				}
			}
			if t.Failed() {
				raw, _ := json.Marshal(w.fails)
				t.Fatalf("seed %d: fails %s\n%s", seed, raw, w.text)
			}
		})
	}
	if foretold < rounds() {
		t.Errorf("%d outcomes were computed: the test proves nothing", foretold)
	}
}

// chance selects the calls that fail.
func (w *world) chance(p *plan.Plan, writes bool) {
	for _, s := range p.Steps {
		if writes || !s.Writes {
			w.fails[s.ID] = w.IntN(6) == 0
			w.fails[s.ID+"/1"] = w.IntN(3) == 0
		}
	}
}

// reasonOf returns a step's reason without the progress of a for_each.
func reasonOf(st *plan.Status) string {
	if st.Step.ForEach != nil && st.State == plan.Failed {
		return ""
	}
	return st.Reason
}

// writeFailed reports whether a write failed, even before its call was sent. Which later writes
// have started by then is random.
func writeFailed(r *plan.Report) bool {
	return slices.ContainsFunc(r.Steps, func(st *plan.Status) bool { return st.Step.Writes && st.State == plan.Failed })
}
