package plan

import "slices"

// Inputs returns the ids of the steps whose results a step uses or that it waits for by
// depends_on.
func (p *Plan) Inputs(s *Step) (ids []string) {
	for _, i := range s.After {
		if !slices.Contains(s.Order, i) {
			ids = append(ids, p.Steps[i].ID)
		}
	}
	return ids
}

// ChainLength returns the length of the longest chain of calls that needed each other: the
// minimum number of turns for a client without plans. Steps that only keep the order within a
// domain do not need each other, and all items of a step count as one call.
func (r *Report) ChainLength() int {
	longest := 0
	after := make([][]int, len(r.Steps))
	for i, st := range r.Steps {
		after[i] = st.Step.After
	}
	ends := make([]int, len(r.Steps)) // step → length of the longest chain that ends with it
	for _, i := range topoSort(after) {
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
