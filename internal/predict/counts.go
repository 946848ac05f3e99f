package predict

// sum is a number that several processes add to: what it is now, which is kept, and what of
// it was in the state that was loaded or kept last. A merge adds the difference, so that
// what has decayed since then stays decayed.
type sum struct {
	Now  float32
	base float32
}

// plus adds what another process did, or this one, since it loaded the number.
func (s *sum) plus(o sum) { s.Now = max(0, s.Now+o.Now-o.base) }

// sound reports whether a number could have been counted.
func (s *sum) sound() bool { return s.Now >= 0 && s.Now < 1e9 }

// outcome is what came of candidates.
type outcome struct {
	Right sum
	Of    sum
}

// label counts one outcome, the older ones less.
func (o *outcome) label(hit bool) {
	o.Right.Now *= remember
	o.Of.Now = o.Of.Now*remember + 1
	if hit {
		o.Right.Now++
	}
}

func (o *outcome) each(do func(*sum)) {
	do(&o.Right)
	do(&o.Of)
}

func (o *outcome) plus(other *outcome) {
	o.Right.plus(other.Right)
	o.Of.plus(other.Of)
}
