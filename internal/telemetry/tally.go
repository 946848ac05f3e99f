package telemetry

import (
	"fmt"
	"sync"
	"time"

	"mcpschedd/internal/events"
)

// Options say how much is kept. The zero value works.
type Options struct {
	Timeline int          // calls and prefetches kept for the timeline; default 400
	Sessions int          // sessions of which a row is kept, those that ended first go first, and count as others if they are heard of again; 0: all
	Lost     func() int64 // lines that could not be written; nil: none
}

// Tally adds events up. It may be used by several goroutines; adding an event takes
// about a microsecond.
//
// How it counts, where that is not said at the fields of [Stats]:
//   - A call has exactly one disposition. One without an upstream (nobody knows the
//     tool) has failed, and belongs to no tool.
//   - Every prefetch line is one prefetch issued. Which call used it is said twice, by
//     its own line and by the call's; [Tally.Audit] holds the two against each other.
//   - Hidden waiting is what the lines of calls answered from the store or from a
//     flight say. That of the first use of a prefetch (UseOf) is the prefetch's; of any
//     other it is a repeat's.
//   - A plan that was cancelled saved nothing: nobody read its answer.
//   - Of a prefetch and of the call that was its first use the predicted size counts
//     once, with the prefetch.
//   - Times are put right, not believed: what is negative or no number is 0.
type Tally struct {
	options Options

	mu        sync.Mutex
	total     *sums
	tools     map[string]*tool // upstream/tool → what is about it
	byID      []*tool
	upstreams map[string]*sums
	name      []byte // room for the name of a tool that is looked up
	processes processes
	sessions  sessions
	hosts     hosts
	config    Config
	began     int64 // when the process began that Config is of
	series    series
	graph     graph
	audit     audit
	bars      last[Bar]
	decisions last[decision]
	levels    last[LevelView]
	problems  last[string]
}

// New makes a Tally of nothing.
func New(o Options) *Tally {
	if o.Timeline <= 0 {
		o.Timeline = 400
	}
	t := &Tally{
		options:   o,
		total:     newSums(2),
		tools:     make(map[string]*tool),
		upstreams: make(map[string]*sums),
		processes: newProcesses(),
		sessions:  newSessions(o.Sessions),
		hosts:     newHosts(),
		series:    newSeries(),
		graph:     newGraph(),
		bars:      last[Bar]{most: o.Timeline},
		decisions: last[decision]{most: 50},
		levels:    last[LevelView]{most: 50},
		problems:  last[string]{most: 20},
	}
	t.tool("", other) // so that there is one to fall back on
	return t
}

// Add counts an event. It keeps nothing of e but strings.
func (t *Tally) Add(e *events.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.session(e)
	p := t.process(e, s)
	p.saw(e)
	switch e.Kind {
	case events.Begin:
		t.begin(e)
	case events.Call:
		t.call(e, s)
	case events.Prefetch:
		t.prefetch(e, s, p)
	case events.Sent:
		t.sent(e, s)
	case events.Choice:
		t.choice(e, s)
	case events.Plan:
		t.total.plan(e)
		if s != nil {
			s.plan(e)
		}
	case events.Level:
		t.level(e)
	case events.Harm:
		t.harm(e, s)
	case events.State:
		for i := range e.Hosts {
			t.hosts.state(e.Process, &e.Hosts[i])
		}
	case events.End:
		t.end(e, s, p)
	}
}

// sent counts requests that are not in the line of their call, and guesses under way.
func (t *Tally) sent(e *events.Event, s *session) {
	of := []*sums{t.total}
	if e.Upstream != "" || e.Prefetched {
		of = append(of, t.tool(e.Upstream, e.Tool).sums)
	}
	if e.Upstream != "" {
		of = append(of, t.upstream(e.Upstream))
	}
	if s != nil {
		of = append(of, s.sums)
	}
	for _, f := range of {
		f.sent(e)
	}
}

// Problem adds something that is wrong with the record itself, such as a line that
// cannot be read. The last 20 are shown.
func (t *Tally) Problem(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.problemLocked(text)
}

func (t *Tally) problemLocked(text string) { *t.problems.put() = cut(text, 500) }

func (t *Tally) begin(e *events.Event) {
	if at := micros(e.At); at >= t.began {
		t.began = at
		t.config = Config{Path: e.Config}
		if at > 0 {
			t.config.LoadedAt = time.UnixMicro(at).UTC().Format(time.RFC3339)
		}
	}
}

func (t *Tally) call(e *events.Event, s *session) {
	d := e.Disposition
	if e.Upstream == "" {
		d = events.Failed
	}
	if d != events.Hit && d != events.Joined && d != events.Fetched && d != events.Failed {
		t.problemLocked(fmt.Sprintf("a call of session %s says that it came by its answer as %q: not counted", e.Session, d))
		return
	}
	t.total.call(e, d)
	name := cut(e.Tool, longest)
	if e.Upstream != "" {
		of := t.tool(e.Upstream, e.Tool)
		of.call(e, d)
		t.upstream(e.Upstream).call(e, d)
		name = of.name
		if s != nil {
			s.answered(e.Seq, of)
			if e.Plan == 0 {
				t.graph.follow(s, e.Turn, of, t.byID)
			}
		}
	}
	if s != nil {
		s.call(e, d)
		t.audit.call(s, e, d)
	}
	t.series.add(micros(e.At), callPoint(e, d))
	*t.bars.put() = callBar(e, s, name, d)
}

func (t *Tally) prefetch(e *events.Event, s *session, p *process) {
	if e.Fate != events.Used && e.Fate != events.Late && e.Fate != events.Wasted && e.Fate != events.Compared {
		t.problemLocked(fmt.Sprintf("a prefetch of session %s says that it became %q: not counted", e.Session, e.Fate))
		return
	}
	of := t.tool(e.Upstream, e.Tool)
	t.total.prefetch(e)
	of.prefetch(e)
	if e.Upstream != "" {
		t.upstream(e.Upstream).prefetch(e)
	}
	if s != nil {
		s.prefetch(e)
		t.audit.prefetch(s, t.sessions.of(e.BySession, s), e)
		if from := s.toolOf(e.After); from >= 0 {
			t.graph.guess(t.byID[from], of, used(e))
		}
	}
	t.series.add(p.last, prefetchPoint(e))
	*t.bars.put() = prefetchBar(e, s, of.name)
}

func (t *Tally) choice(e *events.Event, s *session) {
	t.total.choice(e)
	after := ""
	if s != nil {
		s.choice(e)
		if from := s.toolOf(e.After); from >= 0 {
			after = t.byID[from].name
		}
	}
	t.decisions.put().set(e, s, after)
}

func (t *Tally) harm(e *events.Event, s *session) {
	t.total.harm(e)
	if s != nil {
		s.harm(e)
	}
	if e.Why == foregroundWait {
		t.series.add(micros(e.At), Point{HarmMS: ms(e.LatencyMS)})
	}
}

func (t *Tally) level(e *events.Event) {
	if e.Host != "" {
		t.hosts.level(e.Process, e.Host, e.To)
	}
	*t.levels.put() = LevelView{AtUS: micros(e.At), Host: cut(e.Host, longest), Session: cut(e.Session, longest), From: e.From, To: e.To, Why: cut(e.Why, longest)}
}

func (t *Tally) end(e *events.Event, s *session, p *process) {
	if e.Session == "" {
		t.sessions.closeAll(p.name, micros(e.At))
		t.processes.end(p)
		t.hosts.ended(p.name)
		return
	}
	if s != nil {
		t.sessions.close(s, micros(e.At))
	}
}
