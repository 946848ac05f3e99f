package speculate

import (
	"math"
	"slices"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Concurrency is how an upstream works on the calls that it has at the same time.
type Concurrency int

const (
	Unknown  Concurrency = iota // nothing seen that would tell; taken to be serial
	Serial                      // one after the other
	Parallel                    // side by side
)

var concurrencyNames = [...]string{"unknown", "serial", "parallel"}

func (l Concurrency) String() string { return concurrencyNames[l] }

const (
	mostRuns  = 64               // calls under way that are followed; of more, the latest
	afterlife = 10 * time.Second // of a call that was given up, where it is not known how long it takes
)

// estimate follows the calls of an upstream instance, and tells from them how it works
// on those that it has at the same time (evidence.go).
type estimate struct {
	evidence
	runs      []*run    // under way, oldest first
	abandoned *run      // a call that was given up
	until     time.Time // until then the upstream may be at it
	claims    []*claim  // of prefetches that hold a slot
}

// run is a call under way.
type run struct {
	id    uint64
	tool  string
	guess bool
	by    *claim // of the prefetch; one without host and session: not known
	began time.Time

	first bool      // it found the upstream idle
	cut   bool      // given up
	mixed bool      // with one that was given up, so that its time says nothing
	doubt bool      // with a prefetch that was given up
	last  time.Time // when another one ended last; zero: none did
	crowd bool      // more than prefetches that no call had joined ended meanwhile

	ahead  *claim        // of the last prefetch that it has waited for, if the upstream is serial
	waited time.Duration // for prefetches, likewise
}

func newEstimate() *estimate {
	l := &estimate{}
	l.tools, _ = simplelru.NewLRU[string, *pace](mostTools, nil) // an error: no size
	return l
}

// busy reports whether forgetting the estimate would lose what is under way.
func (l *estimate) busy() bool { return len(l.runs) > 0 || len(l.claims) > 0 }

// room is how many prefetches may be started: one at a time unless the upstream works
// in parallel, and none behind a real call of a serial one, for then the next real
// call finds it there.
func (l *estimate) room() int {
	if l.is == Parallel {
		return math.MaxInt
	}
	guesses := 0
	for _, r := range l.runs {
		if r.guess {
			guesses++
		} else if l.is == Serial {
			return 0
		}
	}
	return max(0, 1-max(guesses, len(l.claims)))
}

// begin notes a call that was sent.
func (l *estimate) begin(id uint64, tool string, guess bool, now time.Time) {
	l.remove(id) // none, unless its end was missed
	if len(l.runs) == mostRuns {
		l.remove(l.runs[0].id)
	}
	r := &run{id: id, tool: tool, guess: guess, began: now, first: len(l.runs) == 0}
	if !now.Before(l.until) {
		l.abandoned = nil
	} else if l.abandoned != nil { // nil: of two times told the earlier came later
		r.meet(l.abandoned)
	}
	for _, o := range l.runs {
		if o.cut {
			r.meet(o)
		}
	}
	if guess {
		r.by = l.unmatched(tool)
	}
	l.runs = append(l.runs, r)
}

// meet notes that r overlaps with a call that was given up.
func (r *run) meet(cut *run) {
	r.mixed = true
	if cut.unasked() {
		r.doubt, r.ahead = true, cut.by
	}
}

// unasked reports whether r is a prefetch, and not one that a real call has joined:
// a call that waits for it waits for a real call.
func (r *run) unasked() bool { return r.guess && !r.by.asked }

// unmatched is the claim of a prefetch that begins.
func (l *estimate) unmatched(tool string) *claim {
	for _, c := range l.claims {
		if !c.matched && c.key.Tool == tool {
			c.matched = true
			return c
		}
	}
	return &claim{}
}

// find returns the call of that id; nil if it is not under way.
func (l *estimate) find(id uint64) *run {
	if i := slices.IndexFunc(l.runs, func(r *run) bool { return r.id == id }); i >= 0 {
		return l.runs[i]
	}
	return nil
}

// remove takes a call out of those under way, and returns it.
func (l *estimate) remove(id uint64) *run {
	r := l.find(id)
	l.runs = slices.DeleteFunc(l.runs, func(o *run) bool { return o == r })
	if l.early.over == r {
		l.early = mark{}
	}
	return r
}

// cut notes that a call is given up: when it ends says nothing, and the upstream
// may be at it for longer.
func (l *estimate) cut(r *run) {
	r.cut = true
	for _, o := range l.runs {
		if o != r {
			o.meet(r)
		}
	}
}

// end notes that a call has ended. It returns how long it has waited for prefetches,
// and for which one last; nil: for none.
func (l *estimate) end(id uint64, now time.Time) (waited time.Duration, ahead *claim) {
	l.settleEarly(now)
	r := l.remove(id)
	if r == nil {
		return 0, nil
	}
	took, usual := max(0, now.Sub(r.began)), l.usual(r.tool)
	said := Unknown
	switch {
	case r.cut:
		l.abandon(r, usual, now)
	case r.mixed:
	case r.first:
		l.learn(r.tool, took)
	default:
		said = l.judge(r, took, usual, now)
		l.note(said)
	}
	l.tell(r, now)
	if r.guess || !l.serially(r, said, took, usual) {
		return 0, nil
	}
	likely, most := l.likely(r.tool)
	return r.wait(took, likely, most), r.ahead
}

// serially reports whether the upstream is taken to have worked on r after those before
// it. While it is not known how the upstream works and nothing spoke for parallel, one
// call that clearly waited is enough: one that said so, or, after a prefetch that was
// given up, one that took half as long again as usual.
func (l *estimate) serially(r *run, said Concurrency, took, usual time.Duration) bool {
	switch l.is {
	case Serial:
		return said != Parallel
	case Unknown:
		waited := said == Serial || r.doubt && usual > 0 && took > usual*3/2
		return waited && l.parallel == 0 && l.steady(r.tool)
	}
	return false
}

// wait is how long r has waited for prefetches. A serial upstream may have gone on
// with one that was given up: then it is what r took beyond its usual time, if that
// is clear. Where that is not known the best sign of it will do: that the upstream
// is serial is no longer in question.
func (r *run) wait(took, likely, most time.Duration) time.Duration {
	if r.doubt && likely > 0 && took >= most {
		return max(r.waited, took-likely)
	}
	return r.waited
}

// abandon notes until when the upstream may be at a call that was given up and has
// ended for us.
func (l *estimate) abandon(r *run, usual time.Duration, now time.Time) {
	until := now.Add(afterlife)
	if usual > 0 {
		until = r.began.Add(2 * usual)
	}
	if l.abandoned == nil || until.After(l.until) {
		l.abandoned, l.until = r, until
	}
}

// tell lets the others know that a call has ended.
func (l *estimate) tell(r *run, now time.Time) {
	start := later(r.began, r.last) // of the work on it, if the upstream is serial
	for _, o := range l.runs {
		if r.unasked() && !o.guess {
			o.waited += max(0, now.Sub(later(start, o.began)))
			o.ahead = r.by
		}
		o.crowd = o.crowd || !r.unasked()
		if !r.cut {
			o.last = now
		}
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
