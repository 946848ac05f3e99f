package schedule

// Choice is the result of a search.
type Choice struct {
	Items []int // indices, ascending
	Value float64
	Cost  int
	Exact bool // false if it was cut short
	Nodes int
}

// Choose is Select with a cap on the nodes of the search; 0 for the usual one.
func Choose(items []Item, l Limits, most int) Choice {
	if most == 0 {
		most = maxNodes
	}
	s := run(items, l, most)
	c := Choice{Items: s.best, Exact: s.left >= 0, Nodes: most - max(s.left, 0)}
	for _, i := range c.Items {
		c.Value += items[i].Value
		c.Cost += items[i].Cost
	}
	return c
}
