// Package predict learns, from the calls that are really made to one upstream,
// which exact calls come next and how likely each is.
//
// The one idea: explain every call by the calls before it, and try every
// explanation on the next ones. After list_issues {owner: a} came get_issue
// {owner: a, number: 7}, and 7 stood at $.items[*].number: this template, tried on
// the next result of list_issues, makes candidates get_issue 11, 12, 13. Whether
// or not they are issued, what the session does next says which were right, and
// each label counts for the template, the rank in the list, the tool, what came
// before, the exact call. A small online logistic mixer weighs these counts into
// one calibrated probability.
//
//	m := predict.New(predict.Options{Target: readOnly})
//	s := m.Begin()
//	s.Call(predict.Call{ID: 1, Turn: 1, Tool: "list_issues", Arguments: `{"owner":"a"}`, At: now})
//	s.Result(predict.Result{ID: 1, Values: predict.Extract(body, nil), At: now})
//	for _, c := range s.Candidates(now) { … }
//
// It leaves out what a call may do, whether a candidate is worth its cost, and
// everything that waits: times come in, bytes go out.
package predict

import "time"

// Bounds on a model.
const (
	maxTools    = 2048
	maxTriggers = 4096
)

// Options say what is predicted. The zero value predicts nothing, as no tool is a
// target.
type Options struct {
	Target       func(tool string) bool // whether calls of the tool may be run early; nil: none
	Prior        float64                // probability of a follow-up nothing is known about; 0: 0.05
	Turns        int                    // a candidate not asked for within as many turns was wrong; 0: 10
	MaxAge       time.Duration          // or after as long; 0: no limit
	ShadowLabels int                    // labels before an edge issues; 0: 5
}

// Model is what was learned about one upstream. It is not safe for use by several
// goroutines: one worker owns it and its sessions. [Extract] may run anywhere.
type Model struct {
	opt       Options
	counts    counts
	mixers    map[string]*weights    // tool and circumstances → weights
	templates map[string][]*template // symbol of the trigger → templates
	constants map[hash]*few          // tool and argument → its values
	exact     exacts
	order     order
	tools     map[string]*toolStats
	edges     map[edgeName]*edge
	changes   []Change
	sessions  int
	stats     Stats
}

// Stats are counts of what a model did.
type Stats struct {
	Calls     int // observed
	Cut       int // results of which something was left out
	Templates int
	Contexts  int
	Dropped   int // contexts evicted
	Changes   int // of edges
}

// Stats copies the counts out.
func (m *Model) Stats() Stats {
	s := m.stats
	for _, t := range m.templates {
		s.Templates += len(t)
	}
	s.Contexts, s.Dropped = len(m.counts.m), m.counts.dropped
	return s
}

// New makes a model that knows nothing.
func New(opt Options) *Model {
	if opt.Target == nil {
		opt.Target = func(string) bool { return false }
	}
	if opt.Prior == 0 {
		opt.Prior = 0.05
	}
	if opt.Turns == 0 {
		opt.Turns = maxTurns
	}
	if opt.ShadowLabels == 0 {
		opt.ShadowLabels = 5
	}
	return &Model{
		opt: opt, counts: newCounts(), mixers: map[string]*weights{}, templates: map[string][]*template{},
		constants: map[hash]*few{}, exact: newExacts(), order: newOrder(), tools: map[string]*toolStats{},
		edges: map[edgeName]*edge{},
	}
}

// Session is one conversation with the upstream.
type Session struct {
	m             *Model
	number        int
	turn          int
	begun         bool              // a call was made
	events        []*event          // oldest first
	carry         map[string]scalar // name of an argument → its last value
	touched       map[hash]bool     // values that stood in arguments
	asked         map[hash]int      // call → how often it was made
	pending       map[hash]*pending // call → its candidates that await their label
	waiting       []*pending        // the same, oldest first
	marks         int               // in all of them
	past          []string          // symbols of the last three turns, newest last; begins with ^
	invalidated   int               // the last turn after which answers were invalidated
	invalidations int
}

// Begin starts a session.
func (m *Model) Begin() *Session {
	m.sessions++
	return &Session{
		m: m, number: m.sessions, carry: map[string]scalar{}, touched: map[hash]bool{},
		asked: map[hash]int{}, pending: map[hash]*pending{}, past: []string{"^"},
	}
}

// End labels what is still open.
func (s *Session) End() {
	s.Invalidate()
	for _, e := range s.events {
		s.m.leave(e)
	}
	s.events = nil
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
func (s *Session) Call(c Call) {
	s.m.stats.Calls++
	if c.Turn != s.turn || !s.begun {
		s.begin(c)
	}
	key := callHash(c.Tool, c.Arguments)
	s.confirm(key, c.Tool, c.At)
	pieces, slots, ok := split(c.Arguments)
	e := &event{id: c.ID, tool: c.Tool, symbol: c.Tool, args: slots, call: key, turn: s.turn, at: c.At}
	if ok && s.m.opt.Target(c.Tool) {
		s.m.learnConstants(c.Tool, slots, s.number)
		if s.asked[key] == 0 {
			s.explain(c.Tool, pieces, slots)
			s.m.exact.learn(s, e, c.Arguments)
		}
	}
	if len(s.asked) < maxAsked || s.asked[key] > 0 {
		s.asked[key]++
	}
	s.carryOver(slots)
	s.remember(e)
}

// begin starts the turn of a call.
func (s *Session) begin(c Call) {
	if s.begun {
		symbol := s.last()
		s.m.order.learn(s.past, symbol)
		if s.past = append(s.past, symbol); len(s.past) > 3 {
			s.past = s.past[1:]
		}
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

// Result says what came of a call.
type Result struct {
	ID     uint64
	Failed bool
	Values *Values // nil: not read
	Size   int     // bytes
	At     time.Time
}

// Result learns from the result of a call. One of an unknown call, or a second
// one, is ignored.
func (s *Session) Result(r Result) {
	for _, e := range s.events {
		if e.id == r.ID && e.values == nil {
			s.m.learnResult(e, r)
			return
		}
	}
}

func (m *Model) learnResult(e *event, r Result) {
	if r.Failed {
		e.symbol += "!"
	}
	if r.Values == nil {
		r.Values = &Values{}
	}
	if r.Values.cut {
		m.stats.Cut++
	}
	e.values, e.lists = r.Values, make([]asked, len(r.Values.lists))
	t := m.tool(e.tool)
	if d := r.At.Sub(e.at); !e.at.IsZero() && d >= 0 {
		t.latency.add(d.Seconds())
	}
	t.size.add(float64(r.Size) / 1024)
}

// callHash tells exact calls apart.
func callHash(tool, arguments string) hash { return seed.str(tool).str(arguments) }

// leave is told of a call that is forgotten.
func (m *Model) leave(e *event) {
	if e.values != nil {
		m.tool(e.tool).useful.label(e.used)
	}
}
