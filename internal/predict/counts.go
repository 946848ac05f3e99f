package predict

// sum is a counter that several processes update: its current value, which is saved, and its
// value in the state that was last loaded or saved. A merge adds the difference, so that
// decay since then is merged too.
type sum struct {
	Now  float32
	base float32
}

// merge adds the change of a process, possibly this one, since it loaded the counter.
func (s *sum) merge(o sum) { s.Now = max(0, s.Now+o.Now-o.base) }

// valid reports whether the value is plausible.
func (s *sum) valid() bool { return s.Now >= 0 && s.Now < 1e9 }

// outcome counts candidates and the correct ones among them.
type outcome struct {
	Right sum
	Of    sum
}

// add counts one candidate and decays the older ones.
func (o *outcome) add(hit bool) {
	o.Right.Now *= decay
	o.Of.Now = o.Of.Now*decay + 1
	if hit {
		o.Right.Now++
	}
}

func (o *outcome) each(do func(*sum)) {
	do(&o.Right)
	do(&o.Of)
}

func (o *outcome) merge(other *outcome) {
	o.Right.merge(other.Right)
	o.Of.merge(other.Of)
}
