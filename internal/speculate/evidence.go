package speculate

import (
	"math"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// What a line goes by.
const (
	memory     = 0.9  // what a piece of evidence counts after the next one: about ten count
	sure       = 0.75 // how likely a line must be one thing to be called that: three pieces of evidence, if none is against it
	unsure     = 0.6  // below which it is called that no longer
	enoughIdle = 3    // calls of a tool that found the upstream idle, before its usual time is known
	enoughGap  = 8    // ends of a tool, before it is known which one comes soon after another
	soon       = 8    // so many times sooner
	mostTools  = 64   // tools whose time is remembered
)

// evidence tells whether an upstream works serially from how calls that overlap
// end.
//
//   - A call that found the upstream idle is worked on first. If a later one ends
//     clearly before it, they were worked on side by side.
//   - A call during which another one ended has waited for that if it took about its
//     usual time after that end and clearly more in all; and has not if it took its
//     usual time in all and ended soon after the other. Usual is what calls of the
//     tool take that find the upstream idle.
//   - Where so many share the upstream that it never is idle, calls were worked on
//     side by side if one overtakes another and ends much sooner after a third than
//     is usual. Working one by one, in whatever order, would space the ends.
//
// What lies between says nothing. A Beta posterior with decay joins what is said.
// It errs towards serial: if a serial upstream is taken for a parallel one real
// calls wait, the other way round only guesses are lost.
type evidence struct {
	is               Line
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
	others int     // other calls
	gap    float64 // mean of the time between the end before theirs, or their beginning, and theirs
}

// judge is what the end of a call says that did not find the upstream idle.
func (l *line) judge(r *run, took, usual time.Duration, now time.Time) Line {
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
	case usual == 0:
		return Unknown
	case took > usual*3/2 && after >= usual/2 && after <= usual*3/2:
		return Serial
	case took >= usual*3/4 && took <= usual*5/4 && after <= usual/2:
		return Parallel
	}
	return Unknown
}

// settleEarly counts an end before another one, once it is clear that it was.
func (l *line) settleEarly(now time.Time) {
	if l.early.over != nil && now.Sub(l.early.at) > l.early.margin {
		l.note(Parallel)
		l.early = mark{}
	}
}

// note takes a piece of evidence, and decides.
func (e *evidence) note(said Line) {
	if said == Unknown {
		return
	}
	e.parallel, e.serial = e.parallel*memory, e.serial*memory
	if said == Serial {
		e.serial++
	} else {
		e.parallel++
	}
	p := (e.parallel + 1) / (e.parallel + e.serial + 2) // mean of Beta(1+parallel, 1+serial)
	switch {
	case p >= sure:
		e.is = Parallel
	case 1-p >= sure:
		e.is = Serial
	case e.is == Parallel && p < unsure, e.is == Serial && 1-p < unsure:
		e.is = Unknown
	}
}

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
	p.usual += (logarithm(took) - p.usual) / float64(min(p.idle, 8))
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
	return time.Duration(math.Exp(p.usual) * float64(time.Second))
}

func logarithm(d time.Duration) float64 { return math.Log(max(d, time.Microsecond).Seconds()) }
