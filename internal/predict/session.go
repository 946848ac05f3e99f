package predict

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/jsonrpc"
)

// Bounds on what a session remembers.
const (
	maxEvents  = 24  // calls
	maxTurns   = 10  // since the call
	maxOpen    = 256 // calls without an answer
	maxCarried = 256
	maxRecent  = 4096
	maxName    = 512 // bytes of the name of a tool: a longer one is counted and nothing else
)

// Session is one conversation with the upstream. It has more than 25 methods because what
// learns from a conversation and what predicts in it go by the same events.
type Session struct {
	m           *Model
	id          uint64 // in all processes
	number      int    // in this model
	multiplexed bool
	begun       bool // a call was made
	turn        int
	past        string                     // symbol of the turn before; ^ at the beginning
	invalidated int                        // the last turn after which answers were invalidated
	events      []*event                   // calls that are remembered, oldest first
	open        []*event                   // calls without an answer, oldest first
	carry       map[string]scalar          // name of an argument → its last value
	touched     *simplelru.LRU[hash, bool] // values that stood in arguments
	made        *simplelru.LRU[hash, int]  // call → how often it was made
	idle        time.Time                  // since when no call was made: the client has had an answer; zero: it is not idle
	pending     pending                    // candidates that await their label
}

// Begin starts a session. Its id tells it from those of all processes that share what
// is learned, and is the same whenever that session begins again: values are not told to
// other sessions before they were seen in several. In a lone one several conversations
// cannot be told apart, as on a connection without state: only what follows from the
// newest answer is foreseen, and nothing is learned but how long calls take and how large
// their answers are.
func (m *Model) Begin(id uint64, lone bool) *Session {
	m.learned.sessions++
	return &Session{
		m: m, id: id, number: m.learned.sessions, multiplexed: lone, carry: map[string]scalar{}, touched: newRecentSet[bool](),
		made: newRecentSet[int](), pending: pending{of: map[hash]*foreseen{}}, past: "^",
	}
}

// latest remembers as much of a session as there is room for: what was met last.
func newRecentSet[V any]() *simplelru.LRU[hash, V] {
	all, _ := simplelru.NewLRU[hash, V](maxRecent, nil) // an error: no size
	return all
}

// End labels what is still open, and forgets the session.
func (s *Session) End() {
	s.Invalidate(nil)
	for _, e := range s.events {
		s.leave(e)
	}
	s.events, s.open = nil, nil
}

// Call is one call that was made.
type Call struct {
	ID        uint64 // tells the calls of a session apart
	Turn      int    // counts up; calls of one turn were made together: none follows another
	Tool      string
	Arguments string // need not be canonical; "": none
	At        time.Time
}

// Call learns from a call that was made.
func (s *Session) Call(c Call) {
	if len(c.Tool) > maxName {
		return
	}
	arguments := []byte("{}")
	if c.Arguments != "" {
		arguments, _ = jsonrpc.AppendCanonical(nil, []byte(c.Arguments)) // none if two servers may read them as two things: all there is to learn is that the tool was called
	}
	if t := s.m.opt.Tool(c.Tool).Model; t != nil {
		s.m.upstream = t.Upstream
	}
	tool := strings.Clone(c.Tool) // it is kept, and may be part of a long message
	e := &event{id: c.ID, tool: tool, symbol: tool, arguments: string(arguments), free: true, turn: c.Turn, at: c.At}
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
		s.m.learned.pauses.add(c.At.Sub(s.idle).Seconds())
		s.idle = time.Time{}
	}
	if c.Turn != s.turn || !s.begun {
		s.startTurn(c)
	}
	s.confirm(e)
	if ok && s.m.opt.Learn && enrich.Speculatable(s.m.opt.Tool(tool).Model) {
		s.m.learned.learnConstants(tool, slots, s.id)
		if !s.made.Contains(e.call) {
			s.explain(tool, pieces, slots)
		}
	}
	times, _ := s.made.Get(e.call)
	s.made.Add(e.call, times+1)
	s.carryOver(slots)
	s.remember(e)
}

// await remembers a call until its answer comes.
func (s *Session) addOpen(e *event) {
	if s.open = append(s.open, e); len(s.open) > maxOpen {
		s.open = slices.Delete(s.open, 0, 1)
	}
}

// advance begins the turn of a call.
func (s *Session) startTurn(c Call) {
	if s.begun {
		s.past = s.last()
	}
	s.begun, s.turn = true, c.Turn
	s.expire(c.At)
}

// last is the symbol of the newest call.
func (s *Session) last() string {
	if len(s.events) == 0 {
		return "^"
	}
	return s.events[len(s.events)-1].symbol
}

// Result learns from the result of a call, and works out what is configured to
// follow. One of an unknown call, or a second one, is ignored.
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
	if s.multiplexed { // it is all that the session knows of
		s.begun, s.turn, s.events = true, e.turn, []*event{e}
		clear(s.carry)
		s.touched.Purge()
		s.carryOver(e.args)
	}
}

// measure learns how long a call took and how large its answer is. One that failed may
// have been cut short.
func (m *Model) measure(e *event, r *Result) {
	if r.Failed {
		return
	}
	t := m.learned.toolFor(e.tool)
	if took := r.At.Sub(e.at); !e.at.IsZero() && took >= 0 {
		t.Latency.add(took.Seconds())
	}
	t.Size.add(float64(r.Size) / 1024)
}

// answered notes what came of a call, real or supposed.
func (s *Session) answered(e *event, r Result) {
	e.values = &values{}
	if r.Unread {
		r.Text, r.Structured = nil, nil
	}
	if s.m.opt.Learn || len(s.m.followUps(e.tool)) > 0 {
		a := newAnswer(r)
		if s.m.opt.Learn {
			e.values = a.extract()
		}
		if !r.Failed {
			s.m.checks.begin()
			s.follow(e, a)
		}
	}
	if r.Failed {
		e.symbol += "!"
	}
	e.lists = make([]picked, len(e.values.lists))
}

// Guesses are the calls that may come next, the likeliest first. Each will get
// its label from what the session does, whether it is issued or not.
func (s *Session) Candidates(now time.Time) []Candidate {
	if !s.begun {
		return nil
	}
	f := s.features()
	all := f.candidates()
	out := f.weighed(all)
	if !s.multiplexed {
		for _, c := range all {
			if c.configured != nil && c.configured.over {
				continue // no rule allows it
			}
			c.sample.at = now
			s.wait(c)
		}
	}
	return out
}

// Suppose returns what would follow if a candidate were asked for next and answered so. P
// is that of both. Nothing is learned from it, and no candidate gets a label. Only what
// follows a real call is thought through: at two removes little is likely.
func (s *Session) Suppose(c Candidate, r Result, now time.Time) []Candidate {
	if c.Why.Depth != 0 || r.Failed || r.Unread {
		return nil
	}
	_, slots, _ := split(c.Key.Arguments)
	e := &event{tool: c.Key.Tool, symbol: c.Key.Tool, arguments: c.Key.Arguments, args: slots, free: c.Why.Independent, turn: s.turn + 1, at: now}
	e.call = callHash(e.tool, e.arguments)
	next := *s // shares the maps that are only read
	next.answered(e, r)
	next.carry, next.turn, next.begun = maps.Clone(s.carry), e.turn, true
	for _, a := range slots {
		next.carry[a.name] = a.value
	}
	if next.events = []*event{e}; !s.multiplexed {
		if s.begun {
			next.past = s.last()
		}
		next.events = append(slices.Clone(s.events), e)
	}
	f := next.features()
	out := f.weighed(f.following(e))
	for i := range out {
		out[i].P *= c.P
		out[i].Why.Depth = 1
	}
	return out
}
