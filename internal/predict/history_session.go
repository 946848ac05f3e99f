package predict

import (
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Session is one conversation with the upstream.
type History struct {
	m             *Learner
	id            uint64 // in all processes
	number        int    // in this model
	lone          bool
	turn          int
	begun         bool                       // a call was made
	events        []*event                   // oldest first
	flying        []*event                   // of a lone session: calls without a result
	carry         map[string]scalar          // name of an argument → its last value
	touched       *simplelru.LRU[hash, bool] // values that stood in arguments
	asked         *simplelru.LRU[hash, int]  // call → how often it was made
	pending       map[hash]*pending          // call → its candidates that await their label
	waiting       []*pending                 // the same, oldest first
	samples       int                        // in all of them
	past          string                     // symbol of the turn before; ^ at the beginning
	invalidated   int                        // the last turn after which answers were invalidated
	invalidations int
	supposed      *event // a call that is thought through and was not made; its arguments go before carry, touched and asked
}

// Begin starts a session. Its id tells it from those of all processes that share a
// state, and says nothing else of it: values are not told to others before they were
// seen in several. A session that begins again has the same one. A lone session is
// shared by several conversations, as a connection without state is: candidates
// follow from the one call whose result came last, and nothing but sizes and
// latencies is learned.
func (m *Learner) Begin(id uint64, lone bool) *History {
	m.sessions++
	return &History{
		m: m, id: id, number: m.sessions, lone: lone, carry: map[string]scalar{}, touched: latest[bool](),
		asked: latest[int](), pending: map[hash]*pending{}, past: "^",
	}
}

// End labels what is still open.
func (s *History) End() {
	s.Invalidate(nil)
	if !s.lone {
		for _, e := range s.events {
			s.m.leave(e)
		}
	}
	s.events, s.flying = nil, nil
}

// Call is one call that was made.
type Call struct {
	ID        uint64 // tells the calls of a session apart
	Turn      int    // counts up; calls of one turn were made together: none follows another
	Tool      string
	Arguments string // canonical
	At        time.Time
}

// Call learns from a call that was made.
func (s *History) Call(c Call) {
	s.m.stats.Calls++
	if len(c.Tool) > maxName {
		return
	}
	key := callHash(c.Tool, c.Arguments)
	pieces, slots, ok := split(c.Arguments)
	c.Tool = strings.Clone(c.Tool) // it is kept, and may be part of a long message
	e := &event{id: c.ID, tool: c.Tool, symbol: c.Tool, args: slots, call: key, turn: c.Turn, at: c.At}
	if len(c.Arguments) <= maxSplit {
		e.arguments = c.Arguments
	}
	if s.lone {
		s.fly(e)
		return
	}
	if c.Turn != s.turn || !s.begun {
		s.begin(c)
	}
	s.confirm(key, c.Tool, c.At)
	if ok && !s.m.opt.Static && s.m.opt.Target(c.Tool) {
		s.m.learnConstants(c.Tool, slots, s.id)
		if !s.asked.Contains(key) {
			s.explain(c.Tool, pieces, slots)
		}
	}
	times, _ := s.asked.Get(key)
	s.asked.Add(key, times+1)
	s.carryOver(slots)
	s.remember(e)
}

// latest remembers as much of a session as there is room for: what was met last.
func latest[V any]() *simplelru.LRU[hash, V] {
	all, _ := simplelru.NewLRU[hash, V](maxAsked, nil) // an error: no size
	return all
}

// begin starts the turn of a call.
func (s *History) begin(c Call) {
	if s.begun {
		s.past = s.last()
	}
	s.begun, s.turn = true, c.Turn
	s.expire(c.At)
}

// last is the symbol of the newest call.
func (s *History) last() string {
	if len(s.events) == 0 {
		return "^"
	}
	return s.events[len(s.events)-1].symbol
}

// Result says what came of a call.
type Outcome struct {
	ID     uint64
	Failed bool
	Values *Values // nil: not read
	Size   int     // bytes
	At     time.Time
}

// Result learns from the result of a call. One of an unknown call, or a second
// one, is ignored.
func (s *History) Result(r Outcome) {
	if s.lone {
		s.land(r)
		return
	}
	if e := s.event(r.ID); e != nil && e.values == nil {
		s.m.learnResult(e, r)
	}
}

// fly remembers a call of a lone session until its result comes.
func (s *History) fly(e *event) {
	if s.flying = append(s.flying, e); len(s.flying) > maxFlying {
		s.flying = slices.Delete(s.flying, 0, 1)
	}
}

// land makes the call of a result all that a lone session knows of.
func (s *History) land(r Outcome) {
	i := slices.IndexFunc(s.flying, func(e *event) bool { return e.id == r.ID })
	if i < 0 {
		return
	}
	e := s.flying[i]
	s.flying = slices.Delete(s.flying, i, i+1)
	s.m.learnResult(e, r)
	s.begun, s.turn, s.events = true, e.turn, []*event{e}
	clear(s.carry)
	s.touched.Purge()
	s.carryOver(e.args)
}

func (m *Learner) learnResult(e *event, r Outcome) {
	e.answer(r.Failed, r.Values)
	if e.values.cut {
		m.stats.Cut++
	}
	if r.Failed { // it may have been cut short
		return
	}
	t := m.tool(e.tool)
	if d := r.At.Sub(e.at); !e.at.IsZero() && d >= 0 {
		t.latency.add(d.Seconds())
	}
	t.size.add(float64(r.Size) / 1024)
}

// leave is told of a call that is forgotten.
func (m *Learner) leave(e *event) {
	if e.values != nil && !m.opt.Static {
		m.tool(e.tool).useful.label(e.used)
	}
}
