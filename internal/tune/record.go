package tune

import (
	"cmp"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"

	"mcpschedd/internal/record"
	"mcpschedd/internal/replay"
	"mcpschedd/internal/valuemodel"
)

// Event adds one line of an event log.
func (m *Miner) Event(e *record.Event) {
	switch e.Kind {
	case record.Begin:
		m.mode = e.Mode
	case record.Call:
		m.call(e)
	case record.Prefetch:
		if t := m.tool(e.Upstream + "/" + e.Tool); t != nil {
			t.fate(e)
			m.answer(e, t)
		}
	case record.Choice:
		for _, d := range e.Top {
			m.watched(e, &d)
		}
	}
}

func (m *Miner) call(e *record.Event) {
	t := m.tool(e.Upstream + "/" + e.Tool)
	if t == nil {
		return
	}
	m.source(e)
	if e.Disposition != record.Fetched {
		t.calls++
		if e.Disposition != record.Failed && !e.IsError {
			t.answers++
		}
	} else {
		t.called(millis(e), e.IsError, e.UpstreamMS, float64(e.Bytes))
		m.answer(e, t)
	}
	m.keep(e, t)
}

// answer remembers what the upstream answered, or that it may have changed something.
func (m *Miner) answer(e *record.Event, t *tool) {
	s := seen{at: millis(e), tool: t.number, session: m.session(e.Session)}
	if s.at <= 0 {
		return
	}
	if !valuemodel.Class(e.Class).Reads() {
		if e.Kind == record.Call {
			m.see(s)
		}
		return
	}
	args, known := hashOf(e.ArgsHash)
	result, told := hashOf(e.ResultHash)
	if known && told && !e.IsError {
		s.call, s.result = args*31+uint64(t.number)+1, max(result, 1)
		m.see(s)
	}
}

// hashOf reads a hash as it is written.
func hashOf(s string) (uint64, bool) {
	n, err := strconv.ParseUint(s, 16, 64)
	return n, err == nil && len(s) == 16
}

// millis is when an event was, in ms since 1970; 0 if that cannot be.
func millis(e *record.Event) int64 {
	ms := e.At.UnixMilli()
	if e.At.IsZero() || ms < 0 || ms > latest {
		return 0
	}
	return ms
}

const latest = 7_258_118_399_999 // ms since 1970: the end of the year 2199

// session numbers the sessions. Past a bound they are one.
func (m *Miner) session(id string) uint32 {
	n, known := m.sessions[id]
	if !known && len(m.sessions) < mostSessions {
		n = uint32(len(m.sessions) + 1)
		m.sessions[strings.Clone(id)] = n
	}
	return n
}

const mostSessions = 1 << 17

// watched counts a guess that was only watched.
func (m *Miner) watched(e *record.Event, d *record.Decision) {
	if d.Reason != "shadow" || e.Unresolved {
		return
	}
	name := d.Tool
	if !strings.Contains(name, "/") {
		name = e.Upstream + "/" + name
	}
	if t := m.tool(name); t != nil {
		t.shadow.n++
		if d.Called {
			t.shadow.called++
		}
	}
}

// source counts a call to what was read.
func (m *Miner) source(e *record.Event) {
	s := m.sourceOf(e.Process)
	if s == nil {
		return
	}
	s.Calls++
	s.span(millis(e))
	if n := m.session(e.Session); n > 0 && !m.counted[n] {
		m.counted[n] = true
		s.Sessions++
	}
}

// sourceOf finds what was read by its name, or begins it; nil if there are too many.
func (m *Miner) sourceOf(name string) *Source {
	i, known := m.from[name]
	if !known {
		if len(m.from) >= mostSources {
			return nil
		}
		i = len(m.sources)
		name = strings.Clone(name)
		m.from[name] = i
		m.sources = append(m.sources, Source{Name: name})
	}
	return &m.sources[i]
}

const mostSources = 1 << 10

func (s *Source) span(at int64) {
	if at <= 0 {
		return
	}
	if s.From == 0 || at < s.From {
		s.From = at
	}
	s.To = max(s.To, at)
}

// keep keeps a call whose arguments were recorded, for follow-ups to be read off it.
func (m *Miner) keep(e *record.Event, t *tool) {
	const beside = 160 // bytes of a call beside its arguments
	if len(e.Arguments) == 0 {
		m.left.unsaid++
	}
	if len(e.Arguments) == 0 || len(e.Arguments) > mostArguments || e.Session == "" {
		return
	}
	n := m.session(e.Session)
	if n == 0 || m.kept+int64(len(e.Arguments))+beside > m.o.Bytes/8 {
		m.left.arguments++
		return
	}
	m.kept += int64(len(e.Arguments)) + beside
	start := millis(e)
	took := min(max(e.LatencyMS, 0), 1e9)
	if math.IsNaN(took) {
		took = 0
	}
	m.spoken[n] = append(m.spoken[n], said{
		tool: t, args: strings.Clone(e.Arguments), at: start, took: int64(took), turn: e.Turn, seq: e.Seq, failed: e.IsError || e.Disposition == record.Failed,
	})
}

// said is a call whose arguments were recorded.
type said struct {
	tool     *tool
	args     string
	at, took int64 // ms
	turn     int
	seq      int64
	failed   bool
}

// followEvents reads follow-ups off the calls whose arguments were recorded.
func (m *Miner) followEvents() {
	var sessions []session
	for id, n := range m.sessions {
		calls := m.spoken[n]
		if len(calls) < 2 {
			continue
		}
		slices.SortStableFunc(calls, func(a, b said) int { return cmp.Compare(a.seq, b.seq) })
		sessions = append(sessions, session{sum(id), calls[0].at, m.steps(calls)})
	}
	clear(m.spoken)
	m.kept = 0
	m.hold(sessions)
}

func (m *Miner) steps(calls []said) []step {
	out := make([]step, 0, len(calls))
	for i, c := range calls {
		s := step{tool: c.tool.name, args: c.args, failed: c.failed, start: c.at, end: c.at + max(c.took, 1)}
		if i > 0 {
			s.turn = out[i-1].turn
			if c.turn == 0 || c.turn != calls[i-1].turn {
				s.turn++
			}
		}
		m.judge(&s)
		out = append(out, s)
	}
	lay(out)
	return out
}

// Trace adds the calls of some recorded sessions, in the order in which they were
// made. Sessions of two calls of it are never the same.
func (m *Miner) Trace(name string, calls []replay.Call) {
	sessions := m.sessionsOf(name, calls)
	number := make(map[string]uint32)
	var from, to int64
	for i := range calls {
		c := &calls[i]
		n, known := number[c.Session]
		if !known {
			m.traced++
			n = m.traced
			number[c.Session] = n
		}
		if c.Start != nil && (from == 0 || *c.Start < from) {
			from = *c.Start
		}
		if c.Start != nil {
			to = max(to, *c.Start)
		}
		m.recorded(c, n)
	}
	if src := m.sourceOf(name); src != nil {
		src.Calls += len(calls)
		src.Sessions += len(sessions)
		src.span(from)
		src.span(to)
	}
	m.hold(sessions)
}

// recorded counts a recorded call as if it were an event.
func (m *Miner) recorded(c *replay.Call, session uint32) {
	t := m.tool(m.named(c.Tool))
	if t == nil {
		return
	}
	var at int64
	var took float64
	if c.Start != nil && c.End != nil {
		at, took = *c.Start, float64(*c.End-*c.Start)
	}
	t.called(at, c.Failed, took, float64(c.Bytes))
	s := m.step(c)
	if at <= 0 {
		return
	}
	o := seen{at: at, tool: t.number, session: 1<<31 | session}
	switch {
	case s.effect.Changes():
		m.see(o)
	case !c.Failed && s.args != "" && len(s.places) > 0:
		o.call, o.result = sum(s.tool, s.args), sum(c.Text, strconv.Itoa(c.Bytes))
		m.see(o)
	}
}

// sum tells texts apart.
func sum(texts ...string) uint64 {
	h := fnv.New64a()
	for _, t := range texts {
		h.Write([]byte(t))
		h.Write([]byte{0xff})
	}
	return max(h.Sum64(), 1)
}
