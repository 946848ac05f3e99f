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
	from     *template // nil if it is configured
	base     float64
	features []hash
	logit    float64 // what these came to then
	ofValues float64 // and those of them that remember values
	outcomes []*outcome
}

// foreseen is the samples of one exact call, oldest first.
type foreseen struct {
	call      hash
	tool      string
	arguments string
	samples   []sample
}

// pending are the calls of a session that await their label.
type pending struct {
	of    map[hash]*foreseen // by call
	order []*foreseen        // the same, oldest first
	n     int                // samples of all of them
}

// wait remembers a candidate until its label is known. The calls of a turn are answered one
// after the other, and each answer has the candidates weighed anew: of a turn the last sample
// counts, since the time of the first. Of answers that may be served for long, each call is
// looked at in many turns: of many samples, only a few of each are kept.
func (s *Session) wait(c *candidate) {
	p := s.pending.of[c.key]
	if p != nil && p.samples[len(p.samples)-1].turn == s.turn {
		last := &p.samples[len(p.samples)-1]
		c.sample.at = last.at
		*last = c.sample
		return
	}
	if s.pending.n >= maxSamples || p != nil && s.pending.n > maxSamples/2 && len(p.samples) >= fewSamples {
		return
	}
	if p == nil {
		p = &foreseen{call: c.key, tool: c.tool, arguments: c.arguments}
		s.pending.of[c.key] = p
		s.pending.order = append(s.pending.order, p)
	}
	p.samples = append(p.samples, c.sample)
	s.pending.n++
}

// confirm labels the candidates of a call that was made. What was configured to follow
// has then come true, and is no candidate any more.
func (s *Session) confirm(e *event) {
	for _, known := range s.events {
		for i := range known.follows {
			g := &known.follows[i]
			g.over = g.over || g.t.Target == e.tool && g.arguments == e.arguments
		}
	}
	p := s.pending.of[e.call]
	if p == nil {
		return
	}
	if !e.at.IsZero() {
		s.m.learned.toolFor(e.tool).Lead.add(e.at.Sub(p.samples[0].at).Seconds())
	}
	s.settle(p, func(k *sample) (settled, hit bool) { return true, !s.late(e.tool, k, e.at) })
	s.sweep()
}

// Invalidate says that the answers of some calls, fetched before now, may not be
// served any more; nil: of all calls. The candidates among them that were not asked
// for were wrong, and what was configured to follow one of them is forgotten. Templates go
// on reading such an answer: what a listing named before an edit is still what is
// looked at after it. On recorded coding sessions a tenth of what came true, and
// more of what was unlikely, was found that way.
func (s *Session) Invalidate(stale func(tool, arguments string) bool) {
	s.invalidated = s.turn
	for _, e := range s.events {
		if stale == nil || e.arguments == "" || stale(e.tool, e.arguments) {
			e.follows = nil
		}
	}
	for _, p := range s.pending.order {
		if stale == nil || stale(p.tool, p.arguments) {
			s.settle(p, func(*sample) (settled, hit bool) { return true, false })
		}
	}
	s.sweep()
}

// expire labels the candidates that waited too long.
func (s *Session) expire(now time.Time) {
	for _, p := range s.pending.order {
		s.settle(p, func(k *sample) (settled, hit bool) { return s.late(p.tool, k, now), false })
	}
	s.sweep()
}

// late reports whether the answer of a candidate would be too old by now; where no age
// is known, turns count.
func (s *Session) late(tool string, k *sample, now time.Time) bool {
	if age := s.m.maxAge(tool); age > 0 {
		return now.Sub(k.at) > age
	}
	return s.turn-k.turn > s.m.opt.Turns+1
}

// settle gives the oldest candidates of a call their labels, as long as they are settled.
// A call that was foreseen in several turns counts once for its edge: with the last one.
func (s *Session) settle(p *foreseen, is func(*sample) (settled, hit bool)) {
	n := 0
	for ; n < len(p.samples); n++ {
		k := &p.samples[n]
		settled, hit := is(k)
		if !settled {
			break
		}
		if !s.m.opt.Learn {
			continue
		}
		for _, o := range k.outcomes {
			o.add(hit)
		}
		s.m.learned.weights.learn(label{k.base, k.features, hit, rate})
		s.m.learned.weights.learn(label{k.logit, memory(k.logit, k.ofValues), hit, memoryRate})
	}
	if n > 0 && n == len(p.samples) {
		s.m.learned.toolFor(p.tool).Labels.Now++
		if t := p.samples[n-1].from; t != nil && s.m.opt.Learn {
			t.labels.Now++
		}
	}
	s.pending.n -= n
	p.samples = p.samples[n:]
}

// sweep forgets the calls that have no candidates left.
func (s *Session) sweep() {
	kept := s.pending.order[:0]
	for _, p := range s.pending.order {
		if len(p.samples) > 0 {
			kept = append(kept, p)
		} else {
			delete(s.pending.of, p.call)
		}
	}
	clear(s.pending.order[len(kept):])
	s.pending.order = kept
}
