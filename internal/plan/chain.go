package plan

import "slices"

// Inputs are the ids of the steps whose results a step uses, or that it is said to wait for.
func (p *Plan) Inputs(s *Step) (ids []string) {
	for _, i := range s.After {
		if !slices.Contains(s.Order, i) {
			ids = append(ids, p.Steps[i].ID)
		}
	}
	return ids
}

// ChainLength is how many calls were made one after the other because each needed another,
// or was to wait for it: the turns that a client without plans would have needed at
// least. Steps that only keep their order within a domain are not counted as needing
// each other, and the items of one step count as one.
func (r *Report) ChainLength() int {
	longest := 0
	after := make([][]int, len(r.Steps))
	for i, st := range r.Steps {
		after[i] = st.Step.After
	}
	ends := make([]int, len(r.Steps)) // step → calls in the longest chain that ends with it
	for _, i := range sorted(after) {
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
