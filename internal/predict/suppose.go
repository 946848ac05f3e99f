package predict

import (
	"slices"
	"time"
)

// Suppose returns the candidates that would follow if a call were made next and had
// this result, the likeliest first. Their P is under that condition. Nothing is
// learned from it, and no candidate gets a label.
func (s *History) Suppose(tool, arguments string, v *Values, p []Proposal, now time.Time) []Match {
	_, slots, _ := split(arguments)
	e := &event{tool: tool, symbol: tool, arguments: arguments, args: slots, call: callHash(tool, arguments), turn: s.turn + 1, at: now}
	e.answer(false, v)
	for _, one := range p[:min(len(p), maxProposals)] {
		e.proposals = append(e.proposals, s.m.proposal(one))
	}
	f := *s // shares the maps, which are only read
	f.supposed, f.turn, f.begun = e, e.turn, true
	if f.lone {
		f.events = []*event{e}
	} else {
		if s.begun {
			f.past = s.last()
		}
		f.events = append(slices.Clone(s.events), e)
	}
	of := f.features()
	var c collector
	c.propose(e)
	of.build(of.match(e, nil), &c)
	return of.weighed(c.all)
}

// carried is the last value of an argument.
func (s *History) carried(name string) (scalar, bool) {
	if s.supposed != nil {
		if v, ok := s.supposed.arg(name); ok {
			return v, true
		}
	}
	v, ok := s.carry[name]
	return v, ok
}

// knows reports whether a value stood in an argument.
func (s *History) knows(value string) bool {
	if e := s.supposed; e != nil && slices.ContainsFunc(e.args, func(a slot) bool { return a.value.text == value }) {
		return true
	}
	return s.touched.Contains(seed.str(value))
}

// times is how often the session has made a call.
func (s *History) times(call hash) int {
	n, _ := s.asked.Peek(call)
	if s.supposed != nil && s.supposed.call == call {
		n++
	}
	return n
}
