package record

import (
	"fmt"
	"slices"
	"time"
)

// View is what the dashboard shows: the figures, and what happened lately. All times are
// microseconds since 1970.
type View struct {
	NowUS      int64          `json:"now_us"`
	Stats      Stats          `json:"stats"`
	Series     []Point        `json:"series"`      // oldest first; gaps where nothing happened
	Graph      []Follow       `json:"graph"`       // the most frequent first, at most 60
	GraphOther int64          `json:"graph_other"` // follow-ups between tools that there was no room for
	Timeline   []Bar          `json:"timeline"`    // oldest first, at most 400
	Decisions  []DecisionView `json:"decisions"`   // newest first, at most 50
	Levels     []LevelView    `json:"levels"`      // changes, newest first, at most 50
	Problems   []string       `json:"problems"`    // with the record itself: lost events, unreadable lines
}

// Point is one span of time.
type Point struct {
	AtUS     int64   `json:"at_us"`
	SpanS    int     `json:"span_s"`
	Calls    int64   `json:"calls"`
	Reads    int64   `json:"reads"`
	Issued   int64   `json:"issued"` // prefetches whose fate became known in it
	Used     int64   `json:"used"`   // of those
	Wasted   int64   `json:"wasted"` // of those
	Served   int64   `json:"served"` // calls answered by prefetches
	HiddenMS float64 `json:"hidden_ms"`
	WaitedMS float64 `json:"waited_ms"`
	HarmMS   float64 `json:"harm_ms"`
}

// Follow says how often a tool was called in the turn after one in which another was, in
// the same session; where turns are not known each call is a turn.
type Follow struct {
	From     string  `json:"from"` // upstream/tool
	To       string  `json:"to"`
	N        int64   `json:"n"`
	P        float64 `json:"p"`        // N / turns with a call of From that anything followed
	Issued   int64   `json:"issued"`   // prefetches of To after From
	Used     int64   `json:"used"`     // of those
	Accuracy float64 `json:"accuracy"` // of those; the exact call counts, not the tool alone
}

// Bar is one call or prefetch on the timeline. It has more than 15 fields because the page
// shows each of them.
type Bar struct {
	AtUS    int64   `json:"at_us"`
	MS      float64 `json:"ms"` // how long it took
	Session string  `json:"session"`
	Process string  `json:"process"`
	Seq     int64   `json:"seq"`
	Tool    string  `json:"tool"` // upstream/tool
	What    string  `json:"what"` // call or prefetch
	How     string  `json:"how"`  // of a call: its disposition; of a prefetch: its fate
	Cause   string  `json:"cause,omitempty"`
	Guessed bool    `json:"guessed,omitempty"` // of a call: by a prefetch
	UseOf   int64   `json:"use_of,omitempty"`
	UsedBy  int64   `json:"used_by,omitempty"`
	P       float64 `json:"p,omitempty"`
	Hidden  float64 `json:"hidden_ms,omitempty"`
	IsError bool    `json:"is_error,omitempty"`
	Plan    int     `json:"plan,omitempty"`
	Turn    int     `json:"turn,omitempty"`
}

// DecisionView is one choice: the candidates after an answer. Their arguments are not shown.
type DecisionView struct {
	AtUS       int64          `json:"at_us"`
	Session    string         `json:"session"`
	After      string         `json:"after"` // upstream/tool; "": not known
	Candidates int            `json:"candidates"`
	Issued     int            `json:"issued"`
	Declined   map[string]int `json:"declined,omitempty"`
	Top        []Decision     `json:"top,omitempty"`
	BestMS     float64        `json:"best_ms"`
	AchievedMS float64        `json:"achieved_ms"`
}

// LevelView is one change of how freely calls are prefetched.
type LevelView struct {
	AtUS    int64  `json:"at_us"`
	Host    string `json:"host,omitempty"`
	Session string `json:"session,omitempty"`
	From    int    `json:"from"`
	To      int    `json:"to"`
	Why     string `json:"why"`
}

// View is what the dashboard shows; of now see [Tally.Stats].
func (t *Tally) View(now time.Time) View {
	lost := max(t.lost(), 0)
	t.mu.Lock()
	defer t.mu.Unlock()
	at := micros(now)
	if at == 0 {
		at = t.processes.latest()
	}
	v := View{
		NowUS: at, Stats: t.statsLocked(now, lost), Series: t.series.points(at),
		Graph: t.graph.strongest(), GraphOther: t.graph.other,
		Timeline: t.recent.bars.all(), Decisions: t.recent.decisions.all(), Levels: t.recent.levels.all(), Problems: t.recent.problems.all(),
	}
	slices.SortStableFunc(v.Timeline, func(a, b Bar) int { return int(min(max(a.AtUS-b.AtUS, -1), 1)) })
	slices.Reverse(v.Decisions)
	slices.Reverse(v.Levels)
	if lost > 0 {
		v.Problems = append(v.Problems, fmt.Sprintf("%d lines could not be written; the figures count what they tell of", lost))
	}
	return v
}

// recent is what happened lately.
type recent struct {
	bars      ring[Bar]
	decisions ring[DecisionView]
	levels    ring[LevelView]
	problems  ring[string]
}

func newRecent() recent {
	return recent{bars: ring[Bar]{most: 400}, decisions: ring[DecisionView]{most: 50}, levels: ring[LevelView]{most: 50}, problems: ring[string]{most: 20}}
}

func (r *recent) problem(text string) { r.problems.put(cut(text, 500)) }

// ring keeps the last so many of what is put into it.
type ring[T any] struct {
	most int
	kept []T
	next int // that is overwritten next, once there are most
}

func (l *ring[T]) put(v T) {
	if len(l.kept) < l.most {
		l.kept = append(l.kept, v)
		return
	}
	l.kept[l.next] = v
	l.next = (l.next + 1) % l.most
}

// all are those kept, oldest first.
func (l *ring[T]) all() []T {
	return append(append([]T{}, l.kept[l.next:]...), l.kept[:l.next]...)
}

func newBar(e *Event, s *session, of *tool) Bar {
	b := Bar{
		AtUS: micros(e.At), MS: amount(e.LatencyMS), Process: cut(e.Process, longest), Seq: e.Seq, Tool: cut(e.Tool, longest),
		What: string(e.Kind), How: string(e.Disposition), Guessed: e.Prefetched, UseOf: max(e.UseOf, 0), UsedBy: max(e.UsedBy, 0),
		P: min(amount(e.PredictedP), 1), IsError: e.IsError, Plan: e.Plan, Turn: e.Turn,
	}
	if s != nil {
		b.Session = s.name
	}
	if of != nil {
		b.Tool = of.name
	}
	switch {
	case e.Kind == Prefetch:
		b.How = string(e.Fate)
		if e.Fate == Wasted {
			b.Cause = clean(wasteCause(e))
		}
	case served(e):
		b.Hidden = amount(e.HiddenMS)
	}
	return b
}

// newDecision is what is shown of a choice; after is the tool after whose answer it was.
func newDecision(e *Event, s *session, after string) DecisionView {
	d := DecisionView{
		AtUS: micros(e.At), After: after, Candidates: int(count(int64(e.Candidates))), Issued: int(count(int64(e.Issued))),
		BestMS: amount(e.BestMS), AchievedMS: amount(e.AchievedMS),
	}
	if s != nil {
		d.Session = s.name
	}
	for reason, n := range e.Reasons {
		if len(d.Declined) == 0 {
			d.Declined = make(map[string]int)
		}
		if len(d.Declined) < mostReasons {
			d.Declined[clean(reason)] += n
		}
	}
	for _, c := range e.Top[:min(len(e.Top), 5)] {
		c.Tool, c.Reason, c.P = clean(c.Tool), clean(c.Reason), min(amount(c.P), 1)
		c.ValueMS, c.Tokens = amount(c.ValueMS), count(c.Tokens)
		d.Top = append(d.Top, c)
	}
	return d
}
