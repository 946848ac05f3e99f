package schedule

import "slices"

// cellsPerNode is how many cells of the table may be filled for each node that the
// search was allowed: about as many as take the same time.
const cellsPerNode = 100

// forest is the items where each needs at most one other beside what that one
// needs, in preorder: all that needs an item, directly or not, stands right behind
// it.
type forest struct {
	order []int // items
	size  []int // place in order → how many places the item and all that needs it take
	unit  int   // divides every cost
	width int   // the budget, in units
}

// table solves what the search gave up, if it is a forest without rows and number
// and the table is no larger than the search was allowed to be: left-right dynamic
// programming (Johnson and Niemi 1983; Cho and Shaw 1997), over the costs as they
// are, divided by what divides all of them. Nothing is rounded.
//
// With the items in preorder, the best from a place on within a budget is the
// better of two: take the item there and go on to the next place, or leave out all
// that needs it and go on behind that.
func (s *search) table() bool {
	f := s.newForest()
	if f == nil {
		return false
	}
	chosen, value := f.solve(s.items)
	if value > s.value*(1+rounding) {
		clear(s.best)
		s.value = value
		for _, i := range chosen {
			s.best.add(i)
		}
	}
	s.capped = false
	return true
}

// newForest returns nil where the items are none or the table would be too large.
func (s *search) newForest() *forest {
	if s.dear != nil {
		return nil
	}
	parents := make([]int, len(s.items)) // item → the one it needs; -1: none
	for _, i := range s.sorted {
		if !s.rivals[i].empty() {
			return nil
		}
		parents[i] = -1
		for _, k := range s.items[i].Needs {
			if parents[i] < 0 || s.closure[k].has(parents[i]) {
				parents[i] = k
			}
		}
		if k := parents[i]; k >= 0 && s.closure[i].size() != s.closure[k].size()+1 {
			return nil // it needs something that this one does not
		}
	}
	f := &forest{}
	f.measure(s.items, s.sorted, s.limits.Budget)
	if f.width >= cellsPerNode*s.limits.Nodes/(len(s.sorted)+1) {
		return nil
	}
	f.arrange(s.sorted, parents)
	return f
}

// measure finds the unit and the width: more than all together cost is not needed.
func (f *forest) measure(items []Item, sorted []int, budget int) {
	cost := 0
	for _, i := range sorted {
		f.unit = gcd(f.unit, items[i].Cost)
		cost += min(items[i].Cost, budget-cost)
	}
	f.unit = max(f.unit, 1)
	f.width = cost / f.unit
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// arrange finds the preorder from one in which what is needed comes first.
func (f *forest) arrange(sorted, parents []int) {
	sizes, free, roots := make([]int, len(parents)), make([]int, len(parents)), 0 // free: the next place behind an item
	for _, i := range slices.Backward(sorted) {
		sizes[i]++
		if parents[i] >= 0 {
			sizes[parents[i]] += sizes[i]
		}
	}
	f.order, f.size = make([]int, len(sorted)), make([]int, len(sorted))
	for _, i := range sorted {
		next := &roots
		if parents[i] >= 0 {
			next = &free[parents[i]]
		}
		at := *next
		*next += sizes[i]
		f.order[at], f.size[at], free[i] = i, sizes[i], at+1
	}
}

// solve fills the table from the last place to the first and reads the choice off
// it. Only whether an item is taken is kept for every cell, one bit each; a row of
// values goes back once no place before it leads to it.
func (f *forest) solve(items []Item) (chosen []int, value float64) {
	n, cells := len(f.order), f.width+1
	taken, first := make(set, (n*cells+63)/64), f.firsts()
	rows, spare := make([][]float64, n+1), [][]float64(nil)
	rows[n] = make([]float64, cells)
	for at, i := range slices.Backward(f.order) {
		if len(spare) == 0 {
			spare = append(spare, make([]float64, cells))
		}
		rows[at], spare = spare[len(spare)-1], spare[:len(spare)-1]
		next, past := at+1, at+f.size[at]
		fillRow(rows[at], rows[next], rows[past], items[i].Value, items[i].Cost/f.unit, taken, at*cells)
		if first[next] == at {
			spare = append(spare, rows[next])
		}
		if past != next && first[past] == at {
			spare = append(spare, rows[past])
		}
	}
	left := f.width
	for at := 0; at < n; {
		i := f.order[at]
		if !taken.has(at*cells + left) {
			at += f.size[at]
			continue
		}
		chosen = append(chosen, i)
		left -= items[i].Cost / f.unit
		at++
	}
	return chosen, rows[0][f.width]
}

// firsts are, for each place, the first one whose row is made from the row there.
func (f *forest) firsts() []int {
	first := make([]int, len(f.order)+1)
	for at := range first {
		first[at] = max(at-1, 0)
	}
	for at, size := range f.size {
		first[at+size] = min(first[at+size], at)
	}
	return first
}

// fillRow finds the best for each budget: with the item and then what next says,
// which is noted in taken from a bit on, or what past says.
func fillRow(row, next, past []float64, value float64, cost int, taken set, bit int) {
	copy(row, past[:min(cost, len(row))])
	for left := cost; left < len(row); left++ {
		row[left] = past[left]
		if with := next[left-cost] + value; with > row[left] {
			row[left] = with
			taken.add(bit + left)
		}
	}
}
