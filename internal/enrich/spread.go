package enrich

import (
	"math"
	"time"
)

// Spread is what is known of a time that varies. The zero value is nothing.
type Spread struct{ P10, P50, P90 time.Duration }

// Point is the spread of a time that does not vary.
func Point(d time.Duration) Spread { return Spread{d, d, d} }

// weights are what the 10th, 50th and 90th percentile count for a mean: Swanson's
// rule, which is near enough for the skewed distributions that latencies and
// pauses have.
var weights = [3]float64{0.3, 0.4, 0.3}

func (s Spread) times() [3]time.Duration { return [3]time.Duration{s.P10, s.P50, s.P90} }

// Mean is the expected time.
func (s Spread) Mean() time.Duration {
	sum := 0.0
	for i, t := range s.times() {
		sum += weights[i] * float64(t)
	}
	return time.Duration(sum)
}

// Overlap is how much of two times that begin together is expected to pass in both: the
// shorter one. They are taken to be independent, and each to be one of its three
// percentiles.
func (s Spread) Overlap(with Spread) time.Duration {
	sum := 0.0
	for i, a := range s.times() {
		for k, b := range with.times() {
			sum += weights[i] * weights[k] * float64(max(min(a, b), 0))
		}
	}
	return time.Duration(sum)
}

// Beyond is how much of the time is expected to be left when the other is over that began
// with it.
func (s Spread) Beyond(other Spread) time.Duration { return s.Mean() - s.Overlap(other) }

// Less is what is left of the time after so much of it.
func (s Spread) Less(d time.Duration) Spread {
	return Spread{max(s.P10-d, 0), max(s.P50-d, 0), max(s.P90-d, 0)}
}

// hides is how many ms of waiting the call is expected to hide if it is asked for: its
// latency, or the lead if that is shorter.
func (c *Candidate) hides(o *Options) float64 {
	latency, lead := c.Latency, c.Lead
	if latency == (Spread{}) {
		latency = Point(c.Model.Cost.Latency)
	}
	if lead == (Spread{}) {
		lead = Point(o.Think)
	}
	return milliseconds(latency.Overlap(lead))
}

// wastes is how many ms of hidden waiting would make up for the call if it is not
// asked for. One that is asked for costs no more than the same call made later.
func (c *Candidate) wastes(o *Options) float64 {
	ms := milliseconds(o.Waste)
	if dollars := c.Model.Cost.Dollars; dollars > 0 && o.SecondWorth > 0 {
		ms += dollars / o.SecondWorth * 1000
	} else if dollars > 0 {
		ms = math.Inf(1)
	}
	if c.Caution > 0 {
		ms *= c.Caution
	}
	return ms
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
