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

// hidden is the expected time that an early call hides: its latency, or the lead
// if that is shorter, in ms. Both are taken to be independent, and each to be one
// of its three percentiles.
func hidden(latency, lead Spread) float64 {
	ls, ds := latency.times(), lead.times()
	sum := 0.0
	for i, l := range ls {
		for k, d := range ds {
			sum += weights[i] * weights[k] * milliseconds(max(min(l, d), 0))
		}
	}
	return sum
}

// Mean is the expected time.
func (s Spread) Mean() time.Duration {
	sum := 0.0
	for i, t := range s.times() {
		sum += weights[i] * float64(t)
	}
	return time.Duration(sum)
}

func (s Spread) times() [3]time.Duration { return [3]time.Duration{s.P10, s.P50, s.P90} }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// bet is what making one call is expected to bring.
type bet struct {
	hides  float64 // ms of waiting if it is asked for
	wastes float64 // ms of hidden waiting that would make up for it if it is not
}

func (c *Candidate) bet(o *Options) bet {
	latency, lead := c.Latency, c.Lead
	if latency == (Spread{}) {
		latency = Point(c.Model.Cost.Latency)
	}
	if lead == (Spread{}) {
		lead = Point(o.Think)
	}
	caution := c.Caution
	if !(caution > 0) {
		caution = 1
	}
	return bet{hides: hidden(latency, lead), wastes: caution * (milliseconds(o.Waste) + c.price(o))}
}

// price is what the call's dollars are worth, in ms of hidden waiting.
func (c *Candidate) price(o *Options) float64 {
	switch dollars := c.Model.Cost.Dollars; {
	case dollars <= 0:
		return 0
	case o.SecondWorth <= 0:
		return math.Inf(1)
	default:
		return dollars / o.SecondWorth * 1000
	}
}

// gain is what the bet is expected to bring in all, in ms. A used call costs no
// more than the same call made later.
func (b bet) gain(p float64) float64 { return p*b.hides - (1-p)*b.wastes }
