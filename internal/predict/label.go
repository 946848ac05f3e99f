package predict

import "time"

const maxMarks = 2048 // candidates of one session that await their label

// mark is a candidate as it was when it was thought of.
type mark struct {
	turn     int
	at       time.Time
	edge     edgeName // "" and "" if it was only proposed
	p        float64  // without what was proposed
	sets     [sets]hash
	grounds  []reasoning
	contexts [lifts]hash
	expected [lifts]float32 // before each context
	opinions [inputs]float64
	step     hash    // in the calibration
	proposed [2]hash // where it counts that it was proposed
}

// reasoning is a ground as it was.
type reasoning struct {
	in    contextSet
	share float32 // of its list
}

// pending are the marks of one exact call, oldest first.
type pending struct {
	call      hash
	tool      string
	arguments string
	marks     []mark
}

// wait remembers a candidate until its label is known.
func (s *History) wait(d *draft) {
	if s.marks >= maxMarks {
		return
	}
	p := s.pending[d.key]
	if p == nil {
		p = &pending{call: d.key, tool: d.tool, arguments: d.arguments}
		s.pending[d.key] = p
		s.waiting = append(s.waiting, p)
	}
	p.marks = append(p.marks, d.mark)
	s.marks++
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
	if p == nil || len(p.marks) == 0 {
		return
	}
	if !at.IsZero() {
		s.m.tool(tool).lead.add(at.Sub(p.marks[0].at).Seconds())
	}
	for i := range p.marks {
		s.settle(&p.marks[i], !s.late(&p.marks[i], at))
	}
	s.close(p, !s.late(&p.marks[len(p.marks)-1], at))
	p.marks = nil
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
		for i := range p.marks {
			s.settle(&p.marks[i], false)
		}
		if len(p.marks) > 0 {
			s.close(p, false)
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
		for n < len(p.marks) && (s.turn-p.marks[n].turn > s.m.opt.Turns+1 || s.late(&p.marks[n], now)) {
			s.settle(&p.marks[n], false)
			n++
		}
		if n > 0 && n == len(p.marks) {
			s.close(p, false)
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
func (s *History) late(k *mark, now time.Time) bool {
	return s.m.opt.MaxAge > 0 && now.Sub(k.at) > s.m.opt.MaxAge
}

// close counts what became of a call that was foreseen, once, in however many turns
// it was.
func (s *History) close(p *pending, hit bool) {
	t := s.m.tool(p.tool)
	t.labels = t.labels.more()
	if k := &p.marks[len(p.marks)-1]; len(k.grounds) > 0 && !s.m.opt.Static {
		s.m.edge(k.edge).label(s.m, k, hit)
	}
}

// settle gives a candidate of one turn its label.
func (s *History) settle(k *mark, hit bool) {
	s.marks--
	m := s.m
	if m.opt.Static {
		return
	}
	for _, h := range k.proposed {
		if h != 0 {
			m.counts.label(h, hit, 1)
		}
	}
	if len(k.grounds) == 0 {
		return
	}
	for i := range k.grounds {
		k.grounds[i].in.label(m, k.grounds[i].share, hit)
	}
	for i, h := range k.contexts {
		m.counts.label(h, hit, k.expected[i])
	}
	for _, set := range k.sets {
		m.mixer(set).learn(&k.opinions, hit)
	}
	m.counts.label(k.step, hit, 1)
}

// mixer are the weights of a set, for learning.
func (m *Learner) mixer(set hash) *weights {
	w := m.mixers[set]
	if w == nil {
		w = newWeights()
		if len(m.mixers) < maxMixers {
			m.mixers[set] = w
		}
	}
	return w
}
