package speculate

// The levels (feedback directed prefetching, Srinath et al., HPCA 2007, with five
// levels as there). What a wasted prefetch counts doubles with every level down.
const (
	watching = 0 // nothing is started
	single   = 1 // one at a time
	half     = 2 // half of what is configured
	normal   = 3 // what is configured; each session begins here
	eager    = 4 // likewise, and a wasted prefetch counts half
	levels   = 5

	Normal = normal // the level where each session begins
)

// What moves a throttle.
const (
	window     = 64 // labels; one counts the less the more came after it
	decay      = 1 - 1.0/window
	minLabels  = 16  // labels at a level before they are a judgement on it
	calmLabels = 32  // labels without harm before the level rises again
	fallBelow  = 0.3 // accuracy below which the level falls, be the next prefetch right or not
	riseFrom   = 0.4 // accuracy from which a level that was lost comes back
	riseAbove  = 0.6 // accuracy above which the highest is earned
	lateShare  = 0.1 // of used prefetches asked for before they were ready; above it earlier ones would have hidden more
)

// throttle is how far the prefetches of a session, or to a host, are let go.
//
// Every level is judged by the prefetches made at it: a move clears the window, and
// what becomes of earlier prefetches no longer counts. So one bad stretch, of which
// many are still open, costs one level and not all. Harm moves at once. After it
// the level stays for 32 labels and not for a time: that nothing was harmed counts
// only as far as there was something that could have done harm, and it is the same
// in recorded time. (That a host which said 429 wants to be left alone for a while
// is its cool-down's business.) Harm that comes before anything new was started is
// the same piece of news: it delays the rise, and costs no second level.
//
// What is asked of a lost level to come back is less than what pays, about half of
// the prefetches right: else one stretch of harm would end for good what pays as long
// as there is none. It is more than what keeps a level, so that nothing swings to
// and fro on the same accuracy.
type throttle struct {
	level      int
	generation int     // moves so far
	labels     int     // in this era
	weight     float64 // of these labels, decayed
	used       float64 // of that: of prefetches that were used
	late       float64 // of that: only after they had been asked for
	calm       int     // labels until harm is forgotten
	harmed     bool    // of harm, since something was started last
}

func newThrottle() throttle { return throttle{level: normal} }

// started is a prefetch that is begun.
func (t *throttle) started() { t.harmed = false }

// label is what became of a prefetch of that era.
func (t *throttle) label(generation int, used, late bool) {
	if generation != t.generation {
		return
	}
	t.weight, t.used, t.late = t.weight*decay+1, t.used*decay, t.late*decay
	if used {
		t.used++
	}
	if used && late {
		t.late++
	}
	t.labels++
	t.calm = max(0, t.calm-1)
	if t.labels < minLabels {
		return
	}
	switch {
	case t.falls():
		t.move(t.level - 1)
	case t.calm == 0 && t.rises():
		t.move(t.level + 1)
	}
}

// falls reports whether the accuracy is too low, and would be if the next prefetch were
// right: of few labels one is worth as much as lies between what falls and what
// rises.
func (t *throttle) falls() bool { return (t.used*decay+1)/(t.weight*decay+1) < fallBelow }

// rises reports whether a higher level is earned.
func (t *throttle) rises() bool {
	accuracy := t.used / t.weight
	if t.level < normal {
		return accuracy >= riseFrom
	}
	return accuracy > riseAbove && t.late > lateShare*t.used
}

// harm is harm that a prefetch has done.
func (t *throttle) harm() {
	t.calm = calmLabels
	if !t.harmed {
		t.harmed = true
		t.move(t.level - 1)
	}
}

// move goes to a level, if there is such a level.
func (t *throttle) move(to int) {
	if to < watching || to > eager {
		return
	}
	t.level = to
	t.generation++
	t.labels, t.weight, t.used, t.late = 0, 0, 0, 0
}

// slotsAt is how many of the slots there are may be taken at a level. At level 0
// none is taken: it is how many may be watched at a time, so that what leads back
// is what level 1 would have started.
func slotsAt(level, all int) int {
	switch level {
	case watching, single:
		return min(1, all)
	case half:
		return max(1, all/2)
	}
	return all
}

// cautionAt is how many times a wasted prefetch counts at a level.
func wasteFactorAt(level int) float64 {
	switch level {
	case watching, single:
		return 4
	case half:
		return 2
	case eager:
		return 0.5
	}
	return 1
}
