package speculate

import (
	"math"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// What an estimate goes by.
const (
	memory       = 0.9  // what a piece of evidence counts after the next one: about ten count
	sure         = 0.75 // how likely an upstream must be one thing to be called that: three pieces of evidence, if none is against it
	unsure       = 0.6  // below which it is called that no longer
	enoughIdle   = 3    // calls of a tool that found the upstream idle, before its usual time is known
	enoughGap    = 8    // ends of a tool, before it is known which one comes soon after another
	soon         = 8    // so many times sooner
	several      = 4    // times what was left that a call took which has stood in line behind a prefetch
	alike        = 2    // times as much, or as little, that is about the same
	presumed     = 3    // pieces of evidence that count for what is known beforehand
	steadySpread = 0.1  // mean distance of times from the usual, as logarithms, up to which they are about the same
	mostTools    = 64   // tools whose time is remembered
)

// evidence tells whether an upstream works serially from how calls that overlap
// end.
//
//   - A call that found the upstream idle is worked on first. If a later one ends
//     clearly before it, they were worked on side by side.
//   - A call during which another one ended has waited for that if it took about its
//     usual time after that end and clearly more in all; and has not if it took its
//     usual time in all and ended soon after the other. Usual is what calls of the
//     tool take that find the upstream idle. Where a prefetch is always under way when
//     a call comes, there are none of these, and less says that it has waited.
//   - Where so many share the upstream that it never is idle, calls were worked on
//     side by side if one overtakes another and ends much sooner after a third than
//     is usual. Working one by one, in whatever order, would space the ends.
//
// What lies between says nothing. A Beta posterior with decay joins what is said.
// It errs towards serial: if a serial upstream is taken for a parallel one real
// calls wait, the other way round only prefetches are lost.
type evidence struct {
	is               Concurrency
	parallel, serial float64                       // pieces, decayed
	tools            *simplelru.LRU[string, *pace] // tool → how long it takes
	early            mark                          // an end that may prove to be clearly before another
}

// mark is the end of a call before that of one that began before it.
type mark struct {
	over   *run // the other; nil: there is no mark
	at     time.Time
	margin time.Duration // by which the other must outlast it
}

// pace is how long calls of a tool take. Means are of logarithms of seconds, the
// later calls counting more: so one slow call in a few does not matter.
type pace struct {
	idle   int     // calls that found the upstream idle
	usual  float64 // mean of their time
	spread float64 // mean of how far it was from the usual before
	others int     // other calls
	gap    float64 // mean of the time between the end before theirs, or their beginning, and theirs
	stood  stand   // the last real call during which no other than prefetches ended
}

// stand is a call that may have stood in line behind a prefetch. Times are logarithms
// of seconds.
type stand struct {
	took float64 // in all
	left float64 // of that: after the prefetch's end
}

// judge is what the end of a call says that did not find the upstream idle.
func (l *estimate) judge(r *run, took, usual time.Duration, now time.Time) Concurrency {
	after := now.Sub(later(r.began, r.last))
	soon := l.learnGap(r.tool, after)
	margin := max(time.Millisecond, took/10)
	if len(l.runs) > 0 {
		oldest := l.runs[0]
		early := usual > 0 && oldest.first && took >= usual/2 || // a quicker one may be no more than a refusal
			usual == 0 && soon && r.began.Sub(oldest.began) > margin
		if early {
			l.early = mark{over: oldest, at: now, margin: margin}
			return Unknown
		}
	}
	switch {
	case usual == 0 && l.stood(r, took, after):
		return Serial
	case usual == 0:
		return Unknown
	case took > usual*3/2 && after >= usual/2 && after <= usual*3/2:
		return Serial
	case took >= usual*3/4 && took <= usual*5/4 && after <= usual/2:
		return Parallel
	}
	return Unknown
}

// stood reports whether a call whose usual time is not known yet has stood in line
// behind a prefetch: what it took was several times what was left of it after the
// prefetch's end, and that was about what the tool takes, as far as there is a sign of
// it. One call that found the upstream idle is such a sign, and then less is enough.
// Without one it is that the same was left the last time, when the call took clearly
// more or less in all: side by side it is the time in all that is the same, and a
// call ends now sooner and now later after another.
func (l *estimate) stood(r *run, took, after time.Duration) bool {
	if r.guess || r.ahead == nil || r.crowd {
		return false
	}
	p, now := l.pace(r.tool), stand{took: logarithm(took), left: logarithm(after)}
	last := p.stood
	p.stood = now
	long := took >= several*after
	switch {
	case p.idle > 0:
		return long && near(now.left, p.usual, alike) ||
			l.is != Parallel && now.took-p.usual >= math.Log(1.5) && near(now.left, p.usual, 1.25)
	case last == stand{}:
		return false
	}
	differ := 1.1 * math.Exp(math.Abs(now.left-last.left))
	return long && near(now.left, last.left, alike) && !near(now.took, last.took, differ)
}

// near reports whether two times, as logarithms, differ by no more than a factor.
func near(a, b, factor float64) bool { return math.Abs(a-b) <= math.Log(factor) }

// presume takes as known what was found out elsewhere, unless something has been
// seen here. Two pieces of evidence turn it.
func (e *evidence) presume(l Concurrency) {
	if e.parallel+e.serial > 0 {
		return
	}
	switch l {
	case Parallel:
		e.is, e.parallel = l, presumed
	case Serial:
		e.is, e.serial = l, presumed
	}
}

// settleEarly counts an end before another one, once it is clear that it was.
func (l *estimate) settleEarly(now time.Time) {
	if l.early.over != nil && now.Sub(l.early.at) > l.early.margin {
		l.note(Parallel)
		l.early = mark{}
	}
}

// note takes a piece of evidence, and decides.
func (e *evidence) note(said Concurrency) {
	if said == Unknown {
		return
	}
	e.parallel, e.serial = e.parallel*memory, e.serial*memory
	if said == Serial {
		e.serial++
	} else {
		e.parallel++
	}
	switch p := e.mean(); {
	case p >= sure:
		e.is = Parallel
	case 1-p >= sure:
		e.is = Serial
	case e.is == Parallel && p < unsure, e.is == Serial && 1-p < unsure:
		e.is = Unknown
	}
}

// mean is how likely the upstream is parallel: of Beta(1+parallel, 1+serial).
func (e *evidence) mean() float64 { return (e.parallel + 1) / (e.parallel + e.serial + 2) }

// pace returns what is known of a tool.
func (e *evidence) pace(tool string) *pace {
	p, ok := e.tools.Get(tool)
	if !ok {
		p = &pace{}
		e.tools.Add(tool, p)
	}
	return p
}

// learn notes how long a call took that found the upstream idle.
func (e *evidence) learn(tool string, took time.Duration) {
	p := e.pace(tool)
	p.idle++
	n, x := float64(min(p.idle, 8)), logarithm(took)
	if p.idle > 1 {
		p.spread += (math.Abs(x-p.usual) - p.spread) / n
	}
	p.usual += (x - p.usual) / n
}

// learnGap notes how long after another one a call has ended, and reports whether
// that was much sooner than is usual.
func (e *evidence) learnGap(tool string, after time.Duration) bool {
	p, x := e.pace(tool), logarithm(after)
	short := p.others >= enoughGap && x < p.gap-math.Log(soon)
	p.others++
	p.gap += (x - p.gap) / float64(min(p.others, 32))
	return short
}

// usual is how long a tool takes if it need not wait; 0: not known.
func (e *evidence) usual(tool string) time.Duration {
	p, ok := e.tools.Get(tool)
	if !ok || p.idle < enoughIdle {
		return 0
	}
	return duration(p.usual)
}

// steady reports whether calls of a tool that find the upstream idle take about the same
// time, as far as that is known: if they vary, one piece of evidence is no harm yet.
func (e *evidence) steady(tool string) bool {
	p, ok := e.tools.Get(tool)
	return !ok || p.idle < 2 || p.spread < steadySpread
}

// likely is how long a tool takes if it need not wait, by whatever sign of it there
// is (0: there is none), and from how long on it is clear that a call has waited:
// half as long again, or less where its times lie closer together.
func (e *evidence) likely(tool string) (likely, most time.Duration) {
	p, ok := e.tools.Get(tool)
	clearly := math.Log(1.5)
	switch {
	case !ok || p.idle == 0 && p.stood == stand{}:
		return 0, 0
	case p.idle == 0:
		return duration(p.stood.left), duration(p.stood.left + clearly)
	case p.idle >= enoughIdle:
		clearly = min(clearly, max(math.Log(1.1), 3*p.spread))
	}
	return duration(p.usual), duration(p.usual + clearly)
}

func duration(logarithm float64) time.Duration {
	return time.Duration(math.Exp(logarithm) * float64(time.Second))
}

// logarithm is of seconds.
func logarithm(d time.Duration) float64 { return math.Log(max(d, time.Microsecond).Seconds()) }
