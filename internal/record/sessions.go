package record

import (
	"cmp"
	"slices"
	"strings"
)

// SessionInfo says which session a name stands for.
type SessionInfo struct {
	Session string `json:"session"`
	Client  string `json:"client,omitempty"`   // name and version, as it says
	Dir     string `json:"dir,omitempty"`      // where it works, where that is known
	BeginUS int64  `json:"begin_us,omitempty"` // of its line; of its first call where there is none
}

// SessionRow is the figures of one session. It has more than 15 fields with those of its totals.
type SessionRow struct {
	SessionInfo
	Process string
	EndUS   int64 // 0: it is open, or its process was killed
	Totals
}

// session is what is kept of one.
type session struct {
	sums
	SessionInfo
	process string
	end     int64 // microseconds; 0 while it is open
	begun   bool  // there was a session line
	open    *openSession
}

// openSession is what is kept of a session only while it lasts.
type openSession struct {
	turn      int     // of the last call
	now, then []*tool // tools called in that turn, and in the one before; each once
	calls     [256]struct {
		seq int64
		of  *tool
	} // the last ones, by the end of their number
}

// sessions are those of which rows are kept.
type sessions struct {
	most   int // 0: any number
	byName map[string]*session
	all    []*session // in the order of their first events
	open   int        // of those
	n      int        // that there have been
}

// of finds the session of an event, or makes it, of a client that works in dir; nil: the event
// has none, or is the end of one that is not kept.
func (l *sessions) of(e *Event, dir string) *session {
	s := l.byName[e.Session]
	if s == nil && (e.Session == "" || e.Kind == End) {
		return nil
	}
	if s == nil {
		s = l.add(&session{SessionInfo: SessionInfo{Session: strings.Clone(e.Session), Dir: dir}, process: e.Process, open: new(openSession)})
	}
	at := micros(e.At)
	if e.Kind == Session && !s.begun {
		s.begun, s.Client, s.BeginUS = true, e.Client, at
	}
	if !s.begun && at > 0 && (s.BeginUS == 0 || at < s.BeginUS) {
		s.BeginUS = at
	}
	return s
}

func (l *sessions) add(s *session) *session {
	l.byName[s.Session] = s
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
	delete(l.byName, s.Session)
	l.all = slices.Delete(l.all, at, at+1)
}

func (l *sessions) close(s *session, at int64) {
	if s.open != nil {
		s.open, s.end = nil, max(at, s.BeginUS)
		l.open--
	}
}

// answered remembers which tool a call was of.
func (s *session) answered(seq int64, of *tool) {
	if s.open != nil {
		c := &s.open.calls[seq%int64(len(s.open.calls))]
		c.seq, c.of = seq, of
	}
}

// toolOf is the tool of a call, by its number; nil: not known, or not any more.
func (s *session) toolOf(seq int64) *tool {
	if s == nil || s.open == nil || seq == 0 {
		return nil
	}
	if c := s.open.calls[seq%int64(len(s.open.calls))]; c.seq == seq {
		return c.of
	}
	return nil
}

// Rows are the figures of each session, in the order in which they began.
func (t *Tally) Rows() []SessionRow {
	t.mu.Lock()
	defer t.mu.Unlock()
	rows := make([]SessionRow, 0, len(t.sessions.all))
	for _, s := range t.sessions.all {
		rows = append(rows, SessionRow{s.SessionInfo, s.process, s.end, s.totals()})
	}
	slices.SortStableFunc(rows, func(a, b SessionRow) int { return cmp.Compare(a.BeginUS, b.BeginUS) })
	return rows
}
