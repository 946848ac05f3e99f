package enrich

import (
	"math"
	"time"
)

// Percentiles describes a duration that varies. The zero value means unknown.
type Percentiles struct{ P10, P50, P90 time.Duration }

// Fixed returns the percentiles of a constant duration.
func Fixed(d time.Duration) Percentiles { return Percentiles{d, d, d} }

// weights of the 10th, 50th and 90th percentile in a mean, by Swanson's rule. It is
// accurate enough for skewed distributions such as latencies and pauses.
var weights = [3]float64{0.3, 0.4, 0.3}

func (s Percentiles) values() [3]time.Duration { return [3]time.Duration{s.P10, s.P50, s.P90} }

// Mean returns the expected duration.
func (s Percentiles) Mean() time.Duration {
	sum := 0.0
	for i, t := range s.values() {
		sum += weights[i] * float64(t)
	}
	return time.Duration(sum)
}

// Overlap returns the expected shorter one of two durations. It assumes that they are
// independent, and that each takes only the values of its three percentiles.
func (s Percentiles) Overlap(with Percentiles) time.Duration {
	sum := 0.0
	for i, a := range s.values() {
		for k, b := range with.values() {
			sum += weights[i] * weights[k] * float64(max(min(a, b), 0))
		}
	}
	return time.Duration(sum)
}

// Excess returns by how much the duration is expected to exceed other; a shorter one
// counts as 0.
func (s Percentiles) Excess(other Percentiles) time.Duration { return s.Mean() - s.Overlap(other) }

// Minus returns the percentiles of what remains after d has passed.
func (s Percentiles) Minus(d time.Duration) Percentiles {
	return Percentiles{max(s.P10-d, 0), max(s.P50-d, 0), max(s.P90-d, 0)}
}

// hiddenMS returns the expected waiting time in ms that the prefetch hides if it is used:
// the shorter of latency and lead.
func (c *Candidate) hiddenMS(o *Options) float64 {
	latency, lead := c.Latency, c.Lead
	if latency == (Percentiles{}) {
		latency = Fixed(c.Model.Cost.Latency)
	}
	if lead == (Percentiles{}) {
		lead = Fixed(o.DefaultLead)
	}
	return milliseconds(latency.Overlap(lead))
}

// wasteMS returns the cost of the prefetch if it is not used, in ms of hidden time. A
// used prefetch costs nothing: the client would have made the same call later.
func (c *Candidate) wasteMS(o *Options) float64 {
	ms := milliseconds(o.Waste)
	if dollars := c.Model.Cost.Dollars; dollars > 0 && o.SecondWorth > 0 {
		ms += dollars / o.SecondWorth * 1000
	} else if dollars > 0 {
		ms = math.Inf(1)
	}
	if c.WasteFactor > 0 {
		ms *= c.WasteFactor
	}
	return ms
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
