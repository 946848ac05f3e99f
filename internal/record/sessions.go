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
	process      string
	begin, end   int64 // microseconds; end is 0 while it is open
	named        bool  // there was a session line
	open         *openSession
}

// openSession is what is kept of a session only while it lasts.
type openSession struct {
	turn      int     // of the last call
	now, then []int32 // tools called in that turn, and in the one before; each once
	calls     []answered
}

// answered is a call, for what refers to it by its number.
type answered struct {
	seq  int64
	tool int32
}

// rememberedCalls of a session can be referred to.
const rememberedCalls = 256

// sessions are those of which rows are kept.
type sessions struct {
	most   int // 0: any number
	byName map[string]*session
	all    []*session // in the order in which they were first heard of
	open   int        // of those
	n      int64      // that there have been
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
	s := &session{sums: newSums(1), name: name, process: process, open: new(openSession)}
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
	for int64(len(s.open.calls)) <= seq && len(s.open.calls) < rememberedCalls {
		s.open.calls = append(s.open.calls, answered{})
	}
	s.open.calls[seq%rememberedCalls] = answered{seq, of.id}
}

// toolOf is the tool of a call, by its number; -1: not known, or not any more.
func (s *session) toolOf(seq int64) int32 {
	if s == nil || s.open == nil || seq <= 0 {
		return -1
	}
	at := seq % rememberedCalls
	if at >= int64(len(s.open.calls)) || s.open.calls[at].seq != seq {
		return -1
	}
	return s.open.calls[at].tool
}

// Rows are the figures of each session, in the order in which they began.
func (t *Tally) Rows() []Row {
	t.mu.Lock()
	defer t.mu.Unlock()
	perToken := t.total.bytesPerToken()
	rows := make([]Row, 0, len(t.sessions.all))
	for _, s := range t.sessions.all {
		rows = append(rows, Row{
			Process: s.process, Session: s.name, Client: s.client,
			Begin: timeOf(s.begin), End: timeOf(s.end), Totals: s.totals(perToken),
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

// mostProcesses are kept that have not ended: those that were killed never do.
const mostProcesses = 1024

// span is from the first to the last event of a process, in microseconds; 0: none had a time.
type span struct{ first, last int64 }

// processes are those that run, as far as is known.
type processes struct {
	running map[string]*span
	n       int64   // that there have been
	ended   float64 // microseconds that those no more running took together: wrong clocks make more of them than an integer holds
	last    int64   // of the events of those
}

// saw moves the time of a process to the end of what an event tells of, and returns when
// that is.
func (l *processes) saw(e *Event) int64 {
	p, ok := l.running[e.Process]
	if !ok {
		if len(l.running) >= mostProcesses {
			l.end(l.oldest())
		}
		p = new(span)
		l.running[strings.Clone(e.Process)] = p
		l.n++
	}
	if at := micros(e.At); at > 0 {
		if p.first == 0 || at < p.first {
			p.first = at
		}
		if e.Kind == Call || e.Kind == Prefetch || e.Kind == Plan { // of others LatencyMS is no time since At
			at += int64(amount(e.LatencyMS) * 1e3)
		}
		p.last = max(p.last, at)
	}
	return p.last
}

// oldest is the one whose last event is the oldest.
func (l *processes) oldest() (oldest string) {
	for name, p := range l.running {
		if o := l.running[oldest]; o == nil || p.last < o.last {
			oldest = name
		}
	}
	return oldest
}

// end takes note that a process is no more.
func (l *processes) end(name string) {
	if p, ok := l.running[name]; ok {
		l.ended += float64(p.last - p.first)
		l.last = max(l.last, p.last)
		delete(l.running, name)
	}
}

// latest is the time of the last event.
func (l *processes) latest() int64 {
	latest := l.last
	for _, p := range l.running {
		latest = max(latest, p.last)
	}
	return latest
}

// up is for how many seconds processes ran, those that run until now.
func (l *processes) up(now int64) int64 {
	all := l.ended
	for _, p := range l.running {
		if p.first > 0 {
			all += float64(max(now, p.last) - p.first)
		}
	}
	return int64(all / second)
}
