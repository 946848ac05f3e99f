package replay

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// Session is one recorded session.
type Session struct {
	ID    string
	mark  uint64 // tells it from the sessions of all traces
	turns []turn
	calls int
	later map[exact][]*made // the same, by call, in order
}

// turn is calls that were made together.
type turn struct {
	calls []*made
	gap   time.Duration // between the end of the turn before and its beginning
}

// made is a call as it is played.
type made struct {
	exact
	recorded   *Call
	class      *callClass
	number     int // of the session's calls
	turn       int
	offset     time.Duration // since the turn began
	start, end time.Duration // since the session began, as it was recorded
	repeat     bool          // the session has made the same call before
}

// exact is a call without its answer.
type exact struct{ tool, arguments string }

// Sessions groups the calls of one trace by session, in the order in which they
// begin. Sessions of two traces are never the same, whatever they are called.
func Sessions(calls []Call) []*Session {
	at := make(map[string]*Session)
	var all []*Session
	for i := range calls {
		c := &calls[i]
		s := at[c.Session]
		if s == nil {
			s = &Session{ID: c.Session, mark: rand.Uint64(), later: make(map[exact][]*made)}
			at[c.Session] = s
			all = append(all, s)
		}
		s.add(c)
	}
	return all
}

func (s *Session) add(c *Call) {
	n := len(s.turns)
	if n == 0 || s.turns[n-1].calls[0].recorded.Batch != c.Batch {
		s.turns = append(s.turns, turn{})
		n++
	}
	s.calls++
	m := &made{recorded: c, exact: exact{c.Tool, string(c.Arguments)}, number: s.calls, turn: n - 1}
	if canonical, ok := jsonrpc.AppendCanonical(nil, c.Arguments); ok {
		m.arguments = string(canonical)
	}
	m.repeat = len(s.later[m.exact]) > 0
	s.later[m.exact] = append(s.later[m.exact], m)
	s.turns[n-1].calls = append(s.turns[n-1].calls, m)
}

// next is the first time that the session makes a call after a turn; nil if it
// does not. Only the world that answers guesses may ask, never what makes them.
func (s *Session) next(c exact, turn int) *made {
	for _, m := range s.later[c] {
		if m.turn > turn {
			return m
		}
	}
	return nil
}

// lay puts the calls on a time line that begins with 0. What was recorded counts:
// how long a call took, how far apart those of a turn began, and how long the
// model thought. Where it was not, a call takes latency and the model think. No
// turn begins before the last one has ended, whatever was recorded.
func (s *Session) lay(think time.Duration, latency func(*made) time.Duration) {
	var now time.Duration
	var ended *int64 // ms: the last answer of the turn before; nil: not recorded
	for i := range s.turns {
		turn := &s.turns[i]
		first := earliest(turn.calls)
		switch {
		case i == 0:
		case first != nil && ended != nil:
			turn.gap = min(max(0, milliseconds(*first-*ended)), longestGap)
		default:
			turn.gap = think
		}
		now = min(now+turn.gap, longestSession)
		begin := now
		ended = nil
		for _, m := range turn.calls {
			m.offset = 0
			if m.recorded.Start != nil {
				m.offset = min(milliseconds(*m.recorded.Start-*first), longestGap)
			}
			m.start = begin + m.offset
			m.end = m.start + cmp.Or(m.recorded.took(), latency(m))
			if now = max(now, m.end); m.recorded.End != nil && (ended == nil || *m.recorded.End > *ended) {
				ended = m.recorded.End
			}
		}
	}
}

// Bounds of what is believed of recorded times, so that no sum of them overflows.
// To whatever is decided here, a week is as long as a month.
const (
	longestGap     = 30 * 24 * time.Hour
	longestSession = 365 * 24 * time.Hour
)

// earliest is when a turn began, in ms; nil if it was not recorded.
func earliest(turn []*made) *int64 {
	var first *int64
	for _, m := range turn {
		if start := m.recorded.Start; start != nil && (first == nil || *start < *first) {
			first = start
		}
	}
	return first
}

// took is how long the call took; 0 if that was not recorded.
func (c *Call) took() time.Duration {
	if c.Start == nil || c.End == nil {
		return 0
	}
	return min(max(milliseconds(*c.End-*c.Start), time.Microsecond), longestGap) // no time at all is less than could be told
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// inOrder are the calls of a turn as they begin. If it is a single instant, what only reads
// is there before what may change something.
func (t *turn) inOrder(instant bool) []*made {
	return slices.SortedStableFunc(slices.Values(t.calls), func(a, b *made) int {
		if !instant {
			return cmp.Compare(a.offset, b.offset)
		}
		rank := map[bool]int{true: 1}
		return cmp.Compare(rank[a.class.effect.Changes()], rank[b.class.effect.Changes()])
	})
}
