package schedule

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// AVDS chooses by value density in batches, as the paper of that name has it, with
// its errors mended: what a batch may hold is what needs nothing that is not in an
// earlier one. An item counts for its own value and for that of all items that
// need it directly. conflicts says which items may not share a batch; nil: any may.
// It promises nothing: see the package comment.
func AVDS(items []Item, l Limits, conflicts func(a, b int) bool) (batches [][]int, c Choice) {
	b := newBasket(items, l)
	worth := b.promise()
	for {
		open := b.available()
		slices.SortStableFunc(open, func(i, k int) int {
			return cmp.Compare(density(worth[k], float64(items[k].Cost)), density(worth[i], float64(items[i].Cost)))
		})
		var batch []int
		for _, i := range open {
			apart := conflicts != nil && slices.ContainsFunc(batch, func(k int) bool { return conflicts(i, k) || conflicts(k, i) })
			if !apart && b.fits(i) {
				b.put(i)
				batch = append(batch, i)
			}
		}
		if batch == nil {
			return batches, b.choice()
		}
		batches = append(batches, batch)
	}
}

// GreedyByCost always chooses the cheapest item that fits and lacks nothing it
// needs; of equal ones the first.
func GreedyByCost(items []Item, l Limits) Choice {
	return newBasket(items, l).fill(func(open []int) int {
		return slices.MinFunc(open, func(a, b int) int { return cmp.Compare(items[a].Cost, items[b].Cost) })
	})
}

// GreedyByValue always chooses the item of most value that fits and lacks nothing
// it needs, whatever it costs; of equal ones the first.
func GreedyByValue(items []Item, l Limits) Choice {
	return newBasket(items, l).fill(func(open []int) int {
		return slices.MinFunc(open, func(a, b int) int { return cmp.Compare(items[b].Value, items[a].Value) })
	})
}

// Arbitrary always chooses any one of the items that fit and lack nothing they
// need, each with the same probability.
func Arbitrary(items []Item, l Limits, r *rand.Rand) Choice {
	return newBasket(items, l).fill(func(open []int) int { return open[r.IntN(len(open))] })
}
