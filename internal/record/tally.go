package record

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// Tally adds up events. It is safe for concurrent use, and keeps no reference to an event other
// than its strings.
//
// Hidden time is the sum of HiddenMS over calls answered from the store or from a flight. It is
// attributed to a prefetch if the call is its first use (UseOf), otherwise to a repeat.
type Tally struct {
	mu        sync.Mutex
	event     Event // scratch space of Add
	total     sums
	tools     map[toolKey]*toolSums
	upstreams map[string]*sums
	processes processes
	sessions  sessions
	config    Config
	began     int64 // start of the process that config belongs to
	series    series
	graph     graph
	recent    recent
}

// toolKey identifies a tool.
type toolKey struct{ upstream, tool string }

// toolSums is the figures of one tool.
type toolSums struct {
	sums
	name     string // upstream/tool
	followed int64  // turns with a call of the tool that were followed by another turn
}

// NewTally returns an empty Tally. It keeps the rows of at most sessionRows sessions, 0 meaning
// no limit, and evicts the oldest session that has ended first.
func NewTally(sessionRows int) *Tally {
	return &Tally{
		tools: make(map[toolKey]*toolSums), upstreams: make(map[string]*sums), processes: processes{running: make(map[string]string)},
		sessions: sessions{limit: sessionRows, byName: make(map[string]*session)},
		series:   make(series), graph: graph{pairs: make(map[pairKey]*pair)}, recent: newRecent(),
	}
}

// Add counts an event that was read from a file. It clamps untrusted numbers, times and names,
// which takes half a microsecond.
func (t *Tally) Add(event *Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := &t.event
	*e = *event
	sanitize(reflect.ValueOf(e).Elem())
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
	t.processes.observe(e)
	s := t.sessions.get(e, t.processes.running[e.Process])
	if wrong := invalid(e); wrong != "" {
		*t.recent.problems.next() = truncate(wrong, 500)
		return
	}
	tool := t.sum(e, s)
	switch e.Kind {
	case Begin:
		t.begin(e)
	case Call:
		t.call(e, s, tool)
	case Prefetch:
		t.graph.addPrefetch(s.toolOfCall(e.After), tool, used(e))
		t.series.add(micros(e.At)+int64(e.LatencyMS*1e3), Point{Issued: 1, Used: boolToInt(used(e))})
		copyForDisplay(t.recent.timeline.next(), e)
	case Choice:
		c := t.recent.decisions.next()
		copyForDisplay(c, e)
		if c.Tool = ""; s.toolOfCall(e.After) != nil {
			c.Tool = s.toolOfCall(e.After).name
		}
	case Level:
		copyForDisplay(t.recent.levels.next(), e)
	case End:
		t.end(e, s)
	}
}

// invalid returns the reason why an event cannot be counted, or "".
func invalid(e *Event) string {
	switch {
	case e.Kind == Call && !slices.Contains([]Disposition{Hit, Joined, Fetched, Failed}, e.Disposition):
		return fmt.Sprintf("session %s: a call with the unknown disposition %q is not counted", e.Session, e.Disposition)
	case e.Kind == Prefetch && !slices.Contains([]Fate{Used, Late, Wasted, Compared}, e.Fate):
		return fmt.Sprintf("session %s: a prefetch with the unknown fate %q is not counted", e.Session, e.Fate)
	}
	return ""
}

// sum adds an event to all sums that it belongs to. It returns the event's tool, or nil.
func (t *Tally) sum(e *Event, s *session) (tool *toolSums) {
	t.total.add(e)
	if s != nil {
		s.add(e)
	}
	switch e.Kind {
	case Call, Prefetch, Sent:
		if e.Upstream != "" || e.Kind == Prefetch || e.Prefetched && e.Kind == Sent {
			tool = t.tool(e.Upstream, e.Tool)
			tool.add(e)
		}
		if e.Upstream != "" {
			t.upstream(e.Upstream).add(e)
		}
	}
	return tool
}

func (t *Tally) begin(e *Event) {
	if at := micros(e.At); at >= t.began {
		t.began = at
		t.config = Config{Path: e.Config, LoadedAt: FormatTime(e.At)}
	}
}

func (t *Tally) call(e *Event, s *session, tool *toolSums) {
	if s != nil && tool != nil {
		s.addCall(e.Seq, tool)
		if e.Plan == 0 {
			t.graph.addCall(s, e.Turn, tool)
		}
	}
	p := Point{Calls: 1, Reads: boolToInt(reads(e)), WaitedMS: e.LatencyMS}
	if served(e) {
		p.HiddenMS, p.Served = e.HiddenMS, boolToInt(e.UseOf > 0)
	}
	t.series.add(micros(e.At), p)
	copyForDisplay(t.recent.timeline.next(), e)
}

// end ends a session, or a process with all its open sessions.
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

// Problem adds a problem with the record itself, such as a line that cannot be read. The last
// 20 are kept.
func (t *Tally) Problem(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*t.recent.problems.next() = truncate(text, 500)
}

// Stats returns the figures so far. Processes without an end event count as running until now.
// For recorded events pass the zero time: such processes then ended with the last event.
func (t *Tally) Stats(now time.Time) Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.statsLocked(now)
}

func (t *Tally) statsLocked(now time.Time) Stats {
	s := Stats{
		SchemaVersion: 1,
		UptimeS:       t.processes.uptime(micros(now)),
		Processes:     t.processes.n,
		Sessions:      t.sessions.n,
		Open:          t.sessions.open,
		Config:        t.config,
		Totals:        t.total.totals(),
		Upstreams:     make(map[string]Part, len(t.upstreams)),
		Tools:         make(map[string]Part, len(t.tools)),
		Hosts:         make(map[string]Host),
	}
	for name, sum := range t.upstreams {
		s.Upstreams[name] = sum.part()
	}
	for _, tool := range t.tools {
		s.Tools[tool.name] = tool.part()
	}
	s.Report = s.ReportLine()
	return s
}

// tool returns the figures of a tool, and creates them if necessary. Tools beyond the bound
// share one.
func (t *Tally) tool(upstream, name string) *toolSums {
	key := toolKey{truncate(upstream, maxName/2), truncate(name, maxName/2)}
	if tool := t.tools[key]; tool != nil {
		return tool
	}
	key = toolKey{strings.Clone(key.upstream), strings.Clone(key.tool)} // they may be substrings of a whole message
	if len(t.tools) >= maxTools {
		key = toolKey{"", other}
	}
	tool := t.tools[key]
	if tool == nil {
		tool = &toolSums{name: strings.TrimPrefix(key.upstream+"/"+key.tool, "/")}
		t.tools[key] = tool
	}
	return tool
}

// upstream returns the sums of an upstream, and creates them if necessary. Upstreams beyond the
// bound share one.
func (t *Tally) upstream(name string) *sums {
	name = boundedKey(t.upstreams, maxUpstreams, name)
	if t.upstreams[name] == nil {
		t.upstreams[name] = new(sums)
	}
	return t.upstreams[name]
}
