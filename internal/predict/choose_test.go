package predict_test

import (
	"mcpschedd/internal/call"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
)

// around is what only the user of a model knows of a candidate.
type around struct {
	Key       call.Key
	Reason    enrich.Reason // why it may not be made now; ""
	Caution   float64       // times what a wasted call costs; 0: 1
	FileBytes int           // of the file that it reads; 0: it reads none
}

// choose asks about each candidate that may be made and is likely enough, and picks.
func choose(candidates []predict.Candidate, ask func(g *predict.Candidate) around, o enrich.Options) (chosen []predict.Candidate, all []enrich.Candidate) {
	all = make([]enrich.Candidate, len(candidates))
	for i := range candidates {
		g := &candidates[i]
		// A call that is not asked about is told apart by what it is alone.
		all[i] = g.Candidate
		if g.Reason != "" && g.Reason != enrich.Shadow || !(g.P >= o.MinProbability) {
			continue
		}
		w, c := ask(g), &all[i]
		if w.Key != (call.Key{}) { // there is none for what cannot be made
			c.Key = w.Key
		}
		if w.Reason != "" {
			c.Reason = w.Reason
		}
		c.WasteFactor, c.FileBytes = w.Caution, w.FileBytes
	}
	for _, i := range enrich.Pick(all, o) {
		chosen = append(chosen, candidates[i])
	}
	return chosen, all
}
