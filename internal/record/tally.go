package record

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Tally adds up events, those of this process or those that [Read] and [Tail] pass on. It is
// safe for concurrent use, and keeps no reference to an event other than its strings.
//
// Hidden time is the sum of HiddenMS over calls answered from the store or from a flight. It is
// attributed to a prefetch if the call is its first use (UseOf), otherwise to a repeat.
type Tally struct {
	mu        sync.Mutex
	tools     map[toolKey]*Totals          // those of the zero key belong to no tool
	running   map[string]string            // process that has not ended → working directory of its client, if known
	processes int                          // so far, ended ones included
	sessions  *lru.Cache[string, *session] // the last ones to have an event
	begun     int                          // sessions so far
	config    Config
	began     time.Time // start of the process that config belongs to
	first     time.Time // of all events; zero if none had a time
	last      time.Time
	activity  activity
}

// Bounds of a tally: names come from clients, servers and files, which may send any number.
const (
	maxTools    = 4096
	maxSessions = 1024 // whose client is known
)

// toolKey identifies a tool.
type toolKey struct{ upstream, tool string }

func (k toolKey) String() string { return strings.TrimPrefix(k.upstream+"/"+k.tool, "/") }

// SessionInfo describes a session.
type SessionInfo struct {
	Session string    `json:"session"`
	Client  string    `json:"client,omitempty"` // name and version that the client reports
	Dir     string    `json:"dir,omitempty"`    // working directory, if known
	Begin   time.Time `json:"begin,omitzero"`   // time of its first event
}

// session is the state of one session.
type session struct {
	SessionInfo
	process string
	ended   bool
}

// NewTally returns an empty Tally.
func NewTally() *Tally {
	t := &Tally{tools: make(map[toolKey]*Totals), running: make(map[string]string), activity: activity{latest[Event]{limit: 400}, latest[Event]{limit: 50}, latest[Event]{limit: 50}, latest[string]{limit: 20}}}
	t.sessions, _ = lru.New[string, *session](maxSessions) // fails only for a size below 1
	return t
}

// Add counts an event.
func (t *Tally) Add(e *Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.observeProcess(e)
	t.observeSession(e)
	t.tool(e).add(e)
	switch e.Kind {
	case Begin:
		if !e.At.Before(t.began) {
			t.began, t.config = e.At, Config{Path: e.Config, LoadedAt: e.At}
		}
	case End:
		t.end(e)
	default:
		t.activity.add(e)
	}
}

// tool returns the figures of an event's tool, and creates them if necessary. Tools beyond the
// bound share one.
func (t *Tally) tool(e *Event) *Totals {
	key := toolKey{}
	if e.Upstream != "" && (e.Kind == Call || e.Kind == Prefetch) {
		key = toolKey{e.Upstream, e.Tool}
	}
	if tool := t.tools[key]; tool != nil {
		return tool
	}
	key = toolKey{strings.Clone(key.upstream), strings.Clone(key.tool)} // they may be substrings of a whole message
	if len(t.tools) > maxTools {
		key = toolKey{"", other}
	}
	if t.tools[key] == nil {
		t.tools[key] = new(Totals)
	}
	return t.tools[key]
}

// observeProcess takes note of an event's process and time.
func (t *Tally) observeProcess(e *Event) {
	if !e.At.IsZero() && (t.first.IsZero() || e.At.Before(t.first)) {
		t.first = e.At
	}
	if e.At.After(t.last) {
		t.last = e.At
	}
	if _, known := t.running[e.Process]; !known {
		t.processes++
		t.running[strings.Clone(e.Process)] = ""
	}
	if e.Transport == "stdio" || e.Transport == Daemon {
		t.running[e.Process] = e.Dir
	}
}

// observeSession takes note of an event's session, and of its client and directory.
func (t *Tally) observeSession(e *Event) {
	s, known := t.sessions.Get(e.Session)
	if !known && (e.Session == "" || e.Kind == End) {
		return
	}
	if !known {
		s = &session{process: e.Process}
		s.Session, s.Dir, s.Begin = strings.Clone(e.Session), t.running[e.Process], e.At
		t.sessions.Add(s.Session, s)
		t.begun++
	}
	s.Client = cmp.Or(s.Client, e.Client)
}

// end ends a session, or a process with all its sessions.
func (t *Tally) end(e *Event) {
	for _, s := range t.sessions.Values() {
		if s.Session == e.Session || e.Session == "" && s.process == e.Process {
			s.ended = true
		}
	}
	if e.Session == "" {
		delete(t.running, e.Process)
	}
}

// Problem adds a problem with the record itself, such as a line that cannot be read. The last
// ones are kept.
func (t *Tally) Problem(p Problem) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.activity.problems.add(truncate(p.Error(), 500))
}

// Stats returns the figures so far. Processes without an end event count as running until now.
// For recorded events pass the zero time: such processes then ended with the last event.
func (t *Tally) Stats(now time.Time) Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.statsLocked(now)
}

func (t *Tally) statsLocked(now time.Time) Stats {
	last := t.last
	if len(t.running) > 0 && !last.IsZero() && now.After(last) {
		last = now
	}
	s := Stats{
		SchemaVersion: 1,
		UptimeS:       int64(last.Sub(t.first).Seconds()),
		Processes:     t.processes,
		Sessions:      t.begun,
		Config:        t.config,
		Upstreams:     make(map[string]Part),
		Tools:         make(map[string]Part, len(t.tools)),
		Hosts:         make(map[string]Host),
	}
	for _, session := range t.sessions.Values() {
		s.Open += int(boolToInt(!session.ended))
	}
	all, upstreams := new(Totals), make(map[string]*Totals)
	for key, tool := range t.tools {
		sumUp(all, tool)
		if key != (toolKey{}) {
			s.Tools[key.String()] = tool.derived().Part
		} else if tool.Calls > 0 {
			s.Tools["(unknown)"] = tool.derived().Part
		}
		if upstreams[key.upstream] == nil {
			upstreams[key.upstream] = new(Totals)
		}
		sumUp(upstreams[key.upstream], tool)
	}
	s.Totals = all.derived()
	delete(upstreams, "")
	for name, sum := range upstreams {
		s.Upstreams[name] = sum.derived().Part
	}
	s.Report = s.ReportLine()
	return s
}

// View returns the figures and the recent events; for now see [Tally.Stats].
func (t *Tally) View(now time.Time) View {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, v := &t.activity, View{Stats: t.statsLocked(now), Sessions: []SessionInfo{}}
	v.Timeline, v.Decisions, v.Levels, v.Problems = a.timeline.all(), a.decisions.all(), a.levels.all(), a.problems.all()
	slices.SortStableFunc(v.Timeline, func(a, b Event) int { return a.At.Compare(b.At) })
	slices.Reverse(v.Decisions)
	slices.Reverse(v.Levels)
	shown := make(map[string]bool)
	for _, e := range slices.Concat(v.Timeline, v.Decisions, v.Levels) {
		if s, known := t.sessions.Peek(e.Session); known && !shown[e.Session] {
			shown[e.Session] = true
			v.Sessions = append(v.Sessions, s.SessionInfo)
		}
	}
	return v
}
