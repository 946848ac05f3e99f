package record

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// other is what counts together for what is beyond the bounds.
const other = "(other)"

// The bounds. Names come from clients and servers, which may invent any number of them, of
// any length.
const (
	mostTools     = 4096
	mostUpstreams = 256
	mostReasons   = 64  // reasons and causes of each kind
	longest       = 256 // bytes of a name
)

// Tally adds events up. It may be used by several goroutines; adding an event takes about a
// microsecond, and keeps nothing of it but strings.
//
// Hidden waiting is what the lines of calls answered from the store or from a flight say.
// That of the first use of a prefetch (UseOf) is the prefetch's; of any other it is a
// repeat's. Times are put right, not believed: what is negative or no number is 0.
type Tally struct {
	lost func() int64 // lines that could not be written

	mu        sync.Mutex
	total     *sums
	tools     map[string]*tool // upstream/tool → its figures
	byID      []*tool
	name      []byte // room for the name of a tool that is looked up
	upstreams map[string]*sums
	processes processes
	sessions  sessions
	hosts     hosts
	config    Config
	began     int64 // when the process began that Config is of
	series    series
	graph     graph
	recent    recent
}

// tool is what is counted of one.
type tool struct {
	*sums
	id       int32
	name     string // upstream/tool
	followed int64  // turns with a call of it that another one followed
}

// New makes a Tally of nothing. It keeps rows of so many sessions, 0: of all; of those that
// ended the oldest go first. lost may be nil.
func New(sessionRows int, lost func() int64) *Tally {
	if lost == nil {
		lost = func() int64 { return 0 }
	}
	t := &Tally{
		lost: lost, total: new(sums), tools: make(map[string]*tool), upstreams: make(map[string]*sums),
		processes: processes{running: make(map[string]bool)},
		sessions:  sessions{most: sessionRows, byName: make(map[string]*session), dirs: make(map[string]string)},
		hosts:     make(hosts), series: newSeries(), graph: graph{pairs: make(map[pairKey]*pair)}, recent: newRecent(),
	}
	t.tool("", other) // so that there is one to fall back on
	return t
}

// Add counts an event.
func (t *Tally) Add(e *Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.Kind == Call && e.Upstream == "" && e.Disposition != Failed {
		unanswered := *e
		unanswered.Disposition = Failed // no upstream has the tool
		e = &unanswered
	}
	s := t.sessions.of(e)
	t.processes.saw(e)
	if wrong := countless(e); wrong != "" {
		t.recent.problems.put(cut(wrong, 500))
		return
	}
	of := t.count(e, s)
	switch e.Kind {
	case Begin:
		t.begin(e)
	case Call:
		t.call(e, s, of)
	case Prefetch:
		if from := s.toolOf(e.After); from >= 0 {
			t.graph.prefetched(t.byID[from], of, used(e))
		}
		t.series.add(over(e), Point{Issued: 1, Used: one(used(e)), Wasted: one(e.Fate == Wasted)})
		t.recent.timeline.put(shown(e))
	case Choice:
		c := shown(e)
		if c.Tool = ""; s.toolOf(e.After) >= 0 {
			c.Tool = t.byID[s.toolOf(e.After)].name
		}
		t.recent.decisions.put(c)
	case Level:
		if e.Host != "" {
			t.hosts.set(e.Process, e.Host, func(h *Host) { h.Level = e.To })
		}
		t.recent.levels.put(shown(e))
	case Harm:
		if e.Why == "foreground_wait" {
			t.series.add(micros(e.At), Point{HarmMS: amount(e.LatencyMS)})
		}
	case State:
		for _, h := range e.Hosts {
			t.hosts.state(e.Process, h)
		}
	case End:
		t.end(e, s)
	}
}

// countless says why an event cannot be counted; "": it can.
func countless(e *Event) string {
	switch {
	case e.Kind == Call && !slices.Contains([]Disposition{Hit, Joined, Fetched, Failed}, e.Disposition):
		return fmt.Sprintf("a call of session %s says that it came by its answer as %q: not counted", e.Session, e.Disposition)
	case e.Kind == Prefetch && !slices.Contains([]Fate{Used, Late, Wasted, Compared}, e.Fate):
		return fmt.Sprintf("a prefetch of session %s says that it became %q: not counted", e.Session, e.Fate)
	}
	return ""
}

// count adds an event to all sums that it belongs to. It returns its tool; nil: it has none.
func (t *Tally) count(e *Event, s *session) (of *tool) {
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
	if e.Transport == "stdio" && len(t.sessions.dirs) < mostProcesses {
		t.sessions.dirs[clean(e.Process)] = clean(e.Dir)
	}
	if at := micros(e.At); at >= t.began {
		t.began = at
		t.config = Config{Path: e.Config}
		if at > 0 {
			t.config.LoadedAt = time.UnixMicro(at).UTC().Format(time.RFC3339)
		}
	}
}

func (t *Tally) call(e *Event, s *session, of *tool) {
	if s != nil && of != nil {
		s.answered(e.Seq, of)
		if e.Plan == 0 {
			t.graph.follow(s, e.Turn, of, t.byID)
		}
	}
	p := Point{Calls: 1, Reads: one(reads(e)), WaitedMS: amount(e.LatencyMS)}
	if served(e) {
		p.HiddenMS, p.Served = amount(e.HiddenMS), one(e.UseOf > 0)
	}
	t.series.add(micros(e.At), p)
	t.recent.timeline.put(shown(e))
}

func (t *Tally) end(e *Event, s *session) {
	at := micros(e.At)
	if e.Session == "" {
		t.sessions.closeAll(clean(e.Process), at)
		delete(t.sessions.dirs, clean(e.Process))
		delete(t.processes.running, e.Process)
		t.hosts.ended(clean(e.Process))
	} else if s != nil {
		t.sessions.close(s, at)
	}
}

// Problem adds something that is wrong with the record itself, such as a line that cannot
// be read. The last 20 are shown.
func (t *Tally) Problem(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.recent.problems.put(cut(text, 500))
}

// Stats are the figures so far. Processes that have not ended count as running until now;
// for recorded events now is the zero time, and they ended with their last one.
func (t *Tally) Stats(now time.Time) Stats {
	lost := max(t.lost(), 0)
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.statsLocked(now, lost)
}

func (t *Tally) statsLocked(now time.Time, lost int64) Stats {
	s := Stats{
		SchemaVersion: 1,
		UptimeS:       t.processes.up(micros(now)),
		Processes:     int(t.processes.n),
		Sessions:      int(t.sessions.n),
		Open:          t.sessions.open,
		Config:        t.config,
		Totals:        t.total.totals(),
		Upstreams:     make(map[string]Part, len(t.upstreams)),
		Tools:         make(map[string]Part, len(t.tools)),
		Hosts:         t.hosts.all(),
	}
	s.Totals.EventsLost = lost
	for name, of := range t.upstreams {
		s.Upstreams[name] = of.part()
	}
	for name, of := range t.tools {
		if name != other || of.sum.Calls+of.sum.Prefetch.Issued > 0 {
			s.Tools[name] = of.part()
		}
	}
	s.Report = s.Line()
	return s
}

// tool finds a tool, or makes it; beyond the bound it is the other.
func (t *Tally) tool(upstream, name string) *tool {
	t.name = append(append(append(t.name[:0], upstream...), '/'), name...)
	if upstream == "" {
		t.name = t.name[1:]
	}
	if of, ok := t.tools[string(t.name)]; ok { // without a copy
		return of
	}
	full := clean(string(t.name))
	if of, ok := t.tools[full]; ok {
		return of
	}
	if len(t.tools) > mostTools {
		return t.tools[other]
	}
	of := &tool{sums: new(sums), id: int32(len(t.byID)), name: full}
	t.tools[full] = of
	t.byID = append(t.byID, of)
	return of
}

// upstream finds the sums of one, or makes them; beyond the bound those of the others.
func (t *Tally) upstream(name string) *sums {
	if of, ok := t.upstreams[name]; ok {
		return of
	}
	if name = clean(name); len(t.upstreams) >= mostUpstreams {
		name = other
	}
	of, ok := t.upstreams[name]
	if !ok {
		of = new(sums)
		t.upstreams[name] = of
	}
	return of
}

// bump adds to a count by name; beyond the bound to that of the others.
func bump(m *map[string]int64, name string, n int64) {
	if n <= 0 {
		return
	}
	if *m == nil {
		*m = make(map[string]int64)
	}
	if _, ok := (*m)[name]; !ok {
		if name = clean(name); len(*m) >= mostReasons {
			name = other
		}
	}
	(*m)[name] += n
}

// clean is a copy of a name that can be a key of JSON, and is not too long.
func clean(name string) string { return strings.Clone(cut(name, longest)) }

// cut is at most n bytes of a text, in whole characters.
func cut(text string, n int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
