package telemetry

import (
	"cmp"
	"container/list"
	"slices"
	"time"

	"mcpschedd/internal/events"
)

// Row is what is known of one session.
type Row struct {
	Process string
	Session string
	Client  string    // name and version, as it says
	Begin   time.Time // of its line; of its first call where there is none
	End     time.Time // zero: it is open, or its process ended without a word
	Totals
}

// session is what is kept of one.
type session struct {
	*sums
	name, client string
	process      *process
	begin, end   int64 // microseconds; end is 0 while it is open
	named        bool  // there was a session line
	place, done  *list.Element
	open         *open           // nil once it has ended
	claims       map[int64]claim // call → what is said of the prefetch that it used
}

// open is what is kept of a session only while it lasts.
type open struct {
	turn      int     // of the last call
	now, then []int32 // tools called in that turn, and in the one before; each once
	calls     []answered
	seen      window
}

// answered is a call, for what refers to it by its number.
type answered struct {
	seq  int64
	tool int32
}

// rememberedCalls of a session can be referred to; a power of two.
const rememberedCalls = 256

// sessions are those of which rows are kept.
type sessions struct {
	most   int // 0: any number
	byName map[string]*session
	all    list.List // in the order in which they were first heard of
	closed list.List // in the order in which they ended
	n      int64     // that there have been
}

func newSessions(most int) sessions {
	return sessions{most: most, byName: make(map[string]*session)}
}

// session is that of an event, which may be the first that is heard of it; nil: it
// has none.
func (t *Tally) session(e *events.Event) *session {
	if e.Session == "" {
		return nil
	}
	s := t.sessions.of(e.Session, nil)
	if s == nil {
		if e.Kind == events.End {
			return nil // of a session that went before, or of which nothing was recorded
		}
		s = t.sessions.add(clean(e.Session))
		t.audit.left(t.sessions.bound())
	}
	at := micros(e.At)
	if e.Kind == events.Session && !s.named {
		s.named, s.client, s.begin = true, clean(e.Client), at
	}
	if !s.named && at > 0 && (s.begin == 0 || at < s.begin) {
		s.begin = at
	}
	return s
}

func (l *sessions) add(name string) *session {
	s := &session{sums: newSums(1), name: name, open: new(open)}
	l.byName[name] = s
	s.place = l.all.PushBack(s)
	l.n++
	return s
}

// bound lets go of one session if there are too many: the one that ended first, or
// the oldest if none has ended.
func (l *sessions) bound() *session {
	if l.most <= 0 || l.all.Len() <= l.most {
		return nil
	}
	first := cmp.Or(l.closed.Front(), l.all.Front())
	s := first.Value.(*session)
	l.all.Remove(s.place)
	if s.done != nil {
		l.closed.Remove(s.done)
	}
	delete(l.byName, s.name)
	return s
}

// of finds a session by its name; "" is the one given.
func (l *sessions) of(name string, self *session) *session {
	if name == "" {
		return self
	}
	if s, ok := l.byName[name]; ok {
		return s
	}
	return l.byName[cut(name, longest)]
}

func (l *sessions) close(s *session, at int64) {
	if s.open == nil {
		return
	}
	s.open, s.end = nil, max(at, s.begin)
	s.done = l.closed.PushBack(s)
}

// closeAll ends what a process had open.
func (l *sessions) closeAll(process string, at int64) {
	for e := l.all.Front(); e != nil; e = e.Next() {
		if s := e.Value.(*session); s.open != nil && s.process.name == process {
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
	s.open.calls[seq&(rememberedCalls-1)] = answered{seq, of.id}
}

// toolOf is the tool of a call, by its number; -1: not known, or not any more.
func (s *session) toolOf(seq int64) int32 {
	if s.open == nil || seq <= 0 {
		return -1
	}
	at := seq & (rememberedCalls - 1)
	if at >= int64(len(s.open.calls)) || s.open.calls[at].seq != seq {
		return -1
	}
	return s.open.calls[at].tool
}

// Rows are what is known of each session, in the order in which they began.
func (t *Tally) Rows() []Row {
	t.mu.Lock()
	defer t.mu.Unlock()
	perToken := t.total.bytesPerToken()
	rows := make([]Row, 0, t.sessions.all.Len())
	for e := t.sessions.all.Front(); e != nil; e = e.Next() {
		s := e.Value.(*session)
		rows = append(rows, Row{
			Process: s.process.name, Session: s.name, Client: s.client,
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
