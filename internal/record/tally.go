package record

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"mcpschedd/internal/excerpt"
)

// Tally adds up events, those of this process or those that [Read] passes on. It is
// safe for concurrent use, and keeps no reference to an event other than its strings.
//
// Hidden time is the sum of HiddenMS over calls answered from the store or by another fetch. It is
// attributed to a prefetch if the call is its first use (UseOf), otherwise to a repeat.
type Tally struct {
	mu           sync.Mutex
	tools        map[toolKey]*Totals         // those of the zero key belong to no tool
	dirs         *lru.Cache[string, string]  // process → working directory of its client; "" if not known
	processCount int                         // so far
	sessions     *lru.Cache[string, session] // the last ones to have an event
	sessionCount int                         // so far
	config       Config                      // of the process that started last
	since        time.Time                   // earlier events count as if they came then
	first        time.Time                   // of all events; zero if none had a time
	last         time.Time
	activity     activity
}

// Bounds of a tally: names come from clients, servers and files, which may send any number.
const (
	maxTools     = 4096
	maxSessions  = 1024 // sessions that are kept; with more, one may be counted twice
	maxProcesses = 1024 // processes with a known directory; with more, one may be counted twice
)

// unknownTools is the name in [Stats.Tools] of the calls of tools that no server has.
const unknownTools = "(unknown)"

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

type session struct {
	SessionInfo
	counted bool // it has had an event that is not earlier than the tally's since
}

// NewTally returns an empty Tally.
func NewTally() *Tally {
	t := &Tally{tools: map[toolKey]*Totals{{}: new(Totals)}}
	t.activity = activity{latest[Event]{limit: 400}, latest[Event]{limit: 50}, latest[Event]{limit: 50}, latest[string]{limit: 20}}
	t.dirs, _ = lru.New[string, string](maxProcesses) // fails only for a size below 1
	t.sessions, _ = lru.New[string, session](maxSessions)
	return t
}

// Add counts an event.
func (t *Tally) Add(e *Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.observeProcess(e)
	t.observeSession(e)
	t.tool(e).add(e)
	t.activity.add(e)
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
	if at := e.At; !at.IsZero() {
		if at.Before(t.since) {
			at = t.since
		}
		if t.first.IsZero() || at.Before(t.first) {
			t.first = at
		}
		if at.After(t.last) {
			t.last = at
		}
	}
	if _, known := t.dirs.Get(e.Process); !known {
		t.processCount++
		t.dirs.Add(e.Process, "")
	}
	if e.Transport == "stdio" || e.Transport == Daemon {
		t.dirs.Add(e.Process, e.Dir)
	}
	if e.Kind == Begin && !e.At.Before(t.config.LoadedAt) {
		t.config = Config{Path: e.Config, LoadedAt: e.At}
	}
}

// observeSession takes note of an event's session, and of its client and directory.
func (t *Tally) observeSession(e *Event) {
	s, known := t.sessions.Get(e.Session)
	if !known && (e.Session == "" || e.Kind == End) {
		return
	}
	if !known {
		s.Session, s.Begin = e.Session, e.At
		s.Dir, _ = t.dirs.Peek(e.Process)
	}
	isNew := !s.counted && e.Kind != End && !e.At.Before(t.since)
	t.sessionCount += int(boolToInt(isNew))
	if !known || isNew || s.Client == "" && e.Client != "" {
		s.Client, s.counted = cmp.Or(s.Client, e.Client), s.counted || isNew
		t.sessions.Add(s.Session, s)
	}
}

// Problem adds a problem with the record itself, such as a line that cannot be read. The last
// ones are kept.
func (t *Tally) Problem(p Problem) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.activity.problems.add(excerpt.Shorten(p.Error(), 500))
}

// Stats returns the figures so far. Pass the zero time for recorded events, which end with the
// last one.
func (t *Tally) Stats(now time.Time) Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.statsLocked(now)
}

func (t *Tally) statsLocked(now time.Time) Stats {
	last := t.last
	if !last.IsZero() && now.After(last) {
		last = now
	}
	s := Stats{
		SchemaVersion: 1,
		UptimeS:       int64(last.Sub(t.first).Seconds()),
		Processes:     t.processCount,
		Sessions:      t.sessionCount,
		Config:        t.config,
		Totals:        Totals{Declined: make(map[string]int64), Figures: newFigures()},
		Upstreams:     make(map[string]Figures),
		Tools:         make(map[string]Figures, len(t.tools)),
		Hosts:         make(map[string]Host),
	}
	for key, tool := range t.tools {
		sumUp(&s.Totals, tool)
		if key != (toolKey{}) {
			addFigures(s.Tools, key.String(), &tool.Figures)
		} else if tool.Calls > 0 {
			addFigures(s.Tools, unknownTools, &tool.Figures)
		}
		if key.upstream != "" {
			addFigures(s.Upstreams, key.upstream, &tool.Figures)
		}
	}
	s.derive()
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
