package predict

import (
	"slices"
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
	independent bool // no argument was derived from a result; true of every call that the client made
	turn        int
	at          time.Time
	values      *values // nil until the result is known
	follows     []match // configured follow-ups
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

// remember appends a call and drops the oldest ones.
func (s *Session) remember(e *event) {
	s.events = append(s.events, e)
	drop := 0
	for len(s.events)-drop > maxEvents || s.events[drop].turn < s.turn-maxTurns {
		drop++
	}
	s.events = slices.Delete(s.events, 0, drop)
}

// times returns how often the session has made a call.
func (s *Session) times(call hash) int {
	n, _ := s.counts.Peek(call)
	return n
}
