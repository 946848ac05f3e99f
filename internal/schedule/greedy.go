package schedule

// seed makes the first choices, which branch and bound has to beat.
func (s *search) seed() {
	start := make(set, len(s.barred))
	s.greedy(start, false)
	if s.dear != nil {
		s.greedy(start, true) // where the number binds and not the budget, density misleads
	}
	if i := s.dearest(); i >= 0 {
		start.add(i)
		s.greedy(start, false)
	}
}

// dearest is the item with the closure of most value; -1 if there is none.
func (s *search) dearest() int {
	dearest, most := -1, 0.0
	in := s.in[0]
	n := s.begin()
	for i := range s.items {
		if s.barred.has(i) {
			continue
		}
		if with, ok := s.with(n, in, i); ok && with.value > most {
			dearest, most = i, with.value
		}
	}
	return dearest
}

// greedy begins with the items of start and adds for as long as something fits
// the closure of most value, or else of most value per cost, where both count for
// what they add. Of equals it takes the first.
func (s *search) greedy(start set, byValue bool) {
	n := s.begin()
	in, out := s.in[0], s.out[0]
	take := func(i int) {
		n, _ = s.with(n, in, i)
		s.choose(in, out, i)
	}
	for i := range start.all() {
		take(i)
	}
	for i := s.next(n, in, out, byValue); i >= 0; i = s.next(n, in, out, byValue) {
		take(i)
	}
	s.keep(n, in)
}

// next is the item that greedy takes; -1 if nothing that is worth anything fits.
func (s *search) next(n node, in, out set, byValue bool) int {
	next, most, least := -1, 0.0, 1.0
	for i := range s.items {
		if in.has(i) || out.has(i) {
			continue
		}
		with, ok := s.with(n, in, i)
		if !ok {
			out.add(i) // nor will it later: what is added takes from the budget what it takes off the closure
			continue
		}
		value, cost := with.value-n.value, float64(n.left-with.left)
		if byValue {
			cost = 1
		}
		if value*least > most*cost {
			next, most, least = i, value, cost
		}
	}
	return next
}
