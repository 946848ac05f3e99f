package schedule

import "container/heap"

// ranking is a heap of small numbers that knows where each of them stands.
type ranking struct {
	all    []int
	at     []int // member → place in all
	before func(a, b int) bool
}

// newRanking keeps the places of its members in at, which rankings without a
// common member may share.
func newRanking(at []int, before func(a, b int) bool) *ranking {
	return &ranking{at: at, before: before}
}

func (r *ranking) first() int         { return r.all[0] }
func (r *ranking) Len() int           { return len(r.all) }
func (r *ranking) Less(i, j int) bool { return r.before(r.all[i], r.all[j]) }

func (r *ranking) Swap(i, j int) {
	r.all[i], r.all[j] = r.all[j], r.all[i]
	r.at[r.all[i]], r.at[r.all[j]] = i, j
}

func (r *ranking) Push(x any) {
	r.at[x.(int)] = len(r.all)
	r.all = append(r.all, x.(int))
}

func (r *ranking) Pop() any {
	last := r.all[len(r.all)-1]
	r.all = r.all[:len(r.all)-1]
	return last
}

// has reports whether x is in this ranking: its place may be an old one, or one in
// a ranking that shares them.
func (r *ranking) has(x int) bool {
	return r.at[x] < len(r.all) && r.all[r.at[x]] == x
}

func (r *ranking) remove(x int) {
	if r.has(x) {
		heap.Remove(r, r.at[x])
	}
}
