package predict

import (
	"slices"
	"strings"
	"time"
)

// Bounds on what a session remembers.
const (
	maxEvents  = 24 // calls
	maxTurns   = 10 // since the call
	maxCarried = 256
	maxAsked   = 4096
	maxName    = 512 // bytes of the name of a tool: a longer one is counted and nothing else
	maxFlying  = 256 // calls of a lone session that wait for their result
)

// event is a call that is still remembered, and what came of it.
type event struct {
	id        uint64
	tool      string
	symbol    string // the tool, with a ! if the call failed
	arguments string // "" if there are too many
	args      []slot
	call      hash // of tool and arguments
	turn      int
	at        time.Time
	values    *Values  // nil until the result is known
	lists     []picked // by list of values
	used      bool     // a value of its result stood in a later argument
	proposals []proposal
	words     []string // of the arguments, when they were asked for
}

// asked says which values of a list have been asked for.
type picked struct {
	count int
	last  int32 // the rank of the last one
}

func (e *event) arg(name string) (scalar, bool) {
	for _, s := range e.args {
		if s.name == name {
			return s.value, true
		}
	}
	return scalar{}, false
}

// mark notes that a value of the result was asked for.
func (e *event) mark(at spot) {
	e.used = true
	a := &e.lists[at.list]
	a.count++
	a.last = at.rank
}

// answer notes what came of the call.
func (e *event) answer(failed bool, v *Values) {
	if failed {
		e.symbol += "!"
	}
	if v == nil {
		v = &Values{}
	}
	e.values, e.lists = v, make([]picked, len(v.lists))
}

// known reports whether the result of the call was known before a turn.
func (e *event) known(turn int) bool { return e.turn < turn && e.values != nil }

// remember appends a call and forgets the oldest ones.
func (s *History) remember(e *event) {
	s.events = append(s.events, e)
	drop := 0
	for len(s.events)-drop > maxEvents || s.events[drop].turn < s.turn-maxTurns {
		s.m.leave(s.events[drop])
		drop++
	}
	s.events = slices.Delete(s.events, 0, drop)
}

// event finds a remembered call; nil if there is none.
func (s *History) event(id uint64) *event {
	for _, e := range slices.Backward(s.events) {
		if e.id == id {
			return e
		}
	}
	return nil
}

// newest is the last remembered call of a tool with a result.
func (s *History) newest(symbol string) *event {
	for i := len(s.events) - 1; i >= 0; i-- {
		if e := s.events[i]; e.symbol == symbol && e.known(s.turn+1) {
			return e
		}
	}
	return nil
}

// carryOver remembers the values of arguments by their names.
func (s *History) carryOver(slots []slot) {
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
