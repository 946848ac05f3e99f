package record

import (
	"container/ring"
	"reflect"
	"slices"
	"strings"
	"time"
)

// View is what the dashboard shows: the figures, and what happened lately. All times are
// microseconds since 1970. Events are without what was asked and answered.
type View struct {
	NowUS     int64         `json:"now_us"`
	Stats     Stats         `json:"stats"`
	Series    []Point       `json:"series"`    // oldest first; gaps where nothing happened
	Graph     []FollowUp    `json:"graph"`     // the most frequent first, at most 60
	Timeline  []Event       `json:"timeline"`  // calls and prefetches, oldest first, at most 400
	Decisions []Event       `json:"decisions"` // choices, newest first, at most 50; tool is that after whose answer it was
	Levels    []Event       `json:"levels"`    // changes, newest first, at most 50
	Problems  []string      `json:"problems"`  // with what was read: lines that make no sense, or cannot be read
	Sessions  []SessionInfo `json:"sessions"`  // those that the timeline, the decisions and the levels name
}

// Point is one span of time.
type Point struct {
	AtUS     int64   `json:"at_us"`
	SpanS    int     `json:"span_s"`
	Calls    int64   `json:"calls"`
	Reads    int64   `json:"reads"`
	Issued   int64   `json:"issued"` // prefetches that ended in it, their fate being known
	Used     int64   `json:"used"`   // of those
	Served   int64   `json:"served"` // calls answered by prefetches
	HiddenMS float64 `json:"hidden_ms"`
	WaitedMS float64 `json:"waited_ms"`
}

// FollowUp says how often a tool was called in the turn after one in which another was, in
// the same session; where turns are not known each call is a turn.
type FollowUp struct {
	From     string  `json:"from"` // upstream/tool
	To       string  `json:"to"`
	N        int64   `json:"n"`
	P        float64 `json:"p"`        // N / turns with a call of From that anything followed
	Issued   int64   `json:"issued"`   // prefetches of To after From
	Used     int64   `json:"used"`     // of those
	Accuracy float64 `json:"accuracy"` // of those; the exact call counts, not the tool alone
}

// View is what the dashboard shows; of now see [Tally.Stats].
func (t *Tally) View(now time.Time) View {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := micros(now)
	if at == 0 {
		at = t.processes.last
	}
	v := View{
		NowUS: at, Stats: t.statsLocked(now), Series: t.series.points(at),
		Graph:    t.graph.strongest(),
		Timeline: t.recent.timeline.all(), Decisions: t.recent.decisions.all(), Levels: t.recent.levels.all(), Problems: t.recent.problems.all(),
	}
	slices.SortStableFunc(v.Timeline, func(a, b Event) int { return a.At.Compare(b.At) })
	slices.Reverse(v.Decisions)
	slices.Reverse(v.Levels)
	v.Sessions = t.named(v.Timeline, v.Decisions, v.Levels)
	return v
}

// named are the sessions of events, as far as they are kept.
func (t *Tally) named(lists ...[]Event) []SessionInfo {
	all, told := []SessionInfo{}, make(map[string]bool)
	for _, e := range slices.Concat(lists...) {
		if s := t.sessions.byName[e.Session]; s != nil && !told[e.Session] {
			told[e.Session] = true
			all = append(all, s.SessionInfo)
		}
	}
	return all
}

// recent is what happened lately.
type recent struct {
	timeline, decisions, levels latest[Event]
	problems                    latest[string]
}

func newRecent() recent {
	return recent{latest[Event]{ring.New(400)}, latest[Event]{ring.New(50)}, latest[Event]{ring.New(50)}, latest[string]{ring.New(20)}}
}

// latest keeps the last so many.
type latest[T any] struct{ last *ring.Ring }

// next is the place of one more.
func (l *latest[T]) next() *T {
	if l.last = l.last.Next(); l.last.Value == nil {
		l.last.Value = new(T)
	}
	return l.last.Value.(*T)
}

// all are those kept, oldest first.
func (l *latest[T]) all() []T {
	all := []T{}
	l.last.Next().Do(func(kept any) {
		if kept != nil {
			all = append(all, *kept.(*T))
		}
	})
	return all
}

// show makes a copy of an event that can be kept and shown: without what was asked and answered.
func show(out, e *Event) {
	*out = *e
	out.Process, out.Arguments, out.RawArguments, out.ArgsHash, out.ResultHash, out.ResultSum = "", "", nil, "", "", 0
	out.Edge, out.Dir, out.Needs, out.Upstreams = "", "", nil, nil
	out.Reasons, out.Top = nil, nil
	for reason, n := range e.Reasons {
		if len(out.Reasons) < mostReasons && n > 0 {
			if out.Reasons == nil {
				out.Reasons = make(map[string]int)
			}
			out.Reasons[strings.Clone(cut(reason, longest))] += n
		}
	}
	for _, c := range e.Top[:min(len(e.Top), 5)] {
		tidy(reflect.ValueOf(&c).Elem())
		c.P, c.RawArguments = min(c.P, 1), nil
		out.Top = append(out.Top, c)
	}
}
