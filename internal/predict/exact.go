package predict

import (
	"cmp"
	"slices"
)

// Bounds on the exact calls that are remembered.
const (
	maxExact    = 4096
	maxSeen     = 8192 // values
	maxAfter    = 12   // calls remembered after one value
	maxBefore   = 8192
	maxPopular  = 12
	maxCallSize = 300 // bytes of arguments
	several     = 2   // sessions that made a call before it is a candidate
	lookBack    = 2   // turns
)

// exacts are the calls that sessions make with the same arguments over and over,
// and after which values each was made: no result need name the file that is
// always read after another.
type exacts struct {
	calls   map[hash]*exactCall
	after   map[hash][]follower // value → calls made after it
	values  map[hash]*seenIn    // value of a tool's argument → sessions
	popular []hash              // calls that most sessions made
	learned int
}

type exactCall struct {
	tool      string
	arguments string // "" as long as only one session has made it, in what is kept
	n         tally
	seenIn
}

// seenIn counts sessions.
type seenIn struct {
	sessions int
	last     int // number of the newest one
	fresh    int // sessions since the state was loaded
}

func (i *seenIn) see(session int) {
	if i.last != session {
		i.last = session
		i.sessions++
		i.fresh++
	}
}

type follower struct {
	call hash
	n    tally
}

func newExacts() exacts {
	return exacts{calls: map[hash]*exactCall{}, after: map[hash][]follower{}, values: map[hash]*seenIn{}}
}

// learn counts a call, and what was named just before it. What looks like a secret
// is not remembered.
func (x *exacts) learn(s *Session, e *event, arguments string) {
	if len(arguments) > maxCallSize || secret(e.args) {
		return
	}
	if h := seed.str(e.tool).str(value(arguments)); x.values[h] != nil || len(x.values) < maxSeen {
		if x.values[h] == nil {
			x.values[h] = &seenIn{}
		}
		x.values[h].see(s.number)
	}
	c := x.calls[e.call]
	if c == nil {
		if len(x.calls) >= maxExact {
			x.evict()
		}
		c = &exactCall{}
		x.calls[e.call] = c
	}
	c.tool, c.arguments = e.tool, arguments
	c.n = c.n.more(1)
	c.see(s.number)
	for _, h := range s.before() {
		x.follow(h, e.call)
	}
	if x.learned++; x.learned%64 == 0 || len(x.popular) < maxPopular {
		x.rank()
	}
}

func (x *exacts) follow(before, call hash) {
	f := x.after[before]
	i := slices.IndexFunc(f, func(o follower) bool { return o.call == call })
	switch {
	case i >= 0:
		f[i].n = f[i].n.more(1)
	case len(f) < maxAfter && (len(f) > 0 || len(x.after) < maxBefore):
		f = append(f, follower{call, tally{1, 1}})
	case len(f) > 0:
		for i := range f {
			f[i].n.n *= 0.9
		}
		weak := slices.MinFunc(f, func(a, b follower) int { return cmp.Compare(a.n.n, b.n.n) })
		f[slices.Index(f, weak)] = follower{call, tally{1, 1}}
	default:
		return
	}
	x.after[before] = f
}

// evict halves all counts and forgets the calls that are below one.
func (x *exacts) evict() {
	for h, c := range x.calls {
		if c.n.n *= 0.5; c.n.n < 1 {
			delete(x.calls, h)
		}
	}
	for h, f := range x.after {
		f = slices.DeleteFunc(f, func(o follower) bool { return x.calls[o.call] == nil })
		if x.after[h] = f; len(f) == 0 {
			delete(x.after, h)
		}
	}
}

// rank finds the calls that most sessions made.
func (x *exacts) rank() {
	x.popular = x.popular[:0]
	for h, c := range x.calls {
		if c.sessions >= several && c.arguments != "" {
			x.popular = append(x.popular, h)
		}
	}
	slices.SortFunc(x.popular, func(a, b hash) int {
		p, q := x.calls[a], x.calls[b]
		return cmp.Or(cmp.Compare(q.sessions, p.sessions), cmp.Compare(q.last, p.last), cmp.Compare(a, b))
	})
	x.popular = x.popular[:min(len(x.popular), maxPopular)]
}

// produce drafts the calls that followed what was just named, and those that most
// sessions made.
func (x *exacts) produce(s *Session, c *drafting) {
	s.turn++ // what comes next
	named := s.before()
	s.turn--
	for _, b := range named {
		for _, f := range x.after[b] {
			x.draft(f.call, ground{after: b}, s, c)
		}
	}
	for _, h := range x.popular {
		x.draft(h, ground{}, s, c)
	}
}

func (x *exacts) draft(h hash, g ground, s *Session, c *drafting) {
	e := x.calls[h]
	if e != nil && e.sessions >= several && e.arguments != "" && s.m.opt.Target(e.tool) {
		c.add(e.tool, e.arguments, g)
	}
}

// seen says in how many sessions a candidate's call was made, and a call with its
// value.
func (x *exacts) seen(d *draft) (calls, values int) {
	if c := x.calls[d.key]; c != nil {
		calls = 1 + c.sessions
	}
	if v := x.values[seed.str(d.tool).str(value(d.arguments))]; v != nil {
		values = 1 + v.sessions
	}
	return calls, values
}

// before are the values that the turns before this one named.
func (s *Session) before() []hash {
	var out []hash
	for _, e := range slices.Backward(s.events) {
		if e.turn >= s.turn {
			continue
		}
		if e.turn < s.turn-lookBack || len(out) >= 12 {
			break
		}
		for _, a := range e.args {
			if a.value.kind == text && len(a.value.text) >= 4 && len(a.value.text) <= 200 {
				out = append(out, seed.str(e.tool).str(a.value.text))
			}
		}
	}
	return out
}
