package record

import (
	"slices"
	"strings"
	"time"
)

// Row is the figures of one session.
type Row struct {
	Process string
	Session string
	Client  string    // name and version, as it says
	Begin   time.Time // of its line; of its first call where there is none
	End     time.Time // zero: it is open, or its process was killed
	Totals
}

// session is what is kept of one.
type session struct {
	*sums
	name, client string
	dir          string // where its client works, where that is known
	process      string
	begin, end   int64 // microseconds; end is 0 while it is open
	named        bool  // there was a session line
	open         *openSession
}

// openSession is what is kept of a session only while it lasts.
type openSession struct {
	turn      int             // of the last call
	now, then []int32         // tools called in that turn, and in the one before; each once
	calls     map[int64]int32 // number of a call → its tool, of the last so many
}

// rememberedCalls of a session can be referred to.
const rememberedCalls = 256

// sessions are those of which rows are kept.
type sessions struct {
	most   int // 0: any number
	byName map[string]*session
	dirs   map[string]string // process on stdio → its folder, in which its client works
	all    []*session        // in the order in which they were first heard of
	open   int               // of those
	n      int64             // that there have been
}

// of finds the session of an event, or makes it; nil: the event has none, or is the end of
// one that is not kept.
func (l *sessions) of(e *Event) *session {
	if e.Session == "" {
		return nil
	}
	s := l.find(e.Session)
	if s == nil {
		if e.Kind == End {
			return nil
		}
		s = l.add(clean(e.Session), clean(e.Process))
		s.dir = l.dirs[s.process]
	}
	at := micros(e.At)
	if e.Kind == Session && !s.named {
		s.named, s.client, s.begin = true, clean(e.Client), at
	}
	if !s.named && at > 0 && (s.begin == 0 || at < s.begin) {
		s.begin = at
	}
	return s
}

func (l *sessions) find(name string) *session {
	if s, ok := l.byName[name]; ok {
		return s
	}
	return l.byName[cut(name, longest)]
}

func (l *sessions) add(name, process string) *session {
	s := &session{sums: new(sums), name: name, process: process, open: new(openSession)}
	l.byName[name] = s
	l.all = append(l.all, s)
	l.n++
	l.open++
	if l.most > 0 && len(l.all) > l.most {
		l.drop()
	}
	return s
}

// drop lets go of the first session that has ended, or of the first one if none has.
func (l *sessions) drop() {
	at := max(slices.IndexFunc(l.all, func(s *session) bool { return s.open == nil }), 0)
	s := l.all[at]
	if s.open != nil {
		l.open--
	}
	delete(l.byName, s.name)
	l.all = slices.Delete(l.all, at, at+1)
}

func (l *sessions) close(s *session, at int64) {
	if s.open != nil {
		s.open, s.end = nil, max(at, s.begin)
		l.open--
	}
}

// closeAll ends what a process had open.
func (l *sessions) closeAll(process string, at int64) {
	for _, s := range l.all {
		if s.process == process {
			l.close(s, at)
		}
	}
}

// answered remembers which tool a call was of.
func (s *session) answered(seq int64, of *tool) {
	if s.open == nil || seq <= 0 {
		return
	}
	if s.open.calls == nil {
		s.open.calls = make(map[int64]int32)
	}
	delete(s.open.calls, seq-rememberedCalls)
	if len(s.open.calls) < 2*rememberedCalls { // numbers from elsewhere may have gaps
		s.open.calls[seq] = of.id
	}
}

// toolOf is the tool of a call, by its number; -1: not known, or not any more.
func (s *session) toolOf(seq int64) int32 {
	if s == nil || s.open == nil {
		return -1
	}
	if id, ok := s.open.calls[seq]; ok {
		return id
	}
	return -1
}

// Rows are the figures of each session, in the order in which they began.
func (t *Tally) Rows() []Row {
	t.mu.Lock()
	defer t.mu.Unlock()
	rows := make([]Row, 0, len(t.sessions.all))
	for _, s := range t.sessions.all {
		rows = append(rows, Row{
			Process: s.process, Session: s.name, Client: s.client,
			Begin: timeOf(s.begin), End: timeOf(s.end), Totals: s.totals(),
		})
	}
	slices.SortStableFunc(rows, func(a, b Row) int { return a.Begin.Compare(b.Begin) })
	return rows
}

// timeOf is a time of microseconds since 1970, zero if it is not known.
func timeOf(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.UnixMicro(at).UTC()
}

// mostProcesses that have not ended are told apart.
const mostProcesses = 1024

// processes are those of which there are events.
type processes struct {
	running     map[string]bool
	n           int64
	first, last int64 // microseconds, from the first event to the end of the last; 0: none had a time
}

// saw takes note of an event.
func (l *processes) saw(e *Event) {
	if !l.running[e.Process] {
		if len(l.running) >= mostProcesses { // of those that were killed there is no end
			clear(l.running)
		}
		l.running[strings.Clone(e.Process)] = true
		l.n++
	}
	if at := micros(e.At); at > 0 {
		if l.first == 0 || at < l.first {
			l.first = at
		}
		l.last = max(l.last, over(e))
	}
}

// over is when what an event tells of was over.
func over(e *Event) int64 {
	at := micros(e.At)
	if e.Kind == Call || e.Kind == Prefetch || e.Kind == Plan { // of others LatencyMS is no time since At
		at += int64(amount(e.LatencyMS) * 1e3)
	}
	return at
}

// up is for how many seconds there were events, until now if a process runs.
func (l *processes) up(now int64) int64 {
	last := l.last
	if len(l.running) > 0 {
		last = max(last, now)
	}
	return (last - l.first) / second
}
