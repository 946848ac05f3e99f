package plan

// PartOf looks for the place that a reference leads to once, however small the
// value is.
func PartOf(value []byte) Lookup {
	return func(r *Ref) (Value, error) { return newSource(Value{JSON: value}).part(r) }
}

// Picked plays a plan whose steps end one by one, with as many tokens as it is told,
// and calls check with what the optional steps that are picked are worth, and would
// be if they were picked anew.
func Picked(p *Plan, l Limits, tokens func(s *Step) int, check func(worth, anew float64)) {
	x := newExecution(&Runner{Limits: l}, p)
	for _, s := range p.Steps { // each refers to earlier ones only
		x.pick()
		runs := !x.stages[s.Index].waived()
		worth, unused := x.worth(), x.unused
		var picked []bool
		for _, g := range x.stages {
			picked = append(picked, g.picked)
		}
		x.unused = -1
		x.pick()
		check(worth, x.worth())
		x.unused = unused
		for i, g := range x.stages {
			g.picked = picked[i]
		}
		st := x.stages[s.Index].status
		if st.State = OK; !runs {
			st.State, st.Void = Skipped, true
		} else if st.Output {
			st.Tokens = tokens(s)
		}
	}
}

func (x *execution) worth() float64 {
	sum := 0.0
	for _, g := range x.candidates() {
		if g.picked {
			sum += max(g.Value*g.Probability, leastValue)
		}
	}
	return sum
}
