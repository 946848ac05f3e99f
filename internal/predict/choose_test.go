package predict_test

import (
	"mcpschedd/internal/call"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
)

// around is what the caller of the package knows about a candidate.
type around struct {
	Key     call.Key
	Reason  enrich.Reason // why it must not be prefetched now; "" if it may be
	Caution float64       // factor of the cost of waste; 0 means 1
}

// choose calls ask for each candidate that is not forbidden and probable enough, and picks.
func choose(candidates []predict.Candidate, ask func(g *predict.Candidate) around, o enrich.Options) (chosen []predict.Candidate, all []enrich.Candidate) {
	all = make([]enrich.Candidate, len(candidates))
	for i := range candidates {
		g := &candidates[i]
		all[i] = g.Candidate
		if g.Reason != "" && g.Reason != enrich.Shadow || !(g.P >= o.MinProbability) {
			continue
		}
		w, c := ask(g), &all[i]
		if w.Key != (call.Key{}) { // zero if the call cannot be made
			c.Key = w.Key
		}
		if w.Reason != "" {
			c.Reason = w.Reason
		}
		c.WasteFactor = w.Caution
	}
	for _, i := range enrich.Pick(all, o) {
		chosen = append(chosen, candidates[i])
	}
	return chosen, all
}
