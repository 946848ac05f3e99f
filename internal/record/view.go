package record

import (
	"container/ring"
	"reflect"
	"slices"
	"strings"
	"time"
)

// View is the content of the dashboard: the figures and the recent events. All times are
// microseconds since 1970. The events have no arguments, results or hashes of them.
type View struct {
	NowUS     int64         `json:"now_us"`
	Stats     Stats         `json:"stats"`
	Series    []Point       `json:"series"`    // oldest first; gaps where nothing happened
	Graph     []FollowUp    `json:"graph"`     // the most frequent first, at most 60
	Timeline  []Event       `json:"timeline"`  // last 400 calls and prefetches, oldest first
	Decisions []Event       `json:"decisions"` // last 50 choices, newest first; Tool is the tool whose answer triggered the choice
	Levels    []Event       `json:"levels"`    // last 50 changes of a level, newest first
	Problems  []string      `json:"problems"`  // of the record: lines that are invalid or cannot be read
	Sessions  []SessionInfo `json:"sessions"`  // sessions of the timeline, decisions and levels
}

// Point is the sums of one span of time.
type Point struct {
	AtUS     int64   `json:"at_us"`
	SpanS    int     `json:"span_s"`
	Calls    int64   `json:"calls"`
	Reads    int64   `json:"reads"`
	Issued   int64   `json:"issued"` // prefetches whose fetch ended in it, once their fate is known
	Used     int64   `json:"used"`   // of those
	Served   int64   `json:"served"` // calls answered by prefetches
	HiddenMS float64 `json:"hidden_ms"`
	WaitedMS float64 `json:"waited_ms"`
}

// FollowUp counts how often one tool was called in the turn after another, in the same session.
// Where turns are not known, each call is a turn.
type FollowUp struct {
	From     string  `json:"from"` // upstream/tool
	To       string  `json:"to"`
	N        int64   `json:"n"`
	P        float64 `json:"p"`        // N / turns with a call of From that were followed by another turn
	Issued   int64   `json:"issued"`   // prefetches of To after From
	Used     int64   `json:"used"`     // of those
	Accuracy float64 `json:"accuracy"` // of those: share whose exact call came, not only the tool
}

// View returns the content of the dashboard; for now see [Tally.Stats].
func (t *Tally) View(now time.Time) View {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := micros(now)
	if at == 0 {
		at = t.processes.last
	}
	v := View{
		NowUS: at, Stats: t.statsLocked(now), Series: t.series.points(at),
		Graph:    t.graph.mostFrequent(),
		Timeline: t.recent.timeline.all(), Decisions: t.recent.decisions.all(), Levels: t.recent.levels.all(), Problems: t.recent.problems.all(),
	}
	slices.SortStableFunc(v.Timeline, func(a, b Event) int { return a.At.Compare(b.At) })
	slices.Reverse(v.Decisions)
	slices.Reverse(v.Levels)
	v.Sessions = t.sessionsOf(v.Timeline, v.Decisions, v.Levels)
	return v
}

// sessionsOf returns the sessions of events, except evicted ones.
func (t *Tally) sessionsOf(lists ...[]Event) []SessionInfo {
	all, seen := []SessionInfo{}, make(map[string]bool)
	for _, e := range slices.Concat(lists...) {
		if s := t.sessions.byName[e.Session]; s != nil && !seen[e.Session] {
			seen[e.Session] = true
			all = append(all, s.SessionInfo)
		}
	}
	return all
}

// recent holds the most recent events.
type recent struct {
	timeline, decisions, levels latest[Event]
	problems                    latest[string]
}

func newRecent() recent {
	return recent{latest[Event]{ring.New(400)}, latest[Event]{ring.New(50)}, latest[Event]{ring.New(50)}, latest[string]{ring.New(20)}}
}

// latest is a ring buffer of the last values.
type latest[T any] struct{ last *ring.Ring }

// next returns the place for a new value, overwriting the oldest.
func (l *latest[T]) next() *T {
	if l.last = l.last.Next(); l.last.Value == nil {
		l.last.Value = new(T)
	}
	return l.last.Value.(*T)
}

// all returns the values, oldest first.
func (l *latest[T]) all() []T {
	all := []T{}
	l.last.Next().Do(func(kept any) {
		if kept != nil {
			all = append(all, *kept.(*T))
		}
	})
	return all
}

// copyForDisplay copies an event for the dashboard, without arguments, results and their hashes.
func copyForDisplay(out, e *Event) {
	*out = *e
	out.Process, out.Arguments, out.RawArguments, out.ArgsHash, out.ResultHash, out.ResultSum = "", "", nil, "", "", 0
	out.Edge, out.Dir, out.Needs, out.Upstreams = "", "", nil, nil
	out.Reasons, out.Top = nil, nil
	for reason, n := range e.Reasons {
		if len(out.Reasons) < maxReasons && n > 0 {
			if out.Reasons == nil {
				out.Reasons = make(map[string]int)
			}
			out.Reasons[strings.Clone(truncate(reason, maxName))] += n
		}
	}
	for _, c := range e.Top[:min(len(e.Top), 5)] {
		sanitize(reflect.ValueOf(&c).Elem())
		c.P, c.RawArguments = min(c.P, 1), nil
		out.Top = append(out.Top, c)
	}
}
