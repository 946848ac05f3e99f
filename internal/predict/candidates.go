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
	Trigger   string  // the tool it follows, with a ! if that call failed; "" for a call several sessions made
	Signature uint64  // which binding of arguments it comes from; 0 as above
	Rank      int     // in the list its argument comes from
	Asked     int     // how often this session has made it already
	Shadow    bool    // its edge has still to prove itself: to be scored, not issued
	key       hash
}

// ground is one reason for a candidate.
type ground struct {
	t     *template
	e     *event // the call that triggers t; nil with t
	rank  int
	size  int  // of the list the rank is in
	after hash // without t: the value after which the call was made; 0: it is popular
}

// draft is a candidate that is still to be judged.
type draft struct {
	key       hash
	tool      string
	arguments string
	grounds   []ground
}

// Candidates are the calls that may come next, the likeliest first. Each will get
// its label from what the session does, whether it is issued or not.
func (s *Session) Candidates(now time.Time) []Candidate {
	if !s.begun {
		return nil
	}
	sc := s.scene()
	drafts := s.drafts()
	out := make([]Candidate, 0, len(drafts))
	for _, d := range drafts {
		k := mark{turn: s.turn, at: now}
		g, p := sc.judge(d, &k)
		c := Candidate{Tool: d.tool, Arguments: d.arguments, P: p, Rank: g.rank, Asked: s.asked[d.key], key: d.key}
		if g.t != nil {
			c.Trigger, c.Signature = g.t.trigger, uint64(g.t.id)
		}
		k.edge = edgeName{c.Trigger, c.Tool}
		k.p = p
		c.Shadow = s.m.edge(k.edge).shadow(s.m.opt.ShadowLabels)
		s.wait(d.key, k)
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(b.P, a.P), cmp.Compare(a.key, b.key))
	})
	return out
}

// drafting collects drafts, the same call once.
type drafting struct {
	out []*draft
	at  map[hash]*draft
}

func (c *drafting) add(tool, arguments string, g ground) {
	key := callHash(tool, arguments)
	d := c.at[key]
	if d == nil {
		if len(c.out) >= maxCandidates {
			return
		}
		d = &draft{key: key, tool: tool, arguments: arguments}
		c.at[key] = d
		c.out = append(c.out, d)
	}
	if len(d.grounds) < maxGrounds {
		d.grounds = append(d.grounds, g)
	}
}

// drafts collects what the remembered calls trigger, the newest first, then what
// other sessions did.
func (s *Session) drafts() []*draft {
	c := drafting{at: map[hash]*draft{}}
	same := map[string]int{}
	for _, e := range slices.Backward(s.events) {
		if e.values == nil || same[e.symbol] >= maxSame {
			continue
		}
		same[e.symbol]++
		for _, t := range s.m.templates[e.symbol] {
			if t.support.n >= minSupport && (e.turn == s.turn || t.reads()) && s.m.opt.Target(t.target) {
				t.produce(s, e, func(arguments string, rank, size int) {
					c.add(t.target, arguments, ground{t: t, e: e, rank: rank, size: size})
				})
			}
		}
	}
	s.m.exact.produce(s, &c)
	return c.out
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
