package replay

import (
	"time"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
)

// Decile is a line of the reliability table: calls by how likely they were when
// they were first thought of, and how many of them came while an answer fetched
// then could have been used.
type Decile struct {
	From     float64 `json:"from"` // probability
	N        int     `json:"n"`
	Expected float64 `json:"expected"` // mean probability; 0 without any
	Observed float64 `json:"observed"` // share that came
	sum      int64   // of probabilities, in units of 1e-9: their order makes no difference then
	came     int
}

func (d *Decile) add(p float64, came bool) {
	d.N++
	d.sum += int64(p * 1e9)
	if came {
		d.came++
	}
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

// scores keep what was thought of in a session until it is known whether it came.
type scores struct {
	p    *Player
	open map[exact]thought
}

// thought is when a call was first thought of, and how likely it was.
type thought struct {
	p    float64
	at   time.Duration
	turn int
}

func newScores(p *Player) scores { return scores{p: p, open: make(map[exact]thought)} }

// allowed reports whether rules allow a guess, though it may only be watched so far.
func allowed(g *predict.Candidate) bool { return g.Reason == "" || g.Reason == enrich.Shadow }

// thought notes the guesses that rules allow. What is open already keeps what was
// first thought of it.
func (s *scores) thought(t *table, guesses []predict.Candidate) {
	for c, th := range s.open {
		if !s.usable(t, th) {
			s.settle(c, th, false)
		}
	}
	for i := range guesses {
		g := &guesses[i]
		c := exact{g.Key.Tool, g.Key.Arguments}
		if _, known := s.open[c]; known || !allowed(g) {
			continue
		}
		s.open[c] = thought{g.P, t.now, t.turns}
	}
}

// usable reports whether an answer fetched then could still be used.
func (s *scores) usable(t *table, th thought) bool {
	if keep := s.p.o.KeepTurns; keep > 0 {
		return t.turns-th.turn <= keep
	}
	return t.now-th.at <= s.p.o.MaxAge
}

// asked notes a call that was made.
func (s *scores) asked(t *table, m *made) {
	if th, known := s.open[m.exact]; known {
		s.settle(m.exact, th, s.usable(t, th))
	}
}

// void notes a change.
func (s *scores) void(stale func(exact) bool) {
	for c, th := range s.open {
		if stale(c) {
			s.settle(c, th, false)
		}
	}
}

func (s *scores) end() {
	for c, th := range s.open {
		s.settle(c, th, false)
	}
}

func (s *scores) settle(c exact, th thought, came bool) {
	s.p.deciles[min(9, max(0, int(th.p*10)))].add(th.p, came)
	delete(s.open, c)
}
