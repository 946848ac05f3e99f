package predict

import (
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/jsonrpc"
)

// Bounds on the memory of a session.
const (
	maxEvents = 24   // remembered calls
	maxTurns  = 10   // turns for which a call is remembered
	maxOpen   = 256  // calls without a result
	maxRecent = 8192 // counted calls, arguments and values
	maxName   = 512  // bytes of a tool name; calls with a longer one are ignored
)

// Session is one conversation with the upstream. It has more than 25 methods because learning
// and prediction use the same events.
type Session struct {
	m           *Model
	id          uint64 // unique across processes
	multiplexed bool
	turn        int
	past        string                    // symbol of the previous turn; ^ at the beginning
	events      []*event                  // remembered calls, oldest first
	open        []*event                  // calls without a result, oldest first
	counts      *simplelru.LRU[hash, int] // call, argument or value → number of times the session made or used it
	idle        time.Time                 // time of the newest result; zero from the next call on
	pending     pending                   // candidates without a label
}

// Begin starts a session. Its id is unique across the processes that share learned state,
// and stays the same if the session is resumed: a value is used in other sessions only after
// several have used it. In a multiplexed session several conversations cannot be
// distinguished, as on a stateless connection. It only predicts what follows the newest
// result, and only learns the latencies and sizes of results.
func (m *Model) Begin(id uint64, multiplexed bool) *Session {
	counts, _ := simplelru.NewLRU[hash, int](maxRecent, nil) // fails only for size 0
	return &Session{m: m, id: id, multiplexed: multiplexed, counts: counts, pending: pending{byCall: map[hash]*prediction{}}, past: "^"}
}

// End labels the pending candidates and discards the session.
func (s *Session) End() {
	s.Invalidate(nil)
	s.events, s.open = nil, nil
}

// Call is a call that the client made.
type Call struct {
	ID        uint64 // unique in the session
	Turn      int    // increasing, counted over all upstreams; calls of one turn were made together, so none follows from another
	Tool      string
	Arguments string // not necessarily canonical; "" for none
	At        time.Time
}

// Call learns from a call that the client made.
func (s *Session) Call(c Call) {
	if len(c.Tool) > maxName {
		return
	}
	arguments := []byte("{}")
	if c.Arguments != "" {
		arguments, _ = jsonrpc.AppendCanonical(nil, []byte(c.Arguments)) // nil if servers may decode them differently: then only the tool is learned
	}
	if t := s.m.opt.Tool(c.Tool).Model; t != nil {
		s.m.upstream = t.Upstream
	}
	tool := strings.Clone(c.Tool) // do not retain the message that contains it
	e := &event{id: c.ID, tool: tool, symbol: tool, arguments: string(arguments), independent: true, turn: c.Turn, at: c.At}
	e.call = callHash(tool, e.arguments)
	pieces, slots, ok := split(e.arguments)
	e.args = slots
	if len(e.arguments) > maxSplit {
		e.arguments = ""
	}
	s.addOpen(e)
	if s.multiplexed {
		return
	}
	if !s.idle.IsZero() {
		pause := c.At.Sub(s.idle).Seconds()
		s.m.learn(func(l *state) { l.pauses.add(pause) })
		s.idle = time.Time{}
	}
	if c.Turn != s.turn || len(s.events) == 0 {
		s.past, s.turn = s.last(), c.Turn
		s.expire(c.At)
	}
	s.labelCall(e)
	if ok && s.m.opt.Learn && enrich.Speculatable(s.m.opt.Tool(tool).Model) {
		s.learnValues(tool, e.arguments, slots)
		if !s.counts.Contains(e.call) {
			s.explain(tool, pieces, slots, nil)
		} else {
			s.explain(tool, pieces, slots, s.writeSince(e.call))
		}
	}
	s.count(e.call)
	s.remember(e)
}

// count counts a call, or the use of an argument or a value, and returns how often the session has made or
// used it.
func (s *Session) count(of hash) int {
	times, _ := s.counts.Get(of)
	s.counts.Add(of, times+1)
	return times + 1
}

// addOpen adds a call to those without a result.
func (s *Session) addOpen(e *event) {
	if s.open = append(s.open, e); len(s.open) > maxOpen {
		s.open = slices.Delete(s.open, 0, 1)
	}
}

// last returns the symbol of the newest call.
func (s *Session) last() string {
	if len(s.events) == 0 {
		return "^"
	}
	return s.events[len(s.events)-1].symbol
}

// Result learns from the result of a call and computes its configured follow-ups. It ignores
// the result of an unknown call, and a second result of the same call.
func (s *Session) Result(r Result) {
	i := slices.IndexFunc(s.open, func(e *event) bool { return e.id == r.ID })
	if i < 0 {
		return
	}
	e := s.open[i]
	s.open = slices.Delete(s.open, i, i+1)
	s.idle = r.At
	if !r.Delivered.IsZero() {
		s.idle = r.Delivered
	}
	s.m.measure(e, &r)
	s.answered(e, r)
	if s.multiplexed { // the session has no other history
		s.turn, s.events = e.turn, []*event{e}
	}
}

// answered processes the result of a call.
func (s *Session) answered(e *event, r Result) {
	e.values = &values{}
	if s.m.opt.Learn || len(s.m.followUps(e.tool)) > 0 {
		a := newAnswer(r)
		if s.m.opt.Learn {
			e.values = a.extract()
		}
		if !r.Failed {
			s.follow(e, a)
		}
	}
	if r.Failed {
		e.symbol += "!"
	}
}

// Candidates returns the calls that may come next, the most probable first. Unless the session
// is multiplexed, each gets a label from the client's later calls, whether it is prefetched or
// not.
func (s *Session) Candidates(now time.Time) []Candidate {
	f := s.scorer()
	f.collect(s.events)
	out := f.rank()
	if !s.multiplexed {
		for _, c := range f.found {
			if c.arguments != "" { // else it is of another upstream, or of no tool
				c.sample.at = now
				s.addSample(c)
			}
		}
	}
	return out
}

// Suppose returns the candidates that would follow if the client made the call c next with
// the successful result r; their P is that of both calls. It learns nothing and labels no candidates.
func (s *Session) Suppose(c Candidate, r Result) []Candidate {
	_, slots, _ := split(c.Key.Arguments)
	e := &event{tool: c.Key.Tool, symbol: c.Key.Tool, arguments: c.Key.Arguments, args: slots, independent: c.Why.Independent, turn: s.turn + 1}
	next := *s // shares maps that are not modified
	next.answered(e, r)
	next.turn, next.events = e.turn, []*event{e}
	if !s.multiplexed {
		next.past, next.events = s.last(), append(slices.Clone(s.events), e)
	}
	f := next.scorer()
	f.collect([]*event{e})
	out := f.rank()
	for i := range out {
		out[i].P *= c.P
		out[i].Why.Depth = 1
	}
	return out
}
