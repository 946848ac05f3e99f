package enrich

import "mcpschedd/internal/schedule"

// Seen is a candidate of a choice once it is known what became of it.
type Seen struct {
	HidesMS float64 // what making it early would have hidden, or has: its latency, or the lead if that was shorter. Below 0, or no number: 0
	Tokens  int     // that its answer took, or was expected to take; below 0: 0
	Called  bool    // it was asked for while its answer could still stand in
	Issued  bool    // it was begun
	Barred  bool    // some rule forbids it whatever it is worth, so that no choice could have had it
}

// Bounds are those that a choice was made under.
type Bounds struct {
	Budget int // tokens; 0: only what takes none
	Slots  int // calls that could be started; 0: none
}

const mostHidden = 1e99 // ms; beyond that sums are no longer items that schedule takes

// Hindsight is what the best choice would have hidden under the same bounds, and
// what the one that was made has hidden, both in ms. The difference is the regret
// of not having known: a waste costs the choice that was made the slot and the
// tokens that it took, and the best one nothing, for it makes none.
//
// The best is that of all sets that keep the bounds, to within rounding (see
// [schedule.Select]), and not less than the achieved if what was issued keeps them
// too. What was issued beyond the bounds, or although it is barred, counts for the
// achieved all the same, which may then be more than the best.
func Hindsight(all []Seen, b Bounds) (bestMS, achievedMS float64) {
	var items []schedule.Item // calls that a choice could have had
	keeps, slots, tokens := true, b.Slots, b.Budget
	for _, c := range all {
		if !c.Called || !(c.HidesMS > 0) {
			continue
		}
		hides, cost := min(c.HidesMS, mostHidden), max(c.Tokens, 0)
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
		bestMS = max(bestMS, achievedMS) // the search is exact to within rounding, and up to its cap
	}
	return bestMS, achievedMS
}
