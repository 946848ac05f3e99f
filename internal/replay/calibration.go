package replay

import (
	"time"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
)

// Decile is a line of the reliability table: calls by how likely they were when
// they were first expected, and how many of them came while an answer fetched
// then could have been used.
type Decile struct {
	From     float64 `json:"from"` // probability
	N        int     `json:"n"`
	Expected float64 `json:"expected"` // mean probability; 0 without any
	Observed float64 `json:"observed"` // share that came
	sum      int64   // of probabilities, in units of 1e-9: their order makes no difference then
	came     int
}

// calibration is the table with its means.
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

// scores keep what was expected in a session until it is known whether it came.
type scores struct {
	p    *Player
	open map[exact]expected
}

// expected is when a call was first expected, and how likely it was.
type expected struct {
	p    float64
	at   time.Duration
	turn int
}

func newScores(p *Player) scores { return scores{p: p, open: make(map[exact]expected)} }

// found notes the candidates that rules allow, though they may only be watched so far. Of
// what is open already that stays which was first expected of it.
func (s *scores) found(t *playing, all []predict.Candidate) {
	for c, e := range s.open {
		if !s.usable(t, e) {
			s.close(c, e, false)
		}
	}
	for i := range all {
		g := &all[i]
		c := exact{g.Key.Tool, g.Key.Arguments}
		if _, known := s.open[c]; !known && (g.Reason == "" || g.Reason == enrich.Shadow) {
			s.open[c] = expected{g.P, t.now, t.turns}
		}
	}
}

// usable reports whether an answer fetched then could still be used.
func (s *scores) usable(t *playing, e expected) bool {
	if keep := s.p.o.KeepTurns; keep > 0 {
		return t.turns-e.turn <= keep
	}
	return t.now-e.at <= s.p.o.MaxAge
}

// asked notes a call that was made.
func (s *scores) asked(t *playing, m *made) {
	if e, known := s.open[m.exact]; known {
		s.close(m.exact, e, s.usable(t, e))
	}
}

// void notes a change.
func (s *scores) void(stale func(exact) bool) {
	for c, e := range s.open {
		if stale(c) {
			s.close(c, e, false)
		}
	}
}

func (s *scores) end() { s.void(func(exact) bool { return true }) }

func (s *scores) close(c exact, e expected, came bool) {
	d := &s.p.deciles[min(9, max(0, int(e.p*10)))]
	d.N++
	d.sum += int64(e.p * 1e9)
	if came {
		d.came++
	}
	delete(s.open, c)
}
