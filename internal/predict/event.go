package predict

import (
	"slices"
	"strings"
	"time"
)

// event is a remembered call with its result.
type event struct {
	id          uint64
	tool        string
	symbol      string // tool name, with a ! if the call failed
	arguments   string // canonical; "" if too long or ambiguous
	args        []slot
	call        hash // of tool and arguments
	independent bool // no argument comes from a result, as for every call of the client
	turn        int
	at          time.Time
	values      *values     // nil until the result is known
	usedLists   []usedRanks // by index in values.lists
	used        bool        // a later argument used a value of its result
	follows     []match     // configured follow-ups
}

// usedRanks counts the values of a list that later calls used.
type usedRanks struct {
	count int
	last  int32 // rank of the last one
}

// callHash returns a hash that identifies an exact call.
func callHash(tool, arguments string) hash { return seed.str(tool).str(arguments) }

func (e *event) arg(name string) (scalar, bool) {
	for _, s := range e.args {
		if s.name == name {
			return s.value, true
		}
	}
	return scalar{}, false
}

// markUsed records that a later call used a value of the result.
func (e *event) markUsed(at position) {
	e.used = true
	a := &e.usedLists[at.list]
	a.count++
	a.last = at.rank
}

// answeredBefore reports whether the call was answered before a turn.
func (e *event) answeredBefore(turn int) bool { return e.turn < turn && e.values != nil }

// remember appends a call and drops the oldest ones.
func (s *Session) remember(e *event) {
	s.events = append(s.events, e)
	drop := 0
	for len(s.events)-drop > maxEvents || s.events[drop].turn < s.turn-maxTurns {
		s.forget(s.events[drop])
		drop++
	}
	s.events = slices.Delete(s.events, 0, drop)
}

// forget learns from a dropped call whether its result was used.
func (s *Session) forget(e *event) {
	if e.values != nil && s.m.opt.Learn && !s.multiplexed {
		s.m.learned.toolFor(e.tool).Useful.add(e.used)
	}
}

// newest returns the last remembered call of a tool with a result; nil if there is none.
func (s *Session) newest(symbol string) *event {
	for _, e := range slices.Backward(s.events) {
		if e.symbol == symbol && e.answeredBefore(s.turn+1) {
			return e
		}
	}
	return nil
}

// carryOver stores the values of arguments by name.
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

// times returns how often the session has made a call.
func (s *Session) times(call hash) int {
	n, _ := s.made.Peek(call)
	return n
}
