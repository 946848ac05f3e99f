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
	ID        string
	learnerID uint64 // random, unique among the sessions of all traces
	turns     []turn
	calls     int
	byCall    map[callKey][]*playedCall // all calls by key, in order
}

// turn is a set of calls that were made together.
type turn struct {
	calls []*playedCall
	gap   time.Duration // from the end of the previous turn to the start of this turn
}

// playedCall is a recorded call with its times and classification.
type playedCall struct {
	callKey
	recorded   *Call
	class      *callClass
	number     int           // in the session, from 1
	offset     time.Duration // start, since the start of the turn
	start, end time.Duration // since the start of the session, as recorded
	repeat     bool          // equal to an earlier call of the session
}

// callKey identifies equal calls.
type callKey struct{ tool, arguments string }

// Sessions groups the calls of one trace by session, ordered by first call. Sessions of
// different traces are different even if their ids are equal.
func Sessions(calls []Call) []*Session {
	at := make(map[string]*Session)
	var all []*Session
	for i := range calls {
		c := &calls[i]
		s := at[c.Session]
		if s == nil {
			s = &Session{ID: c.Session, learnerID: rand.Uint64(), byCall: make(map[callKey][]*playedCall)}
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
	m := &playedCall{recorded: c, callKey: callKey{c.Tool, string(c.Arguments)}, number: s.calls}
	if canonical, ok := jsonrpc.AppendCanonical(nil, c.Arguments); ok {
		m.arguments = string(canonical)
	}
	m.repeat = len(s.byCall[m.callKey]) > 0
	s.byCall[m.callKey] = append(s.byCall[m.callKey], m)
	s.turns[n-1].calls = append(s.turns[n-1].calls, m)
}

// layOut assigns times to the calls, beginning with 0. It uses recorded durations of calls,
// offsets within a turn and pauses between turns where they exist, and latency and think
// otherwise. No turn starts before the previous turn has ended.
func (s *Session) layOut(think time.Duration, latency func(*playedCall) time.Duration) {
	var now time.Duration
	var ended *int64 // recorded time (ms) of the last answer of the previous turn, or nil
	for i := range s.turns {
		turn := &s.turns[i]
		first := earliest(turn.calls)
		switch {
		case i == 0:
		case first != nil && ended != nil:
			turn.gap = min(max(0, milliseconds(*first-*ended)), maxGap)
		default:
			turn.gap = think
		}
		now = min(now+turn.gap, maxSession)
		begin := now
		ended = nil
		for _, m := range turn.calls {
			m.offset = 0
			if m.recorded.Start != nil {
				m.offset = min(milliseconds(*m.recorded.Start-*first), maxGap)
			}
			m.start = begin + m.offset
			m.end = m.start + cmp.Or(m.recorded.duration(), latency(m))
			if now = max(now, m.end); m.recorded.End != nil && (ended == nil || *m.recorded.End > *ended) {
				ended = m.recorded.End
			}
		}
	}
}

// Bounds of recorded times, so that no sum of them overflows. They are longer than any time
// that matters to prefetching.
const (
	maxGap     = 30 * 24 * time.Hour
	maxSession = 365 * 24 * time.Hour
)

// earliest returns the recorded start of a turn in ms, or nil.
func earliest(turn []*playedCall) *int64 {
	var first *int64
	for _, m := range turn {
		if start := m.recorded.Start; start != nil && (first == nil || *start < *first) {
			first = start
		}
	}
	return first
}

// duration returns the recorded duration of the call, or 0 if it was not recorded.
func (c *Call) duration() time.Duration {
	if c.Start == nil || c.End == nil {
		return 0
	}
	return min(max(milliseconds(*c.End-*c.Start), time.Microsecond), maxGap) // not 0, which means not recorded
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// spread makes each turn begin turnTime after the one before, and its calls come at the same
// time, reads before writes.
func (s *Session) spread() {
	for i := range s.turns {
		turn, begin, longest := &s.turns[i], time.Duration(i)*turnTime, time.Duration(0)
		for _, m := range turn.calls {
			m.offset, m.start, m.end = 0, begin, begin+min(m.end-m.start, turnTime/4)
			longest = max(longest, m.end-begin)
		}
		if i+1 < len(s.turns) {
			s.turns[i+1].gap = turnTime - longest
		}
		slices.SortStableFunc(turn.calls, func(a, b *playedCall) int {
			rank := map[bool]int{true: 1}
			return cmp.Compare(rank[a.class.effect.Changes()], rank[b.class.effect.Changes()])
		})
	}
}

// ordered returns the calls of a turn by start.
func (t *turn) ordered() []*playedCall {
	return slices.SortedStableFunc(slices.Values(t.calls), func(a, b *playedCall) int { return cmp.Compare(a.offset, b.offset) })
}
