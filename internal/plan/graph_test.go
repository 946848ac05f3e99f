package plan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"mcpschedd/internal/plan"
)

// Steps that share a domain keep their written order if one of them may write.
func TestOrderOfDomains(t *testing.T) {
	const (
		read  = `"tool":"get_issue","arguments":{"number":1}`
		write = `"tool":"create_issue"`
	)
	for _, c := range []struct {
		name  string
		steps []string // "id": is inserted
		want  string   // ids of Order, step by step
	}{
		{"reads alone", []string{read, read, read}, "0: 1: 2:"},
		{"a write waits for reads", []string{read, read, write}, "0: 1: 2:0,1"},
		{"reads wait for a write", []string{write, read, read}, "0: 1:0 2:0"},
		{"writes wait for each other, past what may be skipped", []string{write, read, write}, "0: 1:0 2:0,1"},
		{"another domain", []string{write, `"tool":"read_file"`, `"tool":"shell"`, read}, "0: 1: 2:1 3:0"},
		{"no domain", []string{`"tool":"mystery"`, write, `"tool":"mystery"`}, "0: 1: 2:"},
		{"what is referred to has its edge already", []string{write, `"tool":"get_issue","arguments":{"number":"$ref:s0.n"}`}, "0: 1:"},
		{"what is waited for has its edge already", []string{read, write + `,"depends_on":["s0"]`}, "0: 1:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var each []string
			for i, s := range c.steps {
				each = append(each, fmt.Sprintf(`{"id":"s%d",%s}`, i, s))
			}
			p := parsed(t, steps(each...), parsing(t))
			var got []string
			for i, s := range p.Steps {
				got = append(got, fmt.Sprintf("%d:%s", i, strings.Trim(strings.ReplaceAll(fmt.Sprint(s.Order), " ", ","), "[]")))
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
			well(t, p)
		})
	}
}

// A tool that names one of its domains twice does not wait for itself.
func TestOrderOfADomainNamedTwice(t *testing.T) {
	o := parsing(t)
	o.Find = func(name string) *plan.Tool {
		return &plan.Tool{Name: name, Domains: []string{"x", "y", "x"}}
	}
	p := parsed(t, steps(`{"id":"a","tool":"w"}`, `{"id":"b","tool":"w"}`), o)
	if got := fmt.Sprint(p.Steps[0].After, p.Steps[1].After); got != "[] [0]" {
		t.Errorf("got %s, want [] [0]", got)
	}
}

func TestDepth(t *testing.T) {
	o := parsing(t)
	o.Depth = 3
	chain := func(n int) string {
		each := []string{`{"id":"other","tool":"a"}`, `{"id":"s0","tool":"a"}`}
		for i := 1; i < n; i++ {
			each = append(each, fmt.Sprintf(`{"id":"s%d","tool":"a","depends_on":["s%d"]}`, i, i-1))
		}
		return steps(each...)
	}
	parsed(t, chain(3), o)
	_, defects := plan.Parse([]byte(chain(4)), o)
	told(t, defects, []string{`step "s3" at /steps/4: 4 steps in a row: a plan may have 3 ([plan].max_depth): s0 -> s1 -> s2 -> s3`})
	_, defects = plan.Parse([]byte(chain(90)), o)
	told(t, defects, []string{`step "s89" at /steps/90: 90 steps in a row: a plan may have 3 ([plan].max_depth): ` +
		`s0 -> s1 -> s2 -> s3 -> s4 -> s5 -> s6 -> s7 -> s8 -> s9 -> … -> s80 -> s81 -> s82 -> s83 -> s84 -> s85 -> s86 -> s87 -> s88 -> s89`})

	var writes []string
	for i := range 40 {
		writes = append(writes, fmt.Sprintf(`{"id":"w%d","tool":"create_issue"}`, i))
	}
	p := parsed(t, steps(writes...), o) // the order of writes does not count as depth
	if len(p.Steps[39].After) != 39 {
		t.Errorf("got %v, want all the others", p.Steps[39].After)
	}
}

// For any references in any order, a plan is accepted exactly if its steps can be sorted
// topologically.
func TestCyclesAreFound(t *testing.T) {
	accepted := 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 7))
		n := 2 + r.IntN(7)
		waits := make([][]int, n)
		var each []string
		for i := range n {
			for range r.IntN(3) {
				if j := r.IntN(n); j != i && (j < i || r.IntN(4) == 0) {
					waits[i] = append(waits[i], j)
				}
			}
			var ids []string
			for _, j := range waits[i] {
				ids = append(ids, fmt.Sprintf(`"s%d"`, j))
			}
			each = append(each, fmt.Sprintf(`{"id":"s%d","tool":"a","depends_on":[%s]}`, i, strings.Join(ids, ",")))
		}
		p, defects := plan.Parse([]byte(steps(each...)), parsing(t))
		if want := inARow(waits); (p != nil) != want {
			t.Fatalf("seed %d: got %v, want accepted %v: %v", seed, defects, want, waits)
		}
		if p != nil {
			accepted++
			well(t, p)
		}
	}
	if accepted < 300 || accepted > 2700 {
		t.Errorf("accepted %d of 3000: too much alike to tell", accepted)
	}
}

// inARow reports whether steps can be sorted so that each follows its dependencies.
func inARow(waits [][]int) bool {
	done := make([]bool, len(waits))
	for range waits {
		for i := range waits {
			done[i] = done[i] || !slices.ContainsFunc(waits[i], func(j int) bool { return !done[j] })
		}
	}
	return !slices.Contains(done, false)
}

// well checks the invariants of an accepted plan.
func well(t testing.TB, p *plan.Plan) {
	t.Helper()
	after, ids := make([][]int, len(p.Steps)), make(map[string]bool)
	for i, s := range p.Steps {
		if s.Index != i || s.Tool == nil || s.Arguments == nil || s.ID == "" || ids[s.ID] {
			t.Errorf("step %d: got %+v", i, s)
		}
		ids[s.ID] = true
		for name, indices := range map[string][]int{"after": s.After, "needs": s.Needs, "order": s.Order} {
			for k, j := range indices {
				if j < 0 || j >= len(p.Steps) || j == i || k > 0 && indices[k-1] >= j {
					t.Errorf("step %d: %s is %v", i, name, indices)
				}
			}
		}
		for _, j := range slices.Concat(s.Needs, s.Order) {
			if !slices.Contains(s.After, j) {
				t.Errorf("step %d: waits for %v, not for %d", i, s.After, j)
			}
		}
		for _, j := range s.Order {
			if slices.Contains(s.Needs, j) {
				t.Errorf("step %d: follows %d only for its order, and refers to it", i, j)
			}
		}
		if s.Writes && (s.Optional || s.Retry > 0) {
			t.Errorf("step %d writes: %+v", i, s)
		}
		after[i] = s.After
	}
	if !inARow(after) {
		t.Errorf("steps wait for each other: %v", after)
	}
	for i, id := range p.Outputs {
		if !ids[id] || slices.Contains(p.Outputs[:i], id) {
			t.Errorf("outputs are %v", p.Outputs)
		}
	}
}
