package predict

import "time"

const maxMarks = 4096 // candidates of one session that await their label

// mark is a candidate as it was when it was thought of.
type mark struct {
	turn     int
	at       time.Time
	edge     edgeName
	p        float64
	sets     [3]string // the weights that judged it
	contexts []hash    // in which its outcome counts
	proposed [2]hash   // and those of its proposal
	opinions [inputs]float64
}

// pending are the marks of one exact call, oldest first.
type pending struct {
	call      hash
	tool      string
	arguments string
	marks     []mark
}

// wait remembers a candidate until its label is known.
func (s *Session) wait(d *draft, k mark) {
	if s.marks >= maxMarks {
		return
	}
	p := s.pending[d.key]
	if p == nil {
		p = &pending{call: d.key, tool: d.tool, arguments: d.arguments}
		s.pending[d.key] = p
		s.waiting = append(s.waiting, p)
	}
	p.marks = append(p.marks, k)
	s.marks++
}

// confirm labels the candidates of a call that was made at a time.
func (s *Session) confirm(call hash, tool string, at time.Time) {
	p := s.pending[call]
	if p == nil {
		return
	}
	if len(p.marks) > 0 && !at.IsZero() {
		s.m.tool(tool).lead.add(at.Sub(p.marks[0].at).Seconds())
	}
	for i := range p.marks {
		s.settle(p, &p.marks[i], !s.late(&p.marks[i], at))
	}
	p.marks = nil
	delete(s.pending, call)
}

// Invalidate says that the answers of some calls, fetched before now, may not be
// served any more; nil: of all calls. The candidates among them that were not asked
// for were wrong, and what was proposed after one of them is forgotten.
func (s *Session) Invalidate(stale func(tool, arguments string) bool) {
	s.invalidated = s.turn
	s.invalidations++
	for _, e := range s.events {
		if stale == nil || stale(e.tool, e.arguments) {
			e.proposals = nil
		}
	}
	kept := s.waiting[:0]
	for _, p := range s.waiting {
		if stale != nil && !stale(p.tool, p.arguments) {
			kept = append(kept, p)
			continue
		}
		for i := range p.marks {
			s.settle(p, &p.marks[i], false)
		}
		if s.pending[p.call] == p {
			delete(s.pending, p.call)
		}
	}
	clear(s.waiting[len(kept):])
	s.waiting = kept
}

// expire labels the candidates that waited too long.
func (s *Session) expire(now time.Time) {
	kept := s.waiting[:0]
	for _, p := range s.waiting {
		n := 0
		for n < len(p.marks) && (s.turn-p.marks[n].turn > s.m.opt.Turns+1 || s.late(&p.marks[n], now)) {
			s.settle(p, &p.marks[n], false)
			n++
		}
		if p.marks = p.marks[n:]; len(p.marks) > 0 {
			kept = append(kept, p)
		} else if s.pending[p.call] == p {
			delete(s.pending, p.call)
		}
	}
	clear(s.waiting[len(kept):])
	s.waiting = kept
}

// late reports whether the answer of a candidate would be too old by now.
func (s *Session) late(k *mark, now time.Time) bool {
	return s.m.opt.MaxAge > 0 && now.Sub(k.at) > s.m.opt.MaxAge
}

// settle gives a candidate its label.
func (s *Session) settle(p *pending, k *mark, hit bool) {
	s.marks--
	m := s.m
	t := m.tool(p.tool)
	t.labels = t.labels.more()
	if m.opt.Static {
		return
	}
	if k.proposed[0] != 0 {
		m.counts.label(k.proposed[0], hit)
		m.counts.label(k.proposed[1], hit)
	}
	if len(k.contexts) == 0 {
		return // it was only proposed
	}
	for _, set := range k.sets {
		m.mixer(set).learn(&k.opinions, hit)
	}
	for _, h := range k.contexts {
		m.counts.label(h, hit)
	}
	m.edge(k.edge).label(m, k, hit)
}

// mixer are the weights of a set, for learning.
func (m *Model) mixer(set string) *weights {
	w := m.mixers[set]
	if w == nil {
		w = newWeights()
		if len(m.mixers) < maxMixers {
			m.mixers[set] = w
		}
	}
	return w
}
