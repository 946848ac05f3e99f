package replay

import (
	"cmp"
	"slices"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
)

// playing is a session that is played. The learner is told of it as it was recorded.
type playing struct {
	p       *Player
	s       *Session
	began   time.Time        // when the session began
	now     time.Duration    // since then, as it was recorded
	turns   int              // begun
	learner *predict.Session // nil: no arm wants to know what it expects
	classes map[exact]*callClass
	asked   map[exact]bool // calls that were made
	scores  scores
	arms    []*armSession
}

func newPlaying(p *Player, s *Session, arms []*arm) *playing {
	t := &playing{p: p, s: s, classes: make(map[exact]*callClass), asked: make(map[exact]bool), scores: newScores(p)}
	for i := range s.turns {
		for _, m := range s.turns[i].calls {
			m.class = t.class(m.exact)
			if len(arms) > 0 && m.recorded.took() == 0 {
				p.untimed++
			}
		}
	}
	s.lay(p.o.Think, latency)
	t.began = p.starts(s)
	if len(arms) == 0 || slices.ContainsFunc(arms, func(a *arm) bool { return a.rules.Source == Forecast }) {
		t.learner = p.learner().Begin(s.mark, false)
	}
	for _, a := range arms {
		t.arms = append(t.arms, a.begin(t))
	}
	return t
}

// starts is when a session begins: when it was recorded, but not before the one
// played last has ended.
func (p *Player) starts(s *Session) time.Time {
	at := p.wall.Add(p.o.Think)
	if first := earliest(s.turns[0].calls); first != nil && time.UnixMilli(*first).After(at) {
		return time.UnixMilli(*first)
	}
	return at
}

// class is what is known of a call, which does not change.
func (t *playing) class(c exact) *callClass {
	known := t.classes[c]
	if known == nil {
		known = new(t.p.o.classify(c))
		t.classes[c] = known
	}
	return known
}

// at is the moment that is played, as the learner is told it.
func (t *playing) at() time.Time { return t.began.Add(t.now) }

// turn plays the calls of a turn, then has every arm prefetch the next.
func (t *playing) turn(turn *turn) {
	t.turns++
	for _, m := range turn.inOrder(t.p.o.KeepTurns > 0) {
		t.now = max(t.now, m.start)
		t.begins(m)
	}
	for _, m := range slices.SortedStableFunc(slices.Values(turn.calls), func(a, b *made) int { return cmp.Compare(a.end, b.end) }) {
		t.now = max(t.now, m.end)
		if t.learner != nil {
			t.learner.Result(predict.Result{ID: uint64(m.number), Failed: m.recorded.Failed, Text: []byte(m.recorded.Text), Size: m.recorded.Bytes, At: t.at()})
		}
	}
	var found []predict.Candidate
	if t.learner != nil {
		found = t.learner.Guesses(t.at())
		if len(t.arms) > 0 {
			t.scores.found(t, found)
		}
	}
	for _, s := range t.arms {
		s.turn(turn)
		switch s.arm.rules.Source {
		case Forecast:
			s.consider(t.unasked(found, s))
		case Oracle:
			s.consider(t.foreknown())
		}
	}
}

// unasked are the candidates without those calls that are there already when they are
// considered: a client that asks at once is faster than the worker.
func (t *playing) unasked(found []predict.Candidate, of *armSession) []predict.Candidate {
	if t.p.o.KeepTurns > 0 || t.turns >= len(t.s.turns) || t.s.turns[t.turns].gap > 0 {
		return found
	}
	return slices.DeleteFunc(slices.Clone(found), func(c predict.Candidate) bool {
		asked := slices.ContainsFunc(t.s.turns[t.turns].calls, func(m *made) bool {
			return m.offset == 0 && m.exact == exact{c.Key.Tool, c.Key.Arguments}
		})
		if asked {
			of.Declined(&c, enrich.InFlight)
		}
		return asked
	})
}

// begins is the beginning of a call.
func (t *playing) begins(m *made) {
	if m.class.storable() && len(t.arms) > 0 {
		t.scores.asked(t, m)
	}
	t.asked[m.exact] = true
	if t.learner != nil {
		t.learner.Call(predict.Call{ID: uint64(m.number), Turn: m.turn + 1, Tool: m.tool, Arguments: m.arguments, At: t.at()})
	}
	if m.class.effect.Changes() {
		stale := func(c exact) bool { return touches(m.class.effect, t.class(c).query.Places) }
		t.scores.void(stale)
		if t.learner != nil {
			t.learner.Invalidate(func(tool, arguments string) bool { return stale(exact{tool, arguments}) })
		}
	}
}

// touches reports whether a change is one of something in the places.
func touches(e call.Effect, places []call.Place) bool {
	return slices.ContainsFunc(e.Places, func(p call.Place) bool { return slices.Contains(places, p) })
}

// foreknown are the reads of the next turn that are no repeats.
func (t *playing) foreknown() []predict.Candidate {
	if t.turns >= len(t.s.turns) {
		return nil
	}
	var all []predict.Candidate
	next := &t.s.turns[t.turns]
	for _, m := range next.calls {
		if m.class.read && m.class.storable() && !m.repeat {
			all = append(all, predict.Candidate{Why: predict.Why{Edge: "oracle"}, Candidate: enrich.Candidate{
				Key: call.Key{Tool: m.tool, Arguments: m.arguments}, P: 1, Model: m.class.model, Bytes: m.recorded.Bytes,
				Latency: enrich.Fixed(m.end - m.start), Lead: enrich.Fixed(max(next.gap+m.offset, time.Millisecond)),
			}})
		}
	}
	return all
}

// end is the end of the session.
func (t *playing) end() {
	t.scores.end()
	if t.learner != nil {
		t.learner.End()
	}
	for _, s := range t.arms {
		s.end()
	}
	t.p.wall = t.at()
}
