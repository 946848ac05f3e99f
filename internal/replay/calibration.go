package replay

import (
	"time"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
)

// Decile is a row of the reliability table: candidates by their probability when first
// predicted, and how many of them were called while an answer fetched then could have been
// used.
type Decile struct {
	From     float64 `json:"from"` // probability
	N        int     `json:"n"`
	Expected float64 `json:"expected"` // mean probability; 0 if N is 0
	Observed float64 `json:"observed"` // share that were called
	sum      int64   // sum of probabilities in units of 1e-9; unlike a sum of floats it does not depend on their order
	came     int     // number that were called
}

// calibration returns the reliability table.
func (p *Player) calibration() []Decile {
	var all []Decile
	for i, d := range p.deciles {
		d.From = float64(i) / 10
		if d.N > 0 {
			d.Expected, d.Observed = float64(d.sum)/1e9/float64(d.N), float64(d.came)/float64(d.N)
		}
		all = append(all, d)
	}
	return all
}

// scores holds the predicted calls of a session until it is known whether they were made.
type scores struct {
	p    *Player
	open map[callKey]expected
}

// expected is the first prediction of a call.
type expected struct {
	p  float64
	at time.Duration
}

func newScores(p *Player) scores { return scores{p: p, open: make(map[callKey]expected)} }

// observe adds the candidates that may be prefetched or are watched. A call that is open
// keeps its first prediction.
func (s *scores) observe(t *playback, all []predict.Candidate) {
	for c, e := range s.open {
		if !s.usable(t, e) {
			s.close(c, e, false)
		}
	}
	for i := range all {
		g := &all[i]
		c := callKey{g.Key.Tool, g.Key.Arguments}
		if _, known := s.open[c]; !known && (g.Reason == "" || g.Reason == enrich.Shadow) {
			s.open[c] = expected{g.P, t.now}
		}
	}
}

// usable reports whether an answer fetched at the time of the prediction could still be used.
func (s *scores) usable(t *playback, e expected) bool {
	return t.now-e.at <= s.p.o.MaxAge
}

// called scores a call that was made.
func (s *scores) called(t *playback, m *playedCall) {
	if e, known := s.open[m.callKey]; known {
		s.close(m.callKey, e, s.usable(t, e))
	}
}

// invalidate closes the predictions whose answers a change has made stale.
func (s *scores) invalidate(stale func(callKey) bool) {
	for c, e := range s.open {
		if stale(c) {
			s.close(c, e, false)
		}
	}
}

func (s *scores) end() { s.invalidate(func(callKey) bool { return true }) }

func (s *scores) close(c callKey, e expected, came bool) {
	d := &s.p.deciles[min(9, max(0, int(e.p*10)))]
	d.N++
	d.sum += int64(e.p * 1e9)
	if came {
		d.came++
	}
	delete(s.open, c)
}
