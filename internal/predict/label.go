package predict

import "time"

// Bounds on what awaits its label.
const (
	maxSamples = 2048 // candidates of one session
	fewSamples = 4    // of one call, once there are many
)

// sample is a candidate as it was when it was thought of.
type sample struct {
	turn     int
	at       time.Time
	edge     edgeName // "" and "" if it was only proposed
	base     float64
	features []hash
	outcomes []*outcome
}

// outcome is what came of candidates that were looked at in the turn after the call
// that they follow.
type outcome struct{ right, of sum }

// label counts one outcome, the older ones less.
func (o *outcome) label(hit bool) {
	o.right.now *= remember
	o.of.now = o.of.now*remember + 1
	if hit {
		o.right.now++
	}
}

// mean is the share that was right, of which nothing is known to begin with.
func (o *outcome) mean(prior, worth float64) float64 {
	return (float64(o.right.now) + worth*prior) / (float64(o.of.now) + worth)
}

func (o outcome) plus(other outcome) outcome {
	return outcome{o.right.plus(other.right), o.of.plus(other.of)}
}

// outcomes are where the label of a new candidate counts for its templates' ranks.
func outcomes(c *candidate, again bool, turn int) (all []*outcome) {
	for i := range c.matches {
		if g := &c.matches[i]; !again && g.e.turn == turn {
			all = append(all, &g.t.ranks[min(g.rank, len(g.t.ranks)-1)])
		}
	}
	return all
}

// pending are the samples of one exact call, oldest first.
type pending struct {
	call      hash
	tool      string
	arguments string
	samples   []sample
}

// wait remembers a candidate until its label is known.
func (s *History) wait(c *candidate) {
	if s.samples >= maxSamples {
		return
	}
	p := s.pending[c.key]
	if p == nil {
		p = &pending{call: c.key, tool: c.tool, arguments: c.arguments}
		s.pending[c.key] = p
		s.waiting = append(s.waiting, p)
	}
	if s.samples > maxSamples/2 && len(p.samples) >= fewSamples {
		return // of answers that may be served for long, each call is looked at in many turns
	}
	p.samples = append(p.samples, c.sample)
	s.samples++
}

// confirm labels the candidates of a call that was made at a time. What was proposed
// has then come true, and is no candidate any more.
func (s *History) confirm(call hash, tool string, at time.Time) {
	for _, e := range s.events {
		for i := range e.proposals {
			e.proposals[i].made = e.proposals[i].made || e.proposals[i].call == call
		}
	}
	p := s.pending[call]
	if p == nil || len(p.samples) == 0 {
		return
	}
	if !at.IsZero() {
		s.m.tool(tool).lead.add(at.Sub(p.samples[0].at).Seconds())
	}
	for i := range p.samples {
		s.settle(&p.samples[i], !s.late(tool, &p.samples[i], at))
	}
	s.close(p)
	p.samples = nil
	delete(s.pending, call)
}

// Invalidate says that the answers of some calls, fetched before now, may not be
// served any more; nil: of all calls. The candidates among them that were not asked
// for were wrong, and what was proposed after one of them is forgotten. Templates go
// on reading such an answer: what a listing named before an edit is still what is
// looked at after it. On recorded coding sessions a tenth of what came true, and
// more of what was unlikely, was found that way.
func (s *History) Invalidate(stale func(tool, arguments string) bool) {
	s.invalidated = s.turn
	s.invalidations++
	for _, e := range s.events {
		if stale == nil || e.arguments == "" || stale(e.tool, e.arguments) {
			e.proposals = nil
		}
	}
	kept := s.waiting[:0]
	for _, p := range s.waiting {
		if stale != nil && !stale(p.tool, p.arguments) {
			kept = append(kept, p)
			continue
		}
		for i := range p.samples {
			s.settle(&p.samples[i], false)
		}
		if len(p.samples) > 0 {
			s.close(p)
		}
		if s.pending[p.call] == p {
			delete(s.pending, p.call)
		}
	}
	clear(s.waiting[len(kept):])
	s.waiting = kept
}

// expire labels the candidates that waited too long.
func (s *History) expire(now time.Time) {
	kept := s.waiting[:0]
	for _, p := range s.waiting {
		n := 0
		for n < len(p.samples) && s.late(p.tool, &p.samples[n], now) {
			s.settle(&p.samples[n], false)
			n++
		}
		if n > 0 && n == len(p.samples) {
			s.close(p)
		}
		if p.samples = p.samples[n:]; len(p.samples) > 0 {
			kept = append(kept, p)
		} else if s.pending[p.call] == p {
			delete(s.pending, p.call)
		}
	}
	clear(s.waiting[len(kept):])
	s.waiting = kept
}

// late reports whether the answer of a candidate would be too old by now; where no age
// is known, turns count.
func (s *History) late(tool string, k *sample, now time.Time) bool {
	if age := s.m.opt.MaxAge(tool); age > 0 {
		return now.Sub(k.at) > age
	}
	return s.turn-k.turn > s.m.opt.Turns+1
}

// close counts what became of a call that was foreseen, once, in however many turns
// it was.
func (s *History) close(p *pending) {
	t := s.m.tool(p.tool)
	t.labels.now++
	if k := &p.samples[len(p.samples)-1]; k.edge != (edgeName{}) && !s.m.opt.Static {
		s.m.edge(k.edge).label(s.m, k.edge)
	}
}

// settle gives a candidate of one turn its label.
func (s *History) settle(k *sample, hit bool) {
	s.samples--
	m := s.m
	if m.opt.Static {
		return
	}
	for _, o := range k.outcomes {
		o.label(hit)
	}
	m.weights.learn(k.base, k.features, hit)
}
