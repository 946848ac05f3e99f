package plan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"mcpschedd/internal/plan"
)

// Steps with a common domain keep their written order if one of them may write, unless references
// require another order.
func TestOrderOfDomains(t *testing.T) {
	const (
		read  = `"tool":"get_issue","arguments":{"number":1}`
		write = `"tool":"create_issue","arguments":{"x":`
		other = `"tool":"a","arguments":{"x":`
	)
	for _, c := range []struct {
		name  string
		steps []string // "id": s0, s1, … is added to each
		want  string   // predecessors of each step
	}{
		{"reads alone", []string{read, read}, "0: 1:"},
		{"a write waits for reads", []string{read, read, write + `1}`}, "0: 1: 2:0,1"},
		{"writes wait for each other, past what may be skipped", []string{write + `1}`, read, write + `1}`}, "0: 1:0 2:0,1"},
		{"another domain", []string{write + `1}`, `"tool":"read_file"`, `"tool":"shell"`, read}, "0: 1: 2:1 3:0"},
		{"no domain", []string{`"tool":"mystery"`, write + `1}`, `"tool":"mystery"`}, "0: 1: 2:"},
		{"a write that refers to a later read", []string{write + `"$ref:s1.token"}`, read}, "0:1 1:"},
		{"through another step", []string{write + `"$ref:s1"}`, other + `"$ref:s2"}`, read}, "0:1,2 1:2 2:"},
		{"the others stay as they are written", []string{write + `"$ref:s2"}`, write + `1}`, read}, "0:2 1:0,2 2:"},
		{"nor do they change sides for a step of no domain", []string{other + `"$ref:s2"}`, write + `1}`, write + `2}`}, "0:2 1: 2:1"},
		{"all backwards", []string{write + `"$ref:s1"}`, write + `"$ref:s2"}`, write + `3}`}, "0:1,2 1:2 2:"},
	} {
		var each, got []string
		for i, s := range c.steps {
			each = append(each, fmt.Sprintf(`{"id":"s%d",%s}`, i, s))
		}
		p := parsed(t, steps(each...), parsing(t))
		for i, s := range p.Steps {
			after := slices.Sorted(slices.Values(slices.Concat(s.Waits, s.OrderAfter)))
			got = append(got, fmt.Sprintf("%d:%s", i, strings.Trim(strings.ReplaceAll(fmt.Sprint(after), " ", ","), "[]")))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %v, want %s", c.name, got, c.want)
		}
		well(t, p)
	}
}

// For random references and domains: a plan is accepted exactly if its references form no cycle.
// Two steps of a domain never overlap if one of them writes, whichever other steps are excluded.
// The written order is kept if it is possible.
func TestOrderOfDomainsInAnyOrder(t *testing.T) {
	accepted, turned := 0, 0
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 15))
		n := 2 + r.IntN(7)
		waits, domains, writes := make([][]int, n), make([][]string, n), make([]bool, n)
		place := r.Perm(n) // references go from higher to lower positions, with a few exceptions
		var each []string
		for i := range n {
			var ids []string
			for range r.IntN(3) {
				if k := r.IntN(n); k != i && (place[k] < place[i] || r.IntN(20) == 0) {
					waits[i] = append(waits[i], k)
					ids = append(ids, fmt.Sprintf(`"s%d"`, k))
				}
			}
			for _, domain := range []string{"x", "y"} {
				if r.IntN(2) == 0 {
					domains[i] = append(domains[i], domain)
				}
			}
			writes[i] = r.IntN(2) == 0
			each = append(each, fmt.Sprintf(`{"id":"s%d","tool":"t%d","depends_on":[%s]}`, i, i, strings.Join(ids, ",")))
		}
		o := parsing(t)
		o.Find = func(name string) *plan.Tool {
			i := int(name[1] - '0')
			return &plan.Tool{Name: name, Domains: domains[i], Writes: func([]byte) bool { return writes[i] }}
		}
		p, defects := plan.Parse([]byte(steps(each...)), o)
		if want := inARow(waits); (p != nil) != want {
			t.Fatalf("seed %d: got %v, want accepted %v: %v", seed, defects, want, waits)
		}
		if p == nil {
			continue
		}
		accepted++
		well(t, p)
		asWritten := slices.Clone(waits)
		for k := range n {
			for i := range k {
				meet := slices.ContainsFunc(domains[i], func(d string) bool { return slices.Contains(domains[k], d) })
				if !meet || !writes[i] && !writes[k] {
					continue
				}
				asWritten[k] = append(slices.Clone(asWritten[k]), i)
				if !follows(p.Steps[k], i) && !follows(p.Steps[i], k) {
					t.Fatalf("seed %d: s%d and s%d may overlap", seed, i, k)
				}
			}
		}
		kept := true
		for k, s := range p.Steps {
			for _, i := range s.OrderAfter {
				kept = kept && i < k
			}
		}
		if inARow(asWritten) && !kept {
			t.Fatalf("seed %d: the written order is possible, and was not kept", seed)
		}
		if !kept {
			turned++
		}
	}
	if accepted < 1000 || turned < 300 {
		t.Errorf("%d accepted, %d of them reordered: the test proves little", accepted, turned)
	}
}

func follows(s *plan.Step, i int) bool {
	return slices.Contains(s.Waits, i) || slices.Contains(s.OrderAfter, i)
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
	told(t, defects, []string{`step "s3" at /steps/4: 4 steps in a row: a plan may have 3 ([plan].max_depth)`})
	var writes []string
	for i := range 40 {
		writes = append(writes, fmt.Sprintf(`{"id":"w%d","tool":"create_issue"}`, i))
	}
	p := parsed(t, steps(writes...), o) // the order of writes does not count as depth
	if len(p.Steps[39].OrderAfter) != 39 {
		t.Errorf("got %v, want all the others", p.Steps[39].OrderAfter)
	}
}

// inARow reports whether the steps have an order in which each follows its dependencies.
func inARow(waits [][]int) bool {
	done := make([]bool, len(waits))
	for range waits {
		for i := range waits {
			done[i] = done[i] || !slices.ContainsFunc(waits[i], func(j int) bool { return !done[j] })
		}
	}
	return !slices.Contains(done, false)
}

// well fails if an accepted plan breaks an invariant.
func well(t testing.TB, p *plan.Plan) {
	t.Helper()
	after, ids := make([][]int, len(p.Steps)), make(map[string]bool)
	for i, s := range p.Steps {
		if s.Index != i || s.Tool == nil || s.ID == "" || ids[s.ID] {
			t.Errorf("step %d: got %+v", i, s)
		}
		ids[s.ID] = true
		for name, indices := range map[string][]int{"needs": s.Needs, "waits": s.Waits, "order": s.OrderAfter} {
			for k, j := range indices {
				if j < 0 || j >= len(p.Steps) || j == i || k > 0 && indices[k-1] >= j {
					t.Errorf("step %d: %s is %v", i, name, indices)
				}
			}
		}
		for _, j := range s.Needs {
			if !slices.Contains(s.Waits, j) {
				t.Errorf("step %d: waits for %v, not for %d", i, s.Waits, j)
			}
		}
		for _, j := range s.OrderAfter {
			if slices.Contains(s.Waits, j) {
				t.Errorf("step %d: depends on %d only for the order of writes, and waits for it", i, j)
			}
		}
		if s.Writes && (s.Optional || s.Retry > 0) {
			t.Errorf("step %d writes: %+v", i, s)
		}
		after[i] = slices.Concat(s.Waits, s.OrderAfter)
	}
	if !inARow(after) {
		t.Errorf("steps wait for each other: %v", after)
	}
	for i, s := range p.Outputs {
		if !slices.Contains(p.Steps, s) || slices.Contains(p.Outputs[:i], s) {
			t.Errorf("outputs are %v", p.Outputs)
		}
	}
}
