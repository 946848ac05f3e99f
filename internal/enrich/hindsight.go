package enrich

import "mcpschedd/internal/schedule"

// Outcome is what became of one candidate of a selection.
type Outcome struct {
	HiddenMS float64 // time that its prefetch hid, or would have hidden: the shorter of latency and lead; negative and NaN count as 0
	Tokens   int     // actual or expected size of its result; negative counts as 0
	Called   bool    // the client made the call while the result could be served
	Issued   bool    // the prefetch was started
	Barred   bool    // a rule forbids it, so that no selection could contain it
}

// Bounds are the limits under which a selection was made.
type Bounds struct {
	Budget int // tokens; zero admits only free candidates
	Slots  int // calls that could start
}

const maxHiddenMS = 1e99 // bounds sums to values that package schedule accepts

// Hindsight returns the time that the best selection under the same bounds would have
// hidden, and the time that the actual one hid, both in ms. Their difference is the
// regret. Wasted prefetches took slots and tokens from the actual selection; the best
// selection has none.
//
// The best selection is exact to within rounding (see [schedule.Select]). It hides at
// least as much as the actual one, unless that one exceeded the bounds or started a barred
// candidate: its hidden time counts in full even then.
func Hindsight(all []Outcome, b Bounds) (bestMS, achievedMS float64) {
	var items []schedule.Item // candidates that a selection could contain
	keeps, slots, tokens := true, b.Slots, b.Budget
	for _, c := range all {
		if !c.Called || !(c.HiddenMS > 0) {
			continue
		}
		hides, cost := min(c.HiddenMS, maxHiddenMS), max(c.Tokens, 0)
		if !c.Barred {
			items = append(items, schedule.Item{Value: hides, Cost: cost})
		}
		if c.Issued {
			achievedMS += hides
			slots--
			tokens = max(tokens, -1) - min(cost, b.Budget+1)
			keeps = keeps && !c.Barred && slots >= 0 && tokens >= 0
		}
	}
	if b.Slots > 0 {
		bestMS = schedule.Select(items, schedule.Limits{Budget: b.Budget, Count: b.Slots}).Value
	}
	if keeps {
		bestMS = max(bestMS, achievedMS) // Select is exact only to within rounding and up to its size limit
	}
	return bestMS, achievedMS
}
