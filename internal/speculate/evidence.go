package speculate

import (
	"math"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
)

// Concurrency is how an upstream works on the calls that it has at the same time.
type Concurrency int

const (
	Unknown  Concurrency = iota // nothing seen that would tell
	Serial                      // one after the other
	Parallel                    // side by side
)

var concurrencyNames = [...]string{"unknown", "serial", "parallel"}

func (c Concurrency) String() string { return concurrencyNames[c] }

// Known is what was found out of how an upstream works on several calls. It is kept when
// its instances have ended, for a short session sees too little to be sure.
type Known struct {
	Is               Concurrency
	Parallel, Serial float64 // pieces of evidence, the older ones counting less
}

// believed is what counts for what is known beforehand.
func presumedKnown(is Concurrency) Known {
	switch is {
	case Parallel:
		return Known{is, presumed, 0}
	case Serial:
		return Known{is, 0, presumed}
	}
	return Known{}
}

// kept is what the next instance is to know of it.
func (k Known) toStored() predict.Concurrency {
	if k.Is != Unknown {
		k = presumedKnown(k.Is)
	}
	return predict.Concurrency{Parallel: k.Parallel, Serial: k.Serial}
}

// asKept is what was kept. What could not have been counted says nothing.
func fromStored(c predict.Concurrency) (k Known) {
	if c.Parallel >= 0 && c.Serial >= 0 && c.Parallel+c.Serial <= maxEvidence {
		k.Parallel, k.Serial = c.Parallel, c.Serial
		k.decide()
	}
	return k
}

// What the evidence is weighed by.
const (
	evidenceDecay = 0.9  // what a piece of evidence counts after the next one: about ten count
	sure          = 0.75 // how likely an instance must be one thing to be called that: three pieces of evidence, if none is against it
	unsure        = 0.6  // below which it is called that no longer
	presumed      = 3    // pieces of evidence that count for what is known beforehand

	maxEvidence    = 1 / (1 - evidenceDecay) // that there can be
	minLogRatio    = 1                       // log-likelihood ratio that makes a piece of evidence
	priorVariance  = 0.1                     // variance of a tool's times, as logarithms, before any is known: about a third
	steadyVariance = 0.03                    // below which its times are about the same: at least three were
	maxTools       = 64                      // tools whose times are remembered
)

// evidence tells whether an instance works on one call after the other.
//
// The one idea: two clocks try to explain how long a call took that was not alone. If calls
// are worked on side by side it took what its tool usually takes from when it was sent; if
// one after the other, from when another call last ended. What is usual is told by calls
// that found the instance idle. The clock that is nearer to it, by a clear ratio of
// likelihoods, is a piece of evidence. So is a call that ends before an older one that found
// the instance idle. A Beta posterior with decay joins the pieces.
type evidence struct {
	known      Known
	outOfOrder bool                                 // a call has ended before an older one that the instance was at
	tools      *simplelru.LRU[string, *serviceTime] // tool → how long it takes
}

// pace is how long calls of a tool take that find the instance idle: mean and variance of
// logarithms of seconds, the later calls counting more, so that one slow call in a few does
// not matter.
type serviceTime struct {
	n              int
	mean, variance float64
}

func newEvidence() evidence {
	tools, _ := simplelru.NewLRU[string, *serviceTime](maxTools, nil) // an error: no size
	return evidence{tools: tools}
}

// learn takes note of a call that has returned, and says how long it has waited for
// prefetches, as far as the instance works on one call after the other.
func (i *instance) learn(r *Run, now time.Time) (wait time.Duration) {
	took, after := now.Sub(r.began), now.Sub(later(r.began, r.ended))
	usual := i.usual(r.tool)
	said := Unknown
	switch {
	case r.ambiguous:
	case r.idle:
		i.serviceTime(r.tool).add(logarithm(took))
	default:
		said = i.classify(r, took, after, usual)
		i.add(said)
	}
	wait = took - after // until the last one ended that was there before
	if r.ambiguous && usual > 0 {
		if wait = took - usual; wait < usual/2 { // it may be that the call itself took longer
			return 0
		}
	}
	serial := i.known.Is == Serial && said != Parallel
	if i.known.Is == Unknown && i.known.Parallel == 0 { // what is clear counts before it is known
		serial = r.ambiguous || said == Serial && i.serviceTime(r.tool).variance < steadyVariance
	}
	if r.prefetch || !serial {
		return 0
	}
	return min(wait, i.prefetchTime-r.prefetchTime)
}

// judge says what the time tells of a call that had the instance not to itself.
func (i *instance) classify(r *Run, took, after, usual time.Duration) Concurrency {
	if usual == 0 {
		return Unknown
	}
	if oldest := i.oldest(); oldest != nil && oldest.idle && oldest.began.Before(r.began) && took >= usual/2 { // a quicker one may be no more than a refusal
		i.outOfOrder = true
		return Parallel
	}
	p := i.serviceTime(r.tool)
	line, side := logarithm(after)-p.mean, logarithm(took)-p.mean
	switch ratio := (line*line - side*side) / (2 * p.variance); {
	case ratio > minLogRatio:
		return Parallel
	case ratio < -minLogRatio:
		return Serial
	}
	return Unknown
}

// oldest is the oldest call under way; nil: there is none.
func (i *instance) oldest() *Run {
	for _, r := range i.calls {
		if r.until.IsZero() {
			return r
		}
	}
	return nil
}

// presume takes as known what was found out elsewhere, unless something has been seen
// here. Where that was sure, two pieces of evidence turn it; where not, it adds up. A usual
// time counts as one call: calls elsewhere may have waited for others.
func (e *evidence) presume(k Known, usual map[string]enrich.Percentiles) {
	for tool, took := range usual {
		if !e.tools.Contains(tool) {
			e.tools.Add(tool, &serviceTime{n: 1, mean: logarithm(took.P50), variance: max(priorVariance, variance(took))})
		}
	}
	if e.known == (Known{}) {
		e.known = k
		if k.Is != Unknown {
			e.known = presumedKnown(k.Is)
		}
	}
}

// note takes a piece of evidence, and decides.
func (e *evidence) add(said Concurrency) {
	if said == Unknown {
		return
	}
	k := &e.known
	k.Parallel, k.Serial = k.Parallel*evidenceDecay, k.Serial*evidenceDecay
	if said == Serial {
		k.Serial++
	} else {
		k.Parallel++
	}
	if k.decide(); 1-k.mean() >= sure {
		e.outOfOrder = false
	}
}

// decide says what an instance is by the evidence.
func (k *Known) decide() {
	switch p := k.mean(); {
	case p >= sure:
		k.Is = Parallel
	case 1-p >= sure:
		k.Is = Serial
	case k.Is == Parallel && p < unsure, k.Is == Serial && 1-p < unsure:
		k.Is = Unknown
	}
}

// mean is how likely the instance works side by side: of Beta(1+parallel, 1+serial).
func (k Known) mean() float64 { return (k.Parallel + 1) / (k.Parallel + k.Serial + 2) }

// pace returns what is known of a tool.
func (e *evidence) serviceTime(tool string) *serviceTime {
	p, ok := e.tools.Get(tool)
	if !ok {
		p = &serviceTime{variance: priorVariance}
		e.tools.Add(tool, p)
	}
	return p
}

// add adds a time.
func (p *serviceTime) add(x float64) {
	p.n++
	off, n := x-p.mean, float64(min(p.n, 8))
	if p.n == 1 {
		off = 0
		p.mean = x
	}
	p.mean += off / n
	p.variance = max(priorVariance/10, p.variance+(off*off-p.variance)/(n+1))
}

// usual is how long a tool takes if it need not wait; 0: not known.
func (e *evidence) usual(tool string) time.Duration {
	if p := e.serviceTime(tool); p.n > 0 {
		return time.Duration(math.Exp(p.mean) * float64(time.Second))
	}
	return 0
}

// variance is that of the logarithms of times of which eight in ten lie between two
// percentiles, as far as they are distributed normally.
func variance(s enrich.Percentiles) float64 {
	deviation := (logarithm(s.P90) - logarithm(s.P10)) / 2.56
	return deviation * deviation
}

// logarithm is of seconds.
func logarithm(d time.Duration) float64 { return math.Log(max(d, time.Microsecond).Seconds()) }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
