package record

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// View is what stats and the dashboard show: the figures and the recent events, live or
// recorded. The events have no arguments, results or hashes of them.
type View struct {
	Period   string    `json:"-"`        // end of the sentence on savings, such as "today"; may be empty
	Recorded bool      `json:"recorded"` // of recorded events; otherwise live
	Problems []string  `json:"-"`        // of the record: lines that are invalid or cannot be read
	Notes    []Warning `json:"-"`        // further ones

	Saved   string           `json:"saved"`   // set by Summarize, as are Wrong and Servers
	Wrong   []Warning        `json:"wrong"`   // the most severe first
	Servers []UpstreamStatus `json:"servers"` // of all processes

	Stats     Stats         `json:"stats"`
	Timeline  []Event       `json:"timeline"`  // last 400 calls and prefetches, in the order of their start
	Decisions []Event       `json:"decisions"` // last 50 choices, newest first
	Levels    []Event       `json:"levels"`    // last 50 changes of a level, newest first
	Sessions  []SessionInfo `json:"sessions"`  // sessions of the timeline, decisions and levels
}

// Summarize sets Saved, Wrong and Servers.
func (v *View) Summarize() {
	v.Saved, v.Servers = v.Stats.Saved(v.Period), v.Stats.upstreams()
	v.Wrong = append(v.Stats.Warnings(), v.Notes...)
	for _, problem := range v.Problems {
		v.Wrong = append(v.Wrong, Warning{Message: problem})
	}
}

// ReadView returns the view of recorded events; for names see [Read]. It is an error if there
// are no events; the view then has the reasons as Problems.
func ReadView(ctx context.Context, names []string) (View, error) {
	t := NewTally()
	err := Read(ctx, names, t.Add, t.Problem)
	v := t.View(time.Time{})
	if ctx.Err() == nil && t.processes == 0 {
		err = fmt.Errorf("%s: no events", strings.Join(names, ", "))
	}
	v.Period = fmt.Sprintf("from %s to %s", t.first.Local().Format(time.DateTime), t.last.Local().Format(time.DateTime))
	v.Recorded = true
	return v, err
}

// Follower views the processes that write their logs to a folder.
type Follower struct {
	dir string

	mu    sync.Mutex
	day   time.Time
	tally *Tally
	tail  *Tail
}

// NewFollower returns a Follower of a folder, which need not exist yet.
func NewFollower(dir string) *Follower { return &Follower{dir: dir} }

// View returns the view of today's events and of the running processes. It is an error if the
// folder cannot be read.
func (f *Follower) View() (View, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if day := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location()); !day.Equal(f.day) {
		f.day, f.tally = day, NewTally()
		f.tail = NewTail(f.dir, day, f.tally.Add, f.tally.Problem)
	}
	err := f.tail.Poll()
	running := ReadStatuses(f.dir)
	if len(running) == 0 {
		now = time.Time{}
	}
	v := f.tally.View(now)
	v.Period = "today"
	v.Stats.SetRunning(running)
	return v, err
}

// activity is what a view has besides the figures.
type activity struct {
	timeline, decisions, levels latest[Event]
	problems                    latest[string]
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

// add keeps an event that is shown, without what is not: arguments, results and their hashes.
func (a *activity) add(e *Event) {
	c := *e
	c.Process, c.Arguments, c.RawArguments, c.ArgsHash, c.ResultHash, c.ResultSum = "", nil, nil, "", "", 0
	c.Edge, c.Dir, c.Upstreams, c.Reasons, c.Top = "", "", nil, nil, nil
	switch e.Kind {
	case Call, Prefetch:
		a.timeline.add(c)
	case Choice:
		c.Reasons, c.Top = maps.Clone(e.Reasons), slices.Clone(e.Top)
		a.decisions.add(c)
	case Level:
		a.levels.add(c)
	}
}
