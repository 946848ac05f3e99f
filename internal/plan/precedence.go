package plan

// indices is a set of indices of steps.
type indices []uint64

func newIndices(of int) indices { return make(indices, (of+63)/64) }

func (s indices) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }
func (s indices) add(i int)      { s[i/64] |= 1 << (i % 64) }

func (s indices) addAll(other indices) {
	for k, word := range other {
		s[k] |= word
	}
}

// precedence is which steps come before which, directly or not: for each step those
// before it. It grows by one edge at a time.
type precedence []indices

// newPrecedence follows after, where after[i] are those that i waits for. There are no
// cycles in it.
func newPrecedence(after [][]int) precedence {
	p := make(precedence, len(after))
	var visit func(i int)
	visit = func(i int) {
		if p[i] != nil {
			return
		}
		p[i] = newIndices(len(after))
		for _, k := range after[i] {
			visit(k)
			p[i].add(k)
			p[i].addAll(p[k])
		}
	}
	for i := range after {
		visit(i)
	}
	return p
}

// before reports whether one step comes before another.
func (p precedence) before(i, k int) bool { return p[k].has(i) }

// add puts a step before another, which must not come before it.
func (p precedence) add(i, k int) {
	if p.before(i, k) {
		return
	}
	for at, those := range p {
		if at == k || those.has(k) {
			those.add(i)
			those.addAll(p[i])
		}
	}
}
