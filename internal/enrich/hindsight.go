package enrich

import (
	"slices"

	"mcpschedd/internal/schedule"
)

// Seen is a candidate of a choice once it is known what became of it.
type Seen struct {
	HidesMS float64 // what making it early would have hidden, or has: its latency, or the lead if that was shorter. Below 0, or no number: 0
	Tokens  int     // that its answer took, or was expected to take; below 0: 0
	Called  bool    // it was asked for while its answer could still stand in
	Issued  bool    // it was begun
	Key     int     // which call it is: candidates of the same key are forms of one call, which hides its waiting once
	Barred  bool    // some rule forbids it whatever it is worth, so that no choice could have had it
}

// Bounds are those that a choice was made under.
type Bounds struct {
	Budget int // tokens; 0: only what takes none
	Slots  int // calls that could be started; 0: none
}

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
	called := make([]Seen, 0, 8) // seldom more than three
	for _, c := range all {
		c.HidesMS, c.Tokens = countable(c.HidesMS), max(c.Tokens, 0)
		if c.Called && c.HidesMS > 0 {
			called = append(called, c)
		}
	}
	issued := forms(called, func(c *Seen) bool { return c.Issued })
	achievedMS, _ = value(issued)
	possible := forms(called, func(c *Seen) bool { return !c.Barred && c.Tokens <= b.Budget })
	bestMS, tokens := value(possible)
	if len(possible) > b.Slots || tokens > b.Budget {
		bestMS = search(called, b)
	}
	if b.allow(issued) {
		bestMS = max(bestMS, achievedMS) // the search is exact to within rounding, and up to its cap
	}
	return bestMS, achievedMS
}

const mostHidden = 1e99 // ms; beyond that sums are no longer items that schedule takes

// countable is a time as it may be added up.
func countable(ms float64) float64 {
	if !(ms > 0) {
		return 0
	}
	return min(ms, mostHidden)
}

// forms returns those that may be taken, of each call only the form that hides
// the most.
func forms(called []Seen, may func(*Seen) bool) []Seen {
	out := make([]Seen, 0, len(called))
	for i := range called {
		c := &called[i]
		if !may(c) {
			continue
		}
		same := slices.IndexFunc(out, func(o Seen) bool { return o.Key == c.Key })
		switch {
		case same < 0:
			out = append(out, *c)
		case c.HidesMS > out[same].HidesMS, c.HidesMS == out[same].HidesMS && c.Tokens < out[same].Tokens:
			out[same] = *c
		}
	}
	return out
}

// value is what a set hides, and the tokens that it takes: as many as there are at
// the most.
func value(set []Seen) (ms float64, tokens int) {
	for _, c := range set {
		ms += c.HidesMS
		if tokens += c.Tokens; tokens < 0 {
			tokens = int(^uint(0) >> 1)
		}
	}
	return ms, tokens
}

// allow reports whether a set could have been chosen.
func (b Bounds) allow(set []Seen) bool {
	_, tokens := value(set)
	return len(set) <= b.Slots && tokens <= b.Budget && !slices.ContainsFunc(set, func(c Seen) bool { return c.Barred })
}

// search is what the best set hides, where not all can be had.
func search(called []Seen, b Bounds) float64 {
	if b.Slots <= 0 {
		return 0
	}
	rows := make(map[int]int) // key → row
	var items []schedule.Item
	for _, c := range called {
		if c.Barred || c.Tokens > b.Budget {
			continue
		}
		if rows[c.Key] == 0 {
			rows[c.Key] = len(rows) + 1
		}
		items = append(items, schedule.Item{Value: c.HidesMS, Cost: c.Tokens, Row: rows[c.Key]})
	}
	return schedule.Select(items, schedule.Limits{Budget: b.Budget, Count: b.Slots}).Value
}
