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
// recorded. The events have only the fields that are shown.
type View struct {
	Period   string    `json:"-"`        // what the figures cover, as the end of a sentence, such as "today"; may be empty
	Recorded bool      `json:"recorded"` // the events were read from files that are not followed
	Problems []string  `json:"-"`        // what could not be read of the files
	Notes    []Warning `json:"-"`        // shown before the warnings of Stats

	Stats     Stats         `json:"stats"`
	Timeline  []Event       `json:"timeline"`  // last 400 calls and prefetches, in the order of their start
	Decisions []Event       `json:"decisions"` // last 50 decisions, newest first
	Levels    []Event       `json:"levels"`    // last 50 changes of a level, newest first
	Sessions  []SessionInfo `json:"sessions"`  // sessions of the timeline, decisions and levels
}

// Saved returns the savings in a sentence.
func (v *View) Saved() string { return v.Stats.Saved(v.Period) }

// Warnings returns the notes, the warnings and the problems, in this order.
func (v *View) Warnings() []Warning {
	all := append([]Warning{}, v.Notes...) // an empty array for the page, not null
	all = append(all, v.Stats.Warnings()...)
	for _, problem := range v.Problems {
		all = append(all, Warning{Message: problem})
	}
	return all
}

// ReadView returns the view of recorded events; for names see [Read]. It is an error if there
// are no events; the view then has the reasons as Problems.
func ReadView(ctx context.Context, names []string) (View, error) {
	t := NewTally()
	err := Read(ctx, names, t.Add, t.Problem)
	v := t.View(time.Time{})
	if ctx.Err() == nil && t.processCount == 0 {
		err = fmt.Errorf("%s: no events", strings.Join(names, ", "))
	}
	if !t.first.IsZero() { // events of another program may have no time
		v.Period = fmt.Sprintf("from %s to %s", t.first.Local().Format(time.DateTime), t.last.Local().Format(time.DateTime))
	}
	v.Recorded = true
	return v, err
}

// Follower views the processes that write their logs to a folder.
type Follower struct {
	dir string

	mu    sync.Mutex
	day   time.Time // start of the day that tally and logs belong to
	tally *Tally
	logs  *reader
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
		f.tally.since = day
		f.logs = newReader(day, f.tally.Add, f.tally.Problem)
	}
	files, err := Files(f.dir)
	f.logs.read(context.Background(), files)
	running := readStatuses(f.dir)
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

// add keeps what is shown of an event. Each field is copied by name, so that one with arguments or
// results that is added to Event later is not shown by mistake.
func (a *activity) add(e *Event) {
	shown := Event{Kind: e.Kind, At: e.At, Session: e.Session}
	switch e.Kind {
	case Call, Prefetch:
		shown.Seq, shown.Upstream, shown.Tool, shown.LatencyMS, shown.IsError = e.Seq, e.Upstream, e.Tool, e.LatencyMS, e.IsError
		shown.Disposition, shown.Turn, shown.Plan = e.Disposition, e.Turn, e.Plan
		shown.Prefetched, shown.UseOf, shown.UseOfSession, shown.HiddenMS, shown.PredictedP = e.Prefetched, e.UseOf, e.UseOfSession, e.HiddenMS, e.PredictedP
		shown.Fate, shown.Cause, shown.After = e.Fate, e.Cause, e.After
		a.timeline.add(shown)
	case Decision:
		shown.Upstream, shown.Tool, shown.After, shown.Candidates, shown.Issued = e.Upstream, e.Tool, e.After, e.Candidates, e.Issued
		shown.Declined, shown.Top = maps.Clone(e.Declined), slices.Clone(e.Top)
		a.decisions.add(shown)
	case Level:
		shown.Host, shown.From, shown.To, shown.Why = e.Host, e.From, e.To, e.Why
		a.levels.add(shown)
	}
}
