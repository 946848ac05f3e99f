package record

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// View is the content of the dashboard: the figures and the recent events. Times are
// microseconds since 1970, those of events RFC 3339. The events have no arguments, results or
// hashes of them.
type View struct {
	NowUS     int64         `json:"now_us"`
	Stats     Stats         `json:"stats"`
	Series    []Point       `json:"series"`    // oldest first; gaps where nothing happened
	Graph     []FollowUp    `json:"graph"`     // the most frequent first, at most 60
	Timeline  []Event       `json:"timeline"`  // last 400 calls and prefetches, oldest first
	Decisions []Event       `json:"decisions"` // last 50 choices, newest first
	Levels    []Event       `json:"levels"`    // last 50 changes of a level, newest first
	Problems  []string      `json:"problems"`  // of the record: lines that are invalid or cannot be read
	Sessions  []SessionInfo `json:"sessions"`  // sessions of the timeline, decisions and levels
}

// Point is the sums of one minute. A call counts in the minute in which it started, a prefetch
// in the one in which its fetch ended.
type Point struct {
	AtUS     int64   `json:"at_us"`
	SpanS    int     `json:"span_s"`
	Calls    int64   `json:"calls"`
	Reads    int64   `json:"reads"`
	Issued   int64   `json:"issued"` // prefetches, once their fate is known
	Used     int64   `json:"used"`   // of those
	Served   int64   `json:"served"` // calls answered by prefetches
	HiddenMS float64 `json:"hidden_ms"`
	WaitedMS float64 `json:"waited_ms"`
}

// FollowUp counts how often one of the recent calls of a tool came in the turn after one of
// another, in the same session. Where turns are not known, each call is a turn.
type FollowUp struct {
	From     string  `json:"from"` // upstream/tool
	To       string  `json:"to"`
	N        int64   `json:"n"`
	P        float64 `json:"p"`        // N / turns with a call of From that were followed by another turn
	Issued   int64   `json:"issued"`   // prefetches of To after From
	Used     int64   `json:"used"`     // of those
	Accuracy float64 `json:"accuracy"` // of those: share whose exact call came, not only the tool
}

// Bounds of what is shown.
const (
	maxMinutes   = 1440 // a day if something happens every minute
	maxFollowUps = 60
)

// activity is what the dashboard shows besides the figures.
type activity struct {
	minutes                     map[int64]*Point // start of a minute, in microseconds → sums
	timeline, decisions, levels latest[Event]
	problems                    latest[string]
}

func newActivity() activity {
	return activity{
		minutes:   make(map[int64]*Point),
		timeline:  latest[Event]{limit: 400},
		decisions: latest[Event]{limit: 50},
		levels:    latest[Event]{limit: 50},
		problems:  latest[string]{limit: 20},
	}
}

// latest holds the last values.
type latest[T any] struct {
	limit int
	kept  []T // up to twice the limit
}

func (l *latest[T]) add(v T) {
	if len(l.kept) == 2*l.limit {
		l.kept = slices.Delete(l.kept, 0, l.limit)
	}
	l.kept = append(l.kept, v)
}

// all returns the values, oldest first.
func (l *latest[T]) all() []T { return append([]T{}, l.kept[max(0, len(l.kept)-l.limit):]...) }

// point returns the sums of the minute of a time.
func (a *activity) point(at time.Time) *Point {
	minute := at.Truncate(time.Minute).UnixMicro()
	if a.minutes[minute] == nil {
		if len(a.minutes) > 2*maxMinutes {
			for _, old := range slices.Sorted(maps.Keys(a.minutes))[:maxMinutes] {
				delete(a.minutes, old)
			}
		}
		a.minutes[minute] = &Point{AtUS: minute, SpanS: 60}
	}
	return a.minutes[minute]
}

func (a *activity) addCall(e *Event) {
	p := a.point(e.At)
	p.Calls++
	p.Reads += boolToInt(e.reads())
	p.WaitedMS += e.LatencyMS
	if e.served() {
		p.HiddenMS += e.HiddenMS
		p.Served += boolToInt(e.UseOf > 0)
	}
	a.timeline.add(shown(e))
}

func (a *activity) addPrefetch(e *Event) {
	p := a.point(e.endTime())
	p.Issued++
	p.Used += boolToInt(e.used())
	a.timeline.add(shown(e))
}

func (a *activity) addChoice(e *Event) {
	c := shown(e)
	c.Reasons, c.Top = maps.Clone(e.Reasons), slices.Clone(e.Top)
	for i := range c.Top {
		c.Top[i].RawArguments = nil
	}
	a.decisions.add(c)
}

// shown returns an event for the dashboard, without what it does not show: arguments, results
// and their hashes.
func shown(e *Event) Event {
	c := *e
	c.Process, c.Arguments, c.RawArguments, c.ArgsHash, c.ResultHash, c.ResultSum = "", nil, nil, "", "", 0
	c.Edge, c.Dir, c.Needs, c.Upstreams, c.Reasons, c.Top = "", "", nil, nil, nil, nil
	return c
}

// points returns the minutes up to now, oldest first. Later ones may come from a wrong clock.
func (a *activity) points(now time.Time) []Point {
	points := []Point{}
	for _, at := range slices.Sorted(maps.Keys(a.minutes)) {
		if at > 0 && at <= now.UnixMicro() {
			points = append(points, *a.minutes[at])
		}
	}
	return points[max(0, len(points)-maxMinutes):]
}

// followUps counts which tools follow which among events, in the order in which they were added.
// Each tool of a turn follows each tool of the previous turn of the session. Steps of plans are
// not counted: the model fixed their order before the first was answered. Neither is a call that
// is answered after a call of a later turn.
func followUps(events []Event) []FollowUp {
	pairs, turns := make(map[[2]string]*FollowUp), make(map[string]int64) // tool → turns with a call of it that were followed by another turn
	pair := func(from, to string) *FollowUp {
		key := [2]string{from, to}
		if pairs[key] == nil {
			pairs[key] = &FollowUp{From: from, To: to}
		}
		return pairs[key]
	}
	places, tools := make(map[string]*place), make(map[callKey]string)
	for _, e := range events {
		tool := e.Upstream + "/" + e.Tool
		switch from := tools[callKey{e.Session, e.After}]; {
		case e.Upstream == "":
		case e.Kind == Prefetch && e.After > 0 && from != "":
			f := pair(from, tool)
			f.Issued++
			f.Used += boolToInt(e.used())
		case e.Kind == Call:
			tools[callKey{e.Session, e.Seq}] = tool
			if places[e.Session] == nil {
				places[e.Session] = new(place)
			}
			before, isNew := places[e.Session].add(&e, tool)
			for _, from := range before {
				turns[from] += boolToInt(isNew)
				pair(from, tool).N++
			}
		}
	}
	all := make([]FollowUp, 0, len(pairs))
	for _, p := range pairs {
		p.P, p.Accuracy = ratio(p.N, turns[p.From]), ratio(p.Used, p.Issued)
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b FollowUp) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(b.Issued, a.Issued), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return all[:min(len(all), maxFollowUps)]
}

// place is where a session is.
type place struct {
	turn              int
	previous, current []string // distinct tools called in the turn before, and in this one
}

// add adds a call. It returns the tools that the call follows, none if it does not count, and
// whether it is the first of its turn.
func (p *place) add(e *Event, tool string) (before []string, isNew bool) {
	if e.Plan > 0 || e.Turn > 0 && e.Turn < p.turn {
		return nil, false
	}
	if isNew = e.Turn == 0 || e.Turn != p.turn; isNew {
		p.previous, p.current = p.current, nil
	}
	p.turn = e.Turn
	if slices.Contains(p.current, tool) {
		return nil, false
	}
	p.current = append(p.current, tool)
	return p.previous, isNew
}

// micros returns a time in microseconds since 1970; 0 if it is not known.
func micros(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMicro()
}
