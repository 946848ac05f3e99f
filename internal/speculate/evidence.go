package speculate

import (
	"math"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
)

// Concurrency is whether an upstream handles concurrent calls serially or in parallel.
type Concurrency int

const (
	Unknown  Concurrency = iota // no evidence
	Serial                      // one after the other
	Parallel                    // several at once
)

var concurrencyNames = [...]string{"unknown", "serial", "parallel"}

func (c Concurrency) String() string { return concurrencyNames[c] }

// Known is the estimated concurrency of an upstream. It outlives instances, as a short session sees
// too little to be sure.
type Known struct {
	Is               Concurrency
	Parallel, Serial float64 // pieces of evidence, older ones decayed
}

// presumedKnown is the evidence that stands for prior knowledge.
func presumedKnown(is Concurrency) Known {
	switch is {
	case Parallel:
		return Known{is, presumed, 0}
	case Serial:
		return Known{is, 0, presumed}
	}
	return Known{}
}

// toStored returns the estimate to store for the next instance.
func (k Known) toStored() predict.Concurrency {
	if k.Is != Unknown {
		k = presumedKnown(k.Is)
	}
	return predict.Concurrency{Parallel: k.Parallel, Serial: k.Serial}
}

// fromStored returns a stored estimate. It ignores values that are out of range.
func fromStored(c predict.Concurrency) (k Known) {
	if c.Parallel >= 0 && c.Serial >= 0 && c.Parallel+c.Serial <= maxEvidence {
		k.Parallel, k.Serial = c.Parallel, c.Serial
		k.decide()
	}
	return k
}

// Weights and thresholds of the evidence.
const (
	evidenceDecay = 0.9  // per piece of evidence, so that about ten count
	sure          = 0.75 // probability from which an instance is Serial or Parallel; three pieces of evidence if none is against it
	unsure        = 0.6  // probability below which it no longer is
	presumed      = 3    // pieces of evidence that prior knowledge counts as

	maxEvidence    = 1 / (1 - evidenceDecay) // the limit of the decayed sum
	minLogRatio    = 1                       // log-likelihood ratio that makes a piece of evidence
	priorVariance  = 0.1                     // variance of the logarithm of a tool's latency before any sample: a deviation of about a third
	steadyVariance = 0.03                    // variance below which a tool's latency is steady; it takes at least three samples
	maxTools       = 64                      // tools with a service time
)

// evidence estimates whether an instance is serial.
//
// It compares two models of how long a call took that had the instance not to itself. If calls
// run in parallel, the time since the call was sent is the tool's usual service time; if they run
// serially, the time since another call last ended is. Calls that found the instance idle give
// the usual service time. The model that is closer, by a clear likelihood ratio, gets a piece of
// evidence. A call that ends before an older one that found the instance idle is evidence too. A
// Beta posterior with decay combines the pieces.
type evidence struct {
	known      Known
	outOfOrder bool                                 // a call ended before an older one that the instance had started
	tools      *simplelru.LRU[string, *serviceTime] // tool → its service time
}

// serviceTime is the mean and variance of the logarithm, in seconds, of the latency of a tool's
// calls that find the instance idle. Later calls count more, so that one slow call in a few does
// not matter.
type serviceTime struct {
	n              int
	mean, variance float64
}

func newEvidence() evidence {
	tools, _ := simplelru.NewLRU[string, *serviceTime](maxTools, nil) // only a size below 1 is an error
	return evidence{tools: tools}
}

// learn records a call that has returned. It returns how long the call waited for prefetches, if
// the instance is serial.
func (i *instance) learn(r *Run, now time.Time) (wait time.Duration) {
	took, after := now.Sub(r.began), now.Sub(later(r.began, r.ended))
	usual := i.usual(r.tool)
	verdict := Unknown
	switch {
	case r.ambiguous:
	case r.idle:
		i.serviceTime(r.tool).add(logarithm(took))
	default:
		verdict = i.classify(r, took, after, usual)
		i.add(verdict)
	}
	wait = took - after // until the last earlier call ended
	if r.ambiguous && usual > 0 {
		if wait = took - usual; wait < usual/2 { // the call itself may have been slow
			return 0
		}
	}
	serial := i.known.Is == Serial && verdict != Parallel
	if i.known.Is == Unknown && i.known.Parallel == 0 { // clear evidence counts before the estimate is sure
		serial = r.ambiguous || verdict == Serial && i.serviceTime(r.tool).variance < steadyVariance
	}
	if r.prefetch || !serial {
		return 0
	}
	return min(wait, i.prefetchTime-r.prefetchTime)
}

// classify returns what the latency of a call says that had the instance not to itself.
func (i *instance) classify(r *Run, took, after, usual time.Duration) Concurrency {
	if usual == 0 {
		return Unknown
	}
	if oldest := i.oldest(); oldest != nil && oldest.idle && oldest.began.Before(r.began) && took >= usual/2 { // a shorter one may be a refusal
		i.outOfOrder = true
		return Parallel
	}
	p := i.serviceTime(r.tool)
	serialError, parallelError := logarithm(after)-p.mean, logarithm(took)-p.mean
	switch ratio := (serialError*serialError - parallelError*parallelError) / (2 * p.variance); {
	case ratio > minLogRatio:
		return Parallel
	case ratio < -minLogRatio:
		return Serial
	}
	return Unknown
}

// oldest returns the oldest call in progress, or nil.
func (i *instance) oldest() *Run {
	for _, r := range i.calls {
		if r.until.IsZero() {
			return r
		}
	}
	return nil
}

// presume sets prior knowledge from other instances, unless there is evidence from this one. If
// the prior was sure, two pieces of evidence overturn it; if not, evidence adds to it. A usual
// latency counts as one sample, as calls elsewhere may have waited for others.
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

// add adds a piece of evidence and updates the estimate.
func (e *evidence) add(piece Concurrency) {
	if piece == Unknown {
		return
	}
	k := &e.known
	k.Parallel, k.Serial = k.Parallel*evidenceDecay, k.Serial*evidenceDecay
	if piece == Serial {
		k.Serial++
	} else {
		k.Parallel++
	}
	if k.decide(); 1-k.mean() >= sure {
		e.outOfOrder = false
	}
}

// decide sets Is from the evidence.
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

// mean is the probability of Parallel: the mean of Beta(1+parallel, 1+serial).
func (k Known) mean() float64 { return (k.Parallel + 1) / (k.Parallel + k.Serial + 2) }

// serviceTime returns the service time of a tool.
func (e *evidence) serviceTime(tool string) *serviceTime {
	p, ok := e.tools.Get(tool)
	if !ok {
		p = &serviceTime{variance: priorVariance}
		e.tools.Add(tool, p)
	}
	return p
}

// add adds a sample.
func (p *serviceTime) add(x float64) {
	p.n++
	delta, n := x-p.mean, float64(min(p.n, 8))
	if p.n == 1 {
		delta = 0
		p.mean = x
	}
	p.mean += delta / n
	p.variance = max(priorVariance/10, p.variance+(delta*delta-p.variance)/(n+1))
}

// usual returns the latency of a tool without waiting; 0 if unknown.
func (e *evidence) usual(tool string) time.Duration {
	if p := e.serviceTime(tool); p.n > 0 {
		return time.Duration(math.Exp(p.mean) * float64(time.Second))
	}
	return 0
}

// variance estimates the variance of the logarithms from the 10th and 90th percentile, for a
// normal distribution of logarithms.
func variance(s enrich.Percentiles) float64 {
	deviation := (logarithm(s.P90) - logarithm(s.P10)) / 2.56
	return deviation * deviation
}

// logarithm is of the duration in seconds.
func logarithm(d time.Duration) float64 { return math.Log(max(d, time.Microsecond).Seconds()) }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
