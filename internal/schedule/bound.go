package schedule

import (
	"cmp"
	"math"
	"slices"
)

// relaxation bounds from above what the open items can add: it fills the budget
// with the densest parts of items and rows, and forgets what they need.
type relaxation struct {
	order []int  // items by falling density: the order in which they are decided
	steps []step // by falling density
	first []int  // place in order → the first step that reaches an item from there on
}

// step is an item, or what the next point of a row's upper hull adds to the one
// before it.
type step struct {
	value, cost float64
	row         []int // once all of these are decided the step is void
}

func density(value, cost float64) float64 {
	switch {
	case value <= 0:
		return 0
	case cost <= 0:
		return math.Inf(1)
	}
	return value / cost
}

func relax(items []Item, barred set) *relaxation {
	r := &relaxation{order: make([]int, 0, len(items))}
	for i := range items {
		if !barred.has(i) {
			r.order = append(r.order, i)
		}
	}
	r.rank(items)
	r.climb(items)
	r.locate(len(items))
	return r
}

// rank orders the items. Those of a row stand together where the densest of them
// does, the one of most value first: the hull promises that one until the row is
// decided, so it should be decided soon whether the promise holds.
func (r *relaxation) rank(items []Item) {
	dense, rows := make([]float64, len(items)), make(map[int]float64) // by item; the most of each row
	for _, i := range r.order {
		dense[i] = density(items[i].Value, float64(items[i].Cost))
		if row := items[i].Row; row > 0 {
			rows[row] = max(rows[row], dense[i])
		}
	}
	for _, i := range r.order {
		if row := items[i].Row; row > 0 {
			dense[i] = rows[row]
		}
	}
	slices.SortFunc(r.order, func(a, b int) int {
		if c := cmp.Compare(dense[b], dense[a]); c != 0 {
			return c
		}
		return cmp.Or(
			cmp.Compare(items[a].Row, items[b].Row),
			cmp.Compare(items[b].Value, items[a].Value),
			a-b,
		)
	})
}

// climb makes the steps of every item and row.
func (r *relaxation) climb(items []Item) {
	r.steps = make([]step, 0, len(r.order))
	for at := 0; at < len(r.order); {
		row, end := items[r.order[at]].Row, at+1
		for row > 0 && end < len(r.order) && items[r.order[end]].Row == row {
			end++
		}
		r.hull(items, r.order[at:end])
		at = end
	}
	slices.SortStableFunc(r.steps, func(a, b step) int {
		return cmp.Compare(density(b.value, b.cost), density(a.value, a.cost))
	})
}

// hull adds the steps that lead from nothing to the most valuable item of a row,
// each less dense than the one before.
func (r *relaxation) hull(items []Item, row []int) {
	start := len(r.steps)
	rising := row
	if len(row) > 1 {
		rising = slices.Clone(row)
		slices.SortStableFunc(rising, func(a, b int) int { return cmp.Compare(items[a].Cost, items[b].Cost) })
	}
	var value, cost float64 // of the point that the steps lead to
	for _, i := range rising {
		it := &items[i]
		if it.Value <= value {
			continue
		}
		next := step{value: it.Value - value, cost: float64(it.Cost) - cost, row: row}
		for n := len(r.steps); n > start && density(next.value, next.cost) >= density(r.steps[n-1].value, r.steps[n-1].cost); n-- {
			next.value += r.steps[n-1].value
			next.cost += r.steps[n-1].cost
			r.steps = r.steps[:n-1]
		}
		r.steps = append(r.steps, next)
		value, cost = it.Value, float64(it.Cost)
	}
}

// locate finds the first step that counts from each place of the order on.
func (r *relaxation) locate(items int) {
	place := make([]int, items)
	for at, i := range r.order {
		place[i] = at
	}
	r.first = make([]int, len(r.order)+1)
	for at := range r.first {
		r.first[at] = len(r.steps)
	}
	for n := range r.steps {
		row := r.steps[n].row
		last := place[row[len(row)-1]]
		r.first[last] = min(r.first[last], n)
	}
	for at := len(r.order) - 1; at >= 0; at-- {
		r.first[at] = min(r.first[at], r.first[at+1])
	}
}
