package record

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// Tally adds events up. It may be used by several goroutines, and keeps nothing of an event
// but strings.
//
// Hidden waiting is what the lines of calls answered from the store or from a flight say.
// That of the first use of a prefetch (UseOf) is the prefetch's; of any other it is a
// repeat's.
type Tally struct {
	mu        sync.Mutex
	event     Event // the one that Add puts right
	total     sums
	tools     map[toolKey]*tool
	upstreams map[string]*sums
	processes processes
	sessions  sessions
	config    Config
	began     int64 // when the process began that Config is of
	series    series
	graph     graph
	recent    recent
}

// toolKey names a tool.
type toolKey struct{ upstream, tool string }

// tool is what is counted of one.
type tool struct {
	sums
	name     string // upstream/tool
	followed int64  // turns with a call of it that another one followed
}

// NewTally makes a Tally of nothing. It keeps rows of so many sessions, 0: of all; of those that
// ended the oldest go first.
func NewTally(sessionRows int) *Tally {
	return &Tally{
		tools: make(map[toolKey]*tool), upstreams: make(map[string]*sums), processes: processes{running: make(map[string]string)},
		sessions: sessions{most: sessionRows, byName: make(map[string]*session)},
		series:   make(series), graph: graph{pairs: make(map[pairKey]*pair)}, recent: newRecent(),
	}
}

// Add counts an event that was read. Numbers, times and names are put right, not believed,
// which takes half a microsecond.
func (t *Tally) Add(event *Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := &t.event
	*e = *event
	tidy(reflect.ValueOf(e).Elem())
	if e.Kind == Call && e.Upstream == "" && e.Disposition != Failed {
		e.Disposition = Failed // no upstream has the tool
	}
	t.countLocked(e)
}

// Count counts an event of this process.
func (t *Tally) Count(e *Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.countLocked(e)
}

func (t *Tally) countLocked(e *Event) {
	t.processes.saw(e)
	s := t.sessions.of(e, t.processes.running[e.Process])
	if wrong := uncountable(e); wrong != "" {
		*t.recent.problems.next() = cut(wrong, 500)
		return
	}
	of := t.sum(e, s)
	switch e.Kind {
	case Begin:
		t.begin(e)
	case Call:
		t.call(e, s, of)
	case Prefetch:
		t.graph.prefetched(s.toolOf(e.After), of, used(e))
		t.series.add(micros(e.At)+int64(e.LatencyMS*1e3), Point{Issued: 1, Used: one(used(e))})
		show(t.recent.timeline.next(), e)
	case Choice:
		c := t.recent.decisions.next()
		show(c, e)
		if c.Tool = ""; s.toolOf(e.After) != nil {
			c.Tool = s.toolOf(e.After).name
		}
	case Level:
		show(t.recent.levels.next(), e)
	case End:
		t.end(e, s)
	}
}

// uncountable says why an event cannot be counted; "": it can.
func uncountable(e *Event) string {
	switch {
	case e.Kind == Call && !slices.Contains([]Disposition{Hit, Joined, Fetched, Failed}, e.Disposition):
		return fmt.Sprintf("a call of session %s says that it came by its answer as %q: not counted", e.Session, e.Disposition)
	case e.Kind == Prefetch && !slices.Contains([]Fate{Used, Late, Wasted, Compared}, e.Fate):
		return fmt.Sprintf("a prefetch of session %s says that it became %q: not counted", e.Session, e.Fate)
	}
	return ""
}

// sum adds an event to all sums that it belongs to. It returns its tool; nil: it has none.
func (t *Tally) sum(e *Event, s *session) (of *tool) {
	t.total.add(e)
	if s != nil {
		s.add(e)
	}
	switch e.Kind {
	case Call, Prefetch, Sent:
		if e.Upstream != "" || e.Kind == Prefetch || e.Prefetched && e.Kind == Sent {
			of = t.tool(e.Upstream, e.Tool)
			of.add(e)
		}
		if e.Upstream != "" {
			t.upstream(e.Upstream).add(e)
		}
	}
	return of
}

func (t *Tally) begin(e *Event) {
	if at := micros(e.At); at >= t.began {
		t.began = at
		t.config = Config{Path: e.Config, LoadedAt: FormatTime(e.At)}
	}
}

func (t *Tally) call(e *Event, s *session, of *tool) {
	if s != nil && of != nil {
		s.answered(e.Seq, of)
		if e.Plan == 0 {
			t.graph.follow(s, e.Turn, of)
		}
	}
	p := Point{Calls: 1, Reads: one(reads(e)), WaitedMS: e.LatencyMS}
	if served(e) {
		p.HiddenMS, p.Served = e.HiddenMS, one(e.UseOf > 0)
	}
	t.series.add(micros(e.At), p)
	show(t.recent.timeline.next(), e)
}

// end ends a session, or a process with all that it had open.
func (t *Tally) end(e *Event, s *session) {
	at := micros(e.At)
	if s != nil {
		t.sessions.close(s, at)
	}
	if e.Session != "" {
		return
	}
	delete(t.processes.running, e.Process)
	for _, s := range t.sessions.all {
		if s.process == e.Process {
			t.sessions.close(s, at)
		}
	}
}

// Problem adds something that is wrong with the record itself, such as a line that cannot
// be read. The last 20 are shown.
func (t *Tally) Problem(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*t.recent.problems.next() = cut(text, 500)
}

// Stats are the figures so far. Processes that have not ended count as running until now;
// for recorded events now is the zero time, and they ended with their last one.
func (t *Tally) Stats(now time.Time) Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.statsLocked(now)
}

func (t *Tally) statsLocked(now time.Time) Stats {
	s := Stats{
		SchemaVersion: 1,
		UptimeS:       t.processes.up(micros(now)),
		Processes:     t.processes.n,
		Sessions:      t.sessions.n,
		Open:          t.sessions.open,
		Config:        t.config,
		Totals:        t.total.totals(),
		Upstreams:     make(map[string]Part, len(t.upstreams)),
		Tools:         make(map[string]Part, len(t.tools)),
		Hosts:         make(map[string]Host),
	}
	for name, of := range t.upstreams {
		s.Upstreams[name] = of.part()
	}
	for _, of := range t.tools {
		s.Tools[of.name] = of.part()
	}
	s.Report = s.ReportLine()
	return s
}

// tool finds a tool, or makes it; beyond the bound it is the other.
func (t *Tally) tool(upstream, name string) *tool {
	key := toolKey{cut(upstream, longest/2), cut(name, longest/2)}
	if of := t.tools[key]; of != nil {
		return of
	}
	key = toolKey{strings.Clone(key.upstream), strings.Clone(key.tool)} // they may be part of a message
	if len(t.tools) >= mostTools {
		key = toolKey{"", other}
	}
	of := t.tools[key]
	if of == nil {
		of = &tool{name: strings.TrimPrefix(key.upstream+"/"+key.tool, "/")}
		t.tools[key] = of
	}
	return of
}

// upstream finds the sums of one, or makes them; beyond the bound those of the others.
func (t *Tally) upstream(name string) *sums {
	name = within(t.upstreams, mostUpstreams, name)
	if t.upstreams[name] == nil {
		t.upstreams[name] = new(sums)
	}
	return t.upstreams[name]
}
