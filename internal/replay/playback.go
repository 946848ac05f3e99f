package replay

import (
	"cmp"
	"slices"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
)

// playback plays one session. The learner sees it as it was recorded.
type playback struct {
	p       *Player
	s       *Session
	began   time.Time        // start of the session
	now     time.Duration    // recorded time since began
	turns   int              // turns that have begun
	learner *predict.Session // nil if no arm uses it
	classes map[callKey]*callClass
	arms    []*armSession
}

func newPlayback(p *Player, s *Session, arms []*arm) *playback {
	t := &playback{p: p, s: s, began: p.wall.Add(p.o.Think), classes: make(map[callKey]*callClass)}
	for i := range s.turns {
		for _, m := range s.turns[i].calls {
			m.class = t.class(m.callKey)
			if len(arms) > 0 && m.recorded.duration() == 0 {
				p.untimed++
			}
		}
	}
	s.layOut(p.o.Think, latency)
	if p.o.KeepTurns > 0 {
		s.spread()
	}
	if len(arms) == 0 || slices.ContainsFunc(arms, func(a *arm) bool { return a.Source == Forecast }) {
		t.learner = p.o.Learner(p.sessions).Begin(s.learnerID, false)
	}
	for _, a := range arms {
		t.arms = append(t.arms, a.begin(t))
	}
	return t
}

// class returns the classification of a call, which is cached.
func (t *playback) class(c callKey) *callClass {
	class := t.classes[c]
	if class == nil {
		class = new(t.p.o.classify(c))
		t.classes[c] = class
	}
	return class
}

// at returns the current time for the learner.
func (t *playback) at() time.Time { return t.began.Add(t.now) }

// turn plays the calls of a turn, then lets each arm prefetch for the next turn.
func (t *playback) turn(turn *turn) {
	t.turns++
	for _, m := range turn.ordered() {
		t.now = max(t.now, m.start)
		t.beginCall(m)
	}
	for _, m := range slices.SortedStableFunc(slices.Values(turn.calls), func(a, b *playedCall) int { return cmp.Compare(a.end, b.end) }) {
		t.now = max(t.now, m.end)
		if t.learner != nil {
			t.learner.Result(predict.Result{ID: uint64(m.number), Failed: m.recorded.Failed, Text: []byte(m.recorded.Text), Size: m.recorded.Bytes, At: t.began.Add(m.end)})
		}
	}
	var found []predict.Candidate
	if t.learner != nil {
		found = t.learner.Candidates(t.at())
	}
	for _, s := range t.arms {
		s.turn(turn)
		switch s.arm.Source {
		case Forecast:
			s.consider(t.withoutImmediate(found, s))
		case Oracle:
			s.consider(t.nextReads())
		}
	}
}

// withoutImmediate returns the candidates except those that the client calls at once, as such a
// client is faster than the prefetch worker.
func (t *playback) withoutImmediate(found []predict.Candidate, s *armSession) []predict.Candidate {
	if t.turns >= len(t.s.turns) || t.s.turns[t.turns].gap > 0 {
		return found
	}
	return slices.DeleteFunc(slices.Clone(found), func(c predict.Candidate) bool {
		immediate := slices.ContainsFunc(t.s.turns[t.turns].calls, func(m *playedCall) bool {
			return m.offset == 0 && m.callKey == callKey{c.Key.Tool, c.Key.Arguments}
		})
		if immediate {
			s.Declined(&c, enrich.InFlight)
		}
		return immediate
	})
}

// beginCall passes a call to the learner.
func (t *playback) beginCall(m *playedCall) {
	if t.learner != nil {
		t.learner.Call(predict.Call{ID: uint64(m.number), Turn: t.turns, Tool: m.tool, Arguments: m.arguments, At: t.at()})
	}
	if m.class.effect.Changes() && t.learner != nil {
		t.learner.Invalidate(func(tool, arguments string) bool {
			return touches(m.class.effect, t.class(callKey{tool, arguments}).query.Places)
		})
	}
}

// touches reports whether a write changes any of the places.
func touches(e call.Effect, places []call.Place) bool {
	return slices.ContainsFunc(e.Places, func(p call.Place) bool { return slices.Contains(places, p) })
}

// nextReads returns the reads of the next turn, except repeats, as certain candidates.
func (t *playback) nextReads() []predict.Candidate {
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

// end ends the session.
func (t *playback) end() {
	if t.learner != nil {
		t.learner.End()
	}
	for _, s := range t.arms {
		s.end()
	}
	t.p.wall = t.at()
}
