package speculate

import (
	"math"
	"time"

	"mcpschedd/internal/predict"
)

// Concurrency is whether an upstream handles concurrent calls serially or in parallel.
type Concurrency int

const (
	Unknown  Concurrency = iota // not enough evidence
	Serial                      // one after the other
	Parallel                    // several at once
)

// Weights and thresholds of the evidence.
const (
	evidenceDecay = 0.9  // per piece of evidence, so that about ten count
	sure          = 0.75 // probability from which an upstream is Serial or Parallel: after three pieces
	unsure        = 0.6  // probability below which it no longer is
	presumed      = 3    // pieces of evidence from earlier that count: the server may have changed

	minLogRatio    = 1    // log-likelihood ratio that makes a piece of evidence
	priorVariance  = 0.1  // of the logarithm of a latency, before any sample
	steadyVariance = 0.03 // below it a latency is steady; takes three samples
	maxTools       = 64   // tools with a service time
)

// estimate says whether an upstream handles calls serially, judged by the calls of all its instances.
//
// Calls that found their instance idle give the usual service time of their tool. Any other call
// compares two models: if calls run in parallel, that time has passed since the call was sent; if
// they run serially, since another call last ended. The model that is closer, by a clear
// likelihood ratio, gets a piece of evidence. A call that ends before an older one that found the
// instance idle is evidence too. A Beta posterior with decay combines the pieces.
type estimate struct {
	evidence    predict.ConcurrencyEvidence // outlives the process, as a short session sees too little to be sure
	concurrency Concurrency
	outOfOrder  bool                    // a call ended before an older one that its instance had started
	tools       map[string]*serviceTime // tool → its service time
}

// serviceTime is the mean and variance of the logarithm, in seconds, of the latency of a tool's
// calls that find their instance idle. Later calls count more, so that one slow call in a few does
// not matter.
type serviceTime struct {
	n              int
	mean, variance float64
}

func newEstimate() *estimate { return &estimate{tools: make(map[string]*serviceTime)} }

// presume sets the evidence from an earlier process, unless there is newer evidence.
func (e *estimate) presume(learned predict.ConcurrencyEvidence) {
	if e.evidence == (predict.ConcurrencyEvidence{}) {
		weight := min(1, presumed/max(learned.Parallel+learned.Serial, 1))
		e.evidence = predict.ConcurrencyEvidence{Parallel: weight * learned.Parallel, Serial: weight * learned.Serial}
		e.decide()
	}
}

// learn records a call that has returned. It returns how long the call waited for prefetches, if
// the upstream is serial, or may be by the clear evidence of this call.
func (i *instance) learn(r *Run, now time.Time) (wait time.Duration) {
	took, sinceOther := now.Sub(r.began), now.Sub(later(r.began, r.otherEnded))
	usual := i.usual(r.tool)
	shown := Unknown
	switch {
	case r.ambiguous:
	case r.foundIdle:
		i.serviceTime(r.tool).add(logarithm(took))
	default:
		shown = i.classify(r, took, sinceOther, usual)
		i.add(shown)
	}
	wait = took - sinceOther // until the last earlier call ended
	if r.ambiguous && usual > 0 {
		if wait = took - usual; wait < usual/2 { // the call itself may have been slow
			return 0
		}
	}
	serial := i.concurrency == Serial && shown != Parallel
	if i.concurrency == Unknown && i.evidence.Parallel == 0 { // clear evidence counts before the estimate is sure
		serial = r.ambiguous || shown == Serial && i.serviceTime(r.tool).variance < steadyVariance
	}
	if r.claim != nil || !serial {
		return 0
	}
	return min(wait, i.prefetchTime-r.prefetchTime)
}

// classify returns what the latency of a call shows that did not find the instance idle.
func (i *instance) classify(r *Run, took, sinceOther, usual time.Duration) Concurrency {
	if usual == 0 {
		return Unknown
	}
	refusal := took < usual/2 // perhaps
	if oldest := i.oldest(); oldest != nil && oldest.foundIdle && oldest.began.Before(r.began) && !refusal {
		i.outOfOrder = true
		return Parallel
	}
	p := i.serviceTime(r.tool)
	serialError, parallelError := logarithm(sinceOther)-p.mean, logarithm(took)-p.mean
	switch ratio := (serialError*serialError - parallelError*parallelError) / (2 * p.variance); {
	case ratio > minLogRatio:
		return Parallel
	case ratio < -minLogRatio:
		return Serial
	}
	return Unknown
}

// add adds a piece of evidence and updates the estimate.
func (e *estimate) add(piece Concurrency) {
	if piece == Unknown {
		return
	}
	evidence := &e.evidence
	evidence.Parallel, evidence.Serial = evidence.Parallel*evidenceDecay, evidence.Serial*evidenceDecay
	if piece == Serial {
		evidence.Serial++
	} else {
		evidence.Parallel++
	}
	e.decide()
	if e.concurrency == Serial {
		e.outOfOrder = false
	}
}

func (e *estimate) decide() {
	switch p := e.parallel(); {
	case p >= sure:
		e.concurrency = Parallel
	case 1-p >= sure:
		e.concurrency = Serial
	case e.concurrency == Parallel && p < unsure, e.concurrency == Serial && 1-p < unsure:
		e.concurrency = Unknown
	}
}

// parallel is the probability of Parallel: the mean of Beta(1+parallel, 1+serial).
func (e *estimate) parallel() float64 {
	return (e.evidence.Parallel + 1) / (e.evidence.Parallel + e.evidence.Serial + 2)
}

// serviceTime returns the service time of a tool.
func (e *estimate) serviceTime(tool string) *serviceTime {
	p := e.tools[tool]
	if p == nil {
		if len(e.tools) >= maxTools {
			clear(e.tools) // learned again within a few calls
		}
		p = &serviceTime{variance: priorVariance}
		e.tools[tool] = p
	}
	return p
}

// add adds a sample.
func (p *serviceTime) add(x float64) {
	p.n++
	if p.n == 1 {
		p.mean = x
	}
	delta, n := x-p.mean, float64(min(p.n, 8))
	p.mean += delta / n
	p.variance = max(priorVariance/10, p.variance+(delta*delta-p.variance)/(n+1))
}

// usual returns the latency of a tool without waiting; 0 if unknown.
func (e *estimate) usual(tool string) time.Duration {
	if p := e.serviceTime(tool); p.n > 0 {
		return time.Duration(math.Exp(p.mean) * float64(time.Second))
	}
	return 0
}

// logarithm is of the duration in seconds.
func logarithm(d time.Duration) float64 { return math.Log(max(d, time.Microsecond).Seconds()) }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
