package speculate

import "mcpschedd/internal/record"

// The five levels of feedback directed prefetching (Srinath et al., HPCA 2007). The weight of a
// wasted prefetch doubles with every level down to single.
const (
	shadowOnly = 0 // nothing is started; shadows stand for what would be
	single     = 1 // one at a time
	half       = 2 // half of the configured slots
	Normal     = 3 // the configured slots; the level at which each session and host starts
	eager      = 4 // the same, and a wasted prefetch counts half
)

// Parameters of a throttle.
const (
	window     = 64 // labels; each decays as more follow
	decay      = 1 - 1.0/window
	minLabels  = 16  // labels at a level before it may change
	calmLabels = 32  // labels without harm before the level rises again
	fallBelow  = 0.3 // accuracy below which the level falls, even if the next prefetch is used
	riseFrom   = 0.4 // accuracy from which a lost level is regained
	riseAbove  = 0.6 // accuracy above which the level eager is reached
	lateShare  = 0.1 // share of used prefetches that were late above which the level rises
)

// throttle limits the prefetches of a session, or to a host, by level.
//
// Each level is judged only by the prefetches made at it: a change clears the window, and the
// outcomes of earlier prefetches no longer count. So one bad stretch with many open prefetches
// costs one level and not all. Harm lowers the level at once. After that it stays for 32 labels
// rather than for a time: the absence of harm counts only if there were prefetches that could have
// done harm, and counting labels works in recorded time too. (The wait after a 429 is the host's
// cool-down.) Harm before anything new was started counts as the same event: it delays the rise,
// and costs no second level.
//
// The accuracy that regains a lost level is less than the one that pays, about half: otherwise
// one stretch of harm would permanently end prefetching that pays as long as there is none. It
// is more than the accuracy that keeps a level, so that the level does not oscillate.
type throttle struct {
	event      record.Event // what its events have in common: the session or the host
	level      int
	generation int     // number of changes
	labels     int     // in this generation
	weight     float64 // decayed sum of these labels
	used       float64 // of that: used prefetches
	late       float64 // of that: called before the answer arrived
	calm       int     // labels until harm is forgotten
	harmed     bool    // harm since the last start
}

// started records the start of a prefetch.
func (t *throttle) started() { t.harmed = false }

// label records the outcome of a prefetch of a generation.
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

// falls reports whether the accuracy is too low, and would be even if the next prefetch were used.
// With few labels, one label is worth as much as the distance between falling and rising.
func (t *throttle) falls() bool { return (t.used*decay+1)/(t.weight*decay+1) < fallBelow }

// rises reports whether a higher level is earned.
func (t *throttle) rises() bool {
	accuracy := t.used / t.weight
	if t.level < Normal {
		return accuracy >= riseFrom
	}
	return accuracy > riseAbove && t.late > lateShare*t.used
}

// harm records harm done by a prefetch.
func (t *throttle) harm() {
	t.calm = calmLabels
	if !t.harmed {
		t.harmed = true
		t.move(t.level - 1)
	}
}

// move changes the level, if there is such a level.
func (t *throttle) move(to int) {
	if to < shadowOnly || to > eager {
		return
	}
	t.level = to
	t.generation++
	t.labels, t.weight, t.used, t.late = 0, 0, 0, 0
}

// at returns how many slots a session may take at a level. At level 0 it is the number of
// shadows: the prefetches that level 1 would start decide when level 0 is left.
func (o Slots) at(level int) int {
	switch level {
	case shadowOnly, single:
		return 1
	case half:
		return max(1, o.PerSession/2)
	}
	return o.PerSession
}

// wasteFactorAt returns the weight of a wasted prefetch at a level.
func wasteFactorAt(level int) float64 { return [...]float64{4, 4, 2, 1, 0.5}[level] }
