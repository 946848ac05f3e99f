package predict

import (
	"time"

	"mcpschedd/internal/jsonrpc"
)

// Bounds on what a session remembers.
const (
	maxOpen      = 256       // calls without an answer
	maxArguments = 64 << 10  // bytes of the arguments of a call that follow-ups read from
	maxRefused   = 64        // calls of follow-ups that no rule allows, until they are asked for
	mostRead     = 256 << 10 // bytes of a result, or of either part of it
)

// Session is one conversation with the upstream.
type Session struct {
	f       *Model
	p       *History
	open    map[uint64]trigger // ID → a call without an answer
	order   []uint64           // of the open calls, oldest first, and of answered ones
	refused []Candidate        // since guesses were last asked for
}

// trigger is a call that others may follow.
type trigger struct{ tool, arguments string }

// Begin starts a session. Its id tells it from those of all processes that share what
// is learned, and is the same whenever that session begins again. In a lone one several conversations cannot be told
// apart, as on a connection without state: only what follows from the newest
// answer is foreseen, and nothing is learned but how long calls take and how large
// their answers are.
func (f *Model) Begin(id uint64, lone bool) *Session {
	return &Session{f: f, p: f.m.Begin(id, lone), open: map[uint64]trigger{}}
}

// Call is one call that was made. Its arguments need not be canonical.

// Call learns from a call that was made.
func (s *Session) Call(c Call) {
	c.Arguments = s.canonical(c.Arguments)
	if m := s.f.o.Tool(c.Tool).Model; m != nil {
		s.f.upstream = m.Upstream
	}
	s.p.Call(c)
	t := trigger{c.Tool, c.Arguments}
	if len(t.arguments) > maxArguments {
		t.arguments = ""
	}
	s.await(c.ID, t)
}

// canonical is the canonical form of a call's arguments; "" if two servers may read
// them as two things: then there is nothing to learn but that the tool was called.
func (s *Session) canonical(arguments string) string {
	if arguments == "" {
		return "{}"
	}
	out, ok := jsonrpc.AppendCanonical(nil, []byte(arguments))
	if !ok {
		s.f.stats.Ambiguous++
		return ""
	}
	return string(out)
}

func (s *Session) await(id uint64, t trigger) {
	s.open[id] = t
	s.order = append(s.order, id)
	for len(s.order) > 0 && (len(s.open) > maxOpen || len(s.order) > 2*maxOpen) {
		if _, waits := s.open[s.order[0]]; waits {
			s.f.stats.Forgotten++
		}
		delete(s.open, s.order[0])
		s.order = s.order[1:]
	}
}

// Result says what came of a call.
type Result struct {
	ID         uint64 // of the call
	Failed     bool
	Text       []byte // as [Read] gives it, and may be cut; not kept
	Structured []byte // likewise
	Size       int    // bytes of the whole answer
	At         time.Time
	Unread     bool // Text and Structured were not looked at
}

// Result learns from the result of a call, and works out what is configured to
// follow. One of an unknown call, or a second one, is ignored.
func (s *Session) Result(r Result) {
	t, ok := s.open[r.ID]
	if !ok {
		return
	}
	delete(s.open, r.ID)
	s.p.Result(Outcome{ID: r.ID, Failed: r.Failed, Values: s.f.values(r), Size: r.Size, At: r.At})
	if r.Failed {
		return
	}
	s.f.checked.begin()
	proposals, refused := s.f.follow(t, r, true)
	for i := range refused {
		refused[i].Why.Follows = r.ID
	}
	s.p.Propose(r.ID, proposals)
	s.refused = append(s.refused, refused...)
	s.refused = s.refused[max(0, len(s.refused)-maxRefused):]
}

// values are what of a result later calls may be made of.
func (f *Model) values(r Result) *Values {
	switch {
	case r.Unread:
		f.stats.Unread++
		return nil
	case !f.o.Learn:
		return nil // nobody would look at them
	}
	return Extract(r.Text, r.Structured)
}

// Invalidate says that the answers of some calls, fetched before now, may not be
// served any more; nil: of all calls.
func (s *Session) Invalidate(stale func(tool, arguments string) bool) { s.p.Invalidate(stale) }

// End labels what is still open, and forgets the session.
func (s *Session) End() {
	s.p.End()
	clear(s.open)
	s.order, s.refused = nil, nil
}

// Guesses are the calls that may come next, the likeliest first. What no rule
// allows of what was configured comes last, and once.
func (s *Session) Guesses(now time.Time) []Candidate {
	found := s.p.Candidates(now)
	s.f.checked.begin()
	out := s.f.guesses(found, len(s.refused))
	out = append(out, s.refused...)
	s.refused = nil
	return out
}

// Suppose returns what would follow if a guess were made and answered so. P is that
// of both. Only a guess at the next call is followed, not one at what follows a
// guess: at two removes little is likely.
func (s *Session) Suppose(g Candidate, r Result, now time.Time) []Candidate {
	if g.Why.Depth != 0 || r.Failed || r.Unread {
		return nil
	}
	s.f.stats.Supposed++
	s.f.checked.begin()
	proposals, refused := s.f.follow(trigger{g.Key.Tool, g.Key.Arguments}, r, g.Why.Free)
	found := s.p.Suppose(g.Key.Tool, g.Key.Arguments, s.f.values(r), proposals, now)
	out := append(s.f.guesses(found, len(refused)), refused...)
	for i := range out {
		out[i].P *= g.P
		out[i].Why.Depth = 1
		out[i].Why.Follows, out[i].Why.after = g.Why.Follows, g.Key.Tool+" "+g.Key.Arguments
	}
	return out
}
