package plan

import "slices"

// Feeds are the ids of the steps whose results a step uses, or that it is said to wait for.
func (p *Plan) Feeds(s *Step) (ids []string) {
	for _, i := range s.After {
		if !slices.Contains(s.Order, i) {
			ids = append(ids, p.Steps[i].ID)
		}
	}
	return ids
}

// Chain is how many calls were made one after the other because each needed another,
// or was to wait for it: the turns that a client without plans would have needed at
// least. Steps that only keep their order within a domain are not counted as needing
// each other, and the items of one step count as one.
func (r *Report) Chain() int {
	longest := 0
	ends := make([]int, len(r.Steps)) // step → calls in the longest chain that ends with it
	for _, i := range r.order() {
		st := r.Steps[i]
		for _, before := range st.Step.After {
			if !slices.Contains(st.Step.Order, before) {
				ends[i] = max(ends[i], ends[before])
			}
		}
		if st.Calls > 0 {
			ends[i]++
		}
		longest = max(longest, ends[i])
	}
	return longest
}

// order are the steps, each after those it waits for.
func (r *Report) order() []int {
	out := make([]int, 0, len(r.Steps))
	seen := make([]bool, len(r.Steps))
	var visit func(i int)
	visit = func(i int) {
		if seen[i] {
			return
		}
		seen[i] = true
		for _, before := range r.Steps[i].Step.After {
			visit(before)
		}
		out = append(out, i)
	}
	for i := range r.Steps {
		visit(i)
	}
	return out
}
