package record

import (
	"cmp"
	"slices"
	"strings"
)

// SessionInfo describes a session.
type SessionInfo struct {
	Session string `json:"session"`
	Client  string `json:"client,omitempty"`   // name and version that the client reports
	Dir     string `json:"dir,omitempty"`      // working directory, if known
	BeginUS int64  `json:"begin_us,omitempty"` // time of its session event, or of its first event if there is none
}

// SessionRow is the figures of one session. It has more than 15 fields because it embeds [Totals].
type SessionRow struct {
	SessionInfo
	Process string
	EndUS   int64 // 0 while the session is open
	Totals
}

// session is the state of one session.
type session struct {
	sums
	SessionInfo
	process string
	end     int64 // microseconds; 0 while it is open
	begun   bool  // its session event was seen
	open    *openSession
}

// openSession is the state that is needed only until the session ends.
type openSession struct {
	turn              int         // turn of the last call
	current, previous []*toolSums // distinct tools called in that turn, and in the turn before
	calls             [256]struct {
		seq  int64
		tool *toolSums
	} // most recent calls; the index is seq modulo the length
}

// sessions holds the sessions for which rows are kept.
type sessions struct {
	limit  int // maximum length of all; 0 means no limit
	byName map[string]*session
	all    []*session // in the order of their first events
	open   int        // number of those that have not ended
	n      int        // sessions so far, evicted ones included
}

// get returns the session of an event, and creates it with the client's directory if necessary.
// It returns nil if the event has no session, or ends a session that is not kept.
func (l *sessions) get(e *Event, dir string) *session {
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
	if l.limit > 0 && len(l.all) > l.limit {
		l.evict()
	}
	return s
}

// evict removes the first session that has ended, or the first session if none has.
func (l *sessions) evict() {
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

// addCall remembers the tool of a call.
func (s *session) addCall(seq int64, tool *toolSums) {
	if s.open != nil {
		c := &s.open.calls[seq%int64(len(s.open.calls))]
		c.seq, c.tool = seq, tool
	}
}

// toolOfCall returns the tool of a recent call, or nil if it is not known.
func (s *session) toolOfCall(seq int64) *toolSums {
	if s == nil || s.open == nil || seq == 0 {
		return nil
	}
	if c := s.open.calls[seq%int64(len(s.open.calls))]; c.seq == seq {
		return c.tool
	}
	return nil
}

// Rows returns the figures of each session, ordered by start.
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
