package schedule

import "slices"

// basket is a choice that grows item by item, each after all that it needs, and is
// within the limits throughout.
type basket struct {
	items []Item
	in    []bool
	rows  map[int]bool // rows that an item was chosen from
	left  int          // of the budget
	count int          // items that may still be chosen
}

func newBasket(items []Item, l Limits) *basket {
	b := &basket{items: items, in: make([]bool, len(items)), rows: make(map[int]bool), left: l.Budget, count: l.Count}
	if b.count <= 0 {
		b.count = len(items)
	}
	return b
}

// sound reports whether an item may be chosen at all, as Item says; one that needs
// itself is found out by never being available.
func (b *basket) sound(i int) bool {
	it := &b.items[i]
	return it.Value >= 0 && it.Value <= mostValue && it.Cost >= 0 &&
		!slices.ContainsFunc(it.Needs, func(k int) bool { return k < 0 || k >= len(b.items) })
}

// available are the items that lack nothing they need, whether or not they fit.
func (b *basket) available() (open []int) {
	for i := range b.items {
		lacks := func(k int) bool { return !b.in[k] }
		if !b.in[i] && b.sound(i) && !slices.ContainsFunc(b.items[i].Needs, lacks) {
			open = append(open, i)
		}
	}
	return open
}

func (b *basket) fits(i int) bool {
	return b.count > 0 && b.items[i].Cost <= b.left && !(b.items[i].Row > 0 && b.rows[b.items[i].Row])
}

func (b *basket) put(i int) {
	b.in[i] = true
	b.left -= b.items[i].Cost
	b.count--
	if b.items[i].Row > 0 {
		b.rows[b.items[i].Row] = true
	}
}

// fill puts in what pick takes from the items that fit, until none does.
func (b *basket) fill(pick func(open []int) int) Choice {
	for {
		open := slices.DeleteFunc(b.available(), func(i int) bool { return !b.fits(i) })
		if len(open) == 0 {
			return b.choice()
		}
		b.put(pick(open))
	}
}

// promise is the value of each item and of those that need it directly.
func (b *basket) promise() []float64 {
	worth := make([]float64, len(b.items))
	for i := range b.items {
		if !b.sound(i) {
			continue
		}
		worth[i] += b.items[i].Value
		for n, k := range b.items[i].Needs {
			if !slices.Contains(b.items[i].Needs[:n], k) {
				worth[k] += b.items[i].Value
			}
		}
	}
	return worth
}

func (b *basket) choice() (c Choice) {
	for i, in := range b.in {
		if in {
			c.Items = append(c.Items, i)
			c.Value += b.items[i].Value
			c.Cost += b.items[i].Cost
		}
	}
	return c
}
