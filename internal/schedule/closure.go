package schedule

// mostValue bounds an item's value, so that sums and products stay finite.
const mostValue = 1e100

// bonds says what choosing an item entails and what it forbids.
type bonds struct {
	sorted  []int // items that may be chosen, each after all that it needs
	closure []set // item → itself and all that it needs, directly or not; empty: it cannot be chosen
	users   []set // item → itself and all that need it, directly or not
	rivals  []set // item → all that cannot be chosen beside it, for the sake of a row
	barred  set   // items that cannot be chosen at all
	needed  set   // items that others need
	plain   bool  // no item needs another
}

func newBonds(items []Item, l Limits) *bonds {
	n := len(items)
	words := (n + 63) / 64
	sets := newSets(3*n+2, words)
	b := &bonds{
		sorted: make([]int, 0, n), closure: sets[:n], users: sets[n : 2*n], rivals: sets[2*n : 3*n],
		barred: sets[3*n], needed: sets[3*n+1], plain: true,
	}
	for i := range items {
		b.plain = b.plain && len(items[i].Needs) == 0
	}
	b.close(items, l)
	for _, i := range b.sorted {
		for k := range b.closure[i].all() {
			b.users[k].add(i)
			if k != i {
				b.needed.add(k)
			}
		}
	}
	b.oppose(items)
	return b
}

// close finds the closures, each from those of what the item needs, in rounds:
// what no round has reached needs itself.
func (b *bonds) close(items []Item, l Limits) {
	for i := range items {
		b.barred.add(i)
	}
	for found := true; found; {
		found = false
		for i := range items {
			if b.barred.has(i) && b.enclose(items, i, l) {
				b.barred.drop(i)
				b.sorted = append(b.sorted, i)
				found = true
			}
		}
		found = found && !b.plain
	}
}

// enclose makes the closure of an item whose needs have theirs, and reports
// whether it may be chosen.
func (b *bonds) enclose(items []Item, i int, l Limits) bool {
	it := &items[i]
	if !(it.Value >= 0 && it.Value <= mostValue) || it.Cost < 0 {
		return false
	}
	for _, k := range it.Needs {
		if k < 0 || k >= len(items) || b.barred.has(k) {
			return false
		}
	}
	own := b.closure[i]
	own.add(i)
	for _, k := range it.Needs {
		own.unite(b.closure[k])
	}
	if fits(items, own, l) {
		return true
	}
	clear(own)
	return false
}

// fits reports whether a closure is within the limits and has no two items of one row.
func fits(items []Item, closure set, l Limits) bool {
	left, count := l.Budget, l.Count
	for i := range closure.all() {
		if count--; count < 0 || items[i].Cost > left {
			return false
		}
		left -= items[i].Cost
		if items[i].Row <= 0 {
			continue
		}
		for k := range closure.all() {
			if k != i && items[k].Row == items[i].Row {
				return false
			}
		}
	}
	return true
}

// oppose finds the rivals: whatever contains another item of a row that the
// closure has one of.
func (b *bonds) oppose(items []Item) {
	for k := range items {
		if items[k].Row <= 0 {
			continue
		}
		for j := range items {
			if j == k || items[j].Row != items[k].Row {
				continue
			}
			for i := range b.users[k].all() {
				b.rivals[i].unite(b.users[j])
			}
		}
	}
}
