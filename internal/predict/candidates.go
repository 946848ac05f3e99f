package predict

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Bounds on what is thought of at once.
const (
	maxCandidates = 256
	maxGrounds    = 4 // of one candidate
	maxSame       = 4 // remembered calls with the same symbol that may trigger
)

// Candidate is an exact call that may come next.
type Candidate struct {
	Tool      string
	Arguments string  // canonical
	P         float64 // that it is made before its answer would expire or be invalidated
	Trigger   string  // the tool it follows, with a ! if that call failed
	Follows   uint64  // ID of the call it follows; 0 if that one is only supposed
	Edge      string  // of the proposal it comes from; "" if it was learned
	Free      bool    // a proposal of which no argument was read off a result or learned
	Rank      int     // in the list its argument comes from
	Asked     int     // how often this session has made it already
	Shadow    bool    // its edge has still to prove itself: to be scored, not issued
	key       hash
}

// ground is one reason for a candidate: a template and the call that triggers it.
type ground struct {
	t    *template
	e    *event
	rank int
	size int // of the list the rank is in
}

// draft is a candidate that is still to be judged.
type draft struct {
	key       hash
	tool      string
	arguments string
	grounds   []ground
	proposal  *proposal // nil if nobody proposed it
	after     *event    // the call it was proposed after
	free      bool      // one of its proposals is
}

// Candidates are the calls that may come next, the likeliest first. Each will get
// its label from what the session does, whether it is issued or not.
func (s *Session) Candidates(now time.Time) []Candidate {
	if !s.begun {
		return nil
	}
	if s.lone {
		return s.candidates(s.drafts(), nil)
	}
	return s.candidates(s.drafts(), func(d *draft, k mark) {
		k.at = now
		s.wait(d, k)
	})
}

// candidates judges drafts, and hands what their labels will teach to wait.
func (s *Session) candidates(drafts []*draft, wait func(*draft, mark)) []Candidate {
	sc := s.scene()
	out := make([]Candidate, 0, len(drafts))
	for _, d := range drafts {
		k := mark{turn: s.turn}
		out = append(out, sc.candidate(d, &k))
		if wait != nil {
			wait(d, k)
		}
	}
	slices.SortFunc(out, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(b.P, a.P), cmp.Compare(a.key, b.key))
	})
	return out
}

func (sc *scene) candidate(d *draft, k *mark) Candidate {
	c := Candidate{Tool: d.tool, Arguments: d.arguments, Asked: sc.s.times(d.key), Free: d.free, key: d.key}
	if len(d.grounds) > 0 {
		var g ground
		g, c.P = sc.judge(d, k)
		c.Trigger, c.Follows, c.Rank = g.e.symbol, g.e.id, g.rank
		k.edge = edgeName{c.Trigger, c.Tool}
		c.Shadow = d.proposal == nil && sc.s.m.shadow(k.edge)
	}
	k.p = c.P
	if p := d.proposal; p != nil {
		k.proposed = [2]hash{p.edge, p.ranked()}
		c.P = max(c.P, sc.s.m.likely(p))
		c.Trigger, c.Follows, c.Rank, c.Edge = d.after.symbol, d.after.id, p.Rank, p.Edge
	}
	return c
}

// drafting collects drafts, the same call once.
type drafting struct {
	out []*draft
	at  map[hash]*draft
}

// draft is the draft of a call; nil if there are too many.
func (c *drafting) draft(tool, arguments string) *draft {
	key := callHash(tool, arguments)
	d := c.at[key]
	if d == nil && len(c.out) < maxCandidates {
		d = &draft{key: key, tool: tool, arguments: arguments}
		c.at[key] = d
		c.out = append(c.out, d)
	}
	return d
}

// propose collects what was proposed after a call. What was proposed after a newer
// one stands.
func (c *drafting) propose(e *event) {
	for i := range e.proposals {
		p := &e.proposals[i]
		d := c.draft(p.Tool, p.Arguments)
		if d == nil {
			return
		}
		d.free = d.free || p.Free
		if d.proposal == nil {
			d.proposal, d.after = p, e
		}
	}
}

// drafts collects what was proposed after the remembered calls, then what they
// trigger, the newest first.
func (s *Session) drafts() []*draft {
	c := drafting{at: map[hash]*draft{}}
	for _, e := range slices.Backward(s.events) {
		c.propose(e)
	}
	same := map[string]int{}
	for _, e := range slices.Backward(s.events) {
		if e.values != nil && same[e.symbol] < maxSame {
			same[e.symbol]++
			s.trigger(e, &c)
		}
	}
	return c.out
}

// trigger collects what the templates make of a call.
func (s *Session) trigger(e *event, c *drafting) {
	if s.m.opt.Static {
		return
	}
	for _, t := range s.m.templates[e.symbol] {
		if t.support.n < minSupport || e.turn != s.turn && !t.reads() || !s.m.opt.Target(t.target) {
			continue
		}
		t.produce(s, e, func(arguments string, rank, size int) {
			if d := c.draft(t.target, arguments); d != nil && len(d.grounds) < maxGrounds {
				d.grounds = append(d.grounds, ground{t, e, rank, size})
			}
		})
	}
}

// value is what makes a call what it is: its longest argument.
func value(arguments string) string {
	_, slots, _ := split(arguments)
	out := ""
	for _, a := range slots {
		if a.value.kind == text && len(a.value.text) > len(out) {
			out = a.value.text
		}
	}
	return out
}

// near says how long ago the stem of a value stood in an argument: 1 for this
// turn, 2 for the two before, 3 for never.
func (s *Session) near(v string) int {
	v = v[strings.LastIndexByte(v, '/')+1:]
	if dot := strings.IndexByte(v, '.'); dot > 2 {
		v = v[:dot]
	}
	if v = strings.TrimSuffix(v, "_test"); len(v) < 3 {
		return 0
	}
	for _, e := range slices.Backward(s.events) {
		if e.turn < s.turn-2 {
			break
		}
		for _, a := range e.args {
			if a.value.kind == text && len(a.value.text) < 2000 && strings.Contains(a.value.text, v) {
				return min(s.turn-e.turn+1, 2)
			}
		}
	}
	return 3
}
