package predict

import (
	"slices"
	"strings"
	"time"
)

// event is a call that is still remembered, and what came of it.
type event struct {
	id        uint64
	tool      string
	symbol    string // the tool, with a ! if the call failed
	arguments string // canonical; "" if there are too many, or they are ambiguous
	args      []slot
	call      hash // of tool and arguments
	free      bool // no argument was read off a result: it was made by the client
	turn      int
	at        time.Time
	values    *values  // nil until the result is known
	lists     []picked // by list of values
	used      bool     // a value of its result stood in a later argument
	follows   []match  // what is configured to follow
}

// picked says which values of a list have been asked for.
type picked struct {
	count int
	last  int32 // the rank of the last one
}

// callHash tells exact calls apart.
func callHash(tool, arguments string) hash { return seed.str(tool).str(arguments) }

func (e *event) arg(name string) (scalar, bool) {
	for _, s := range e.args {
		if s.name == name {
			return s.value, true
		}
	}
	return scalar{}, false
}

// mark notes that a value of the result was asked for.
func (e *event) mark(at position) {
	e.used = true
	a := &e.lists[at.list]
	a.count++
	a.last = at.rank
}

// known reports whether the result of the call was known before a turn.
func (e *event) known(turn int) bool { return e.turn < turn && e.values != nil }

// remember appends a call and forgets the oldest ones.
func (s *Session) remember(e *event) {
	s.events = append(s.events, e)
	drop := 0
	for len(s.events)-drop > maxEvents || s.events[drop].turn < s.turn-maxTurns {
		s.leave(s.events[drop])
		drop++
	}
	s.events = slices.Delete(s.events, 0, drop)
}

// leave learns from a call that is forgotten whether its result was of use.
func (s *Session) leave(e *event) {
	if e.values != nil && s.m.opt.Learn && !s.multiplexed {
		s.m.learned.toolFor(e.tool).Useful.label(e.used)
	}
}

// newest is the last remembered call of a tool with a result.
func (s *Session) newest(symbol string) *event {
	for _, e := range slices.Backward(s.events) {
		if e.symbol == symbol && e.known(s.turn+1) {
			return e
		}
	}
	return nil
}

// carryOver remembers the values of arguments by their names.
func (s *Session) carryOver(slots []slot) {
	for _, a := range slots {
		if a.value.kind == word || len(a.value.text) > maxValueBytes {
			continue
		}
		s.touched.Add(seed.str(a.value.text), true)
		if old, ok := s.carry[a.name]; ok && old != a.value || !ok && len(s.carry) < maxCarried {
			s.carry[strings.Clone(a.name)] = scalar{strings.Clone(a.value.text), a.value.kind}
		}
	}
}

// times is how often the session has made a call.
func (s *Session) times(call hash) int {
	n, _ := s.made.Peek(call)
	return n
}
