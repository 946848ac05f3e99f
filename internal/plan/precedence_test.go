package plan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"mcpschedd/internal/plan"
)

// Steps of one domain that are not written in the order of their dependencies were refused as a
// cycle.
func TestOrderOfStepsWrittenBackwards(t *testing.T) {
	const (
		read  = `"tool":"get_issue","arguments":{"number":1}`
		write = `"tool":"create_issue","arguments":{"x":`
		other = `"tool":"a","arguments":{"x":`
	)
	for _, c := range []struct {
		name  string
		steps []string // "id": s0, s1, … is inserted
		want  string   // dependencies of each step
	}{
		{"a write that refers to a later read", []string{write + `"$ref:s1.token"}`, read}, "0:1 1:"},
		{"through another step", []string{write + `"$ref:s1"}`, other + `"$ref:s2"}`, read}, "0:1,2 1:2 2:"},
		{"by depends_on", []string{write + `0},"depends_on":["s1"]`, read}, "0:1 1:"},
		{"the others stay as they are written", []string{write + `"$ref:s2"}`, write + `1}`, read}, "0:2 1:0,2 2:"},
		{"nor do they change sides for a step of no domain", []string{other + `"$ref:s2"}`, write + `1}`, write + `2}`}, "0:2 1: 2:1"},
		{"all backwards", []string{write + `"$ref:s1"}`, write + `"$ref:s2"}`, write + `3}`}, "0:1,2 1:2 2:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var each []string
			for i, s := range c.steps {
				each = append(each, fmt.Sprintf(`{"id":"s%d",%s}`, i, s))
			}
			p := parsed(t, steps(each...), parsing(t))
			var got []string
			for i, s := range p.Steps {
				got = append(got, fmt.Sprintf("%d:%s", i, strings.Trim(strings.ReplaceAll(fmt.Sprint(s.After), " ", ","), "[]")))
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
			well(t, p)
		})
	}
}

// For any references and domains: a plan is accepted exactly if its references form no cycle; no
// two steps of a domain can overlap if one of them writes, whichever other steps are excluded;
// and a written order that is possible is kept.
func TestOrderOfDomainsInAnyOrder(t *testing.T) {
	accepted, turned := 0, 0
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 15))
		n := 2 + r.IntN(7)
		waits, domains, writes := make([][]int, n), make([][]string, n), make([]bool, n)
		place := r.Perm(n) // references go from higher to lower, with a few exceptions
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
				if !slices.Contains(p.Steps[k].After, i) && !slices.Contains(p.Steps[i].After, k) {
					t.Fatalf("seed %d: s%d and s%d may overlap", seed, i, k)
				}
			}
		}
		kept := true
		for k, s := range p.Steps {
			for _, i := range s.Order {
				kept = kept && i < k
			}
		}
		if inARow(asWritten) && !kept {
			t.Fatalf("seed %d: an order that could be kept is not", seed)
		}
		if !kept {
			turned++
		}
	}
	if accepted < 1000 || turned < 300 {
		t.Errorf("%d accepted, %d of them turned round: too much alike to tell", accepted, turned)
	}
}
