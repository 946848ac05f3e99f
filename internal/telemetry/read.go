package telemetry

import (
	_ "embed"
	"fmt"
	"slices"
	"time"
)

// Schema is the JSON Schema (2020-12) of [Stats], with a description of every field.
//
//go:embed stats.schema.json
var Schema []byte

// Stats are the figures so far. Processes that have not ended count as running until
// now; for recorded events now is the zero time, and they ended with their last one.
func (t *Tally) Stats(now time.Time) Stats {
	lost := t.lost()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.statsLocked(now, lost)
}

// lost asks for the number of lines that were not written, without a lock.
func (t *Tally) lost() int64 {
	if t.options.Lost == nil {
		return 0
	}
	return max(t.options.Lost(), 0)
}

func (t *Tally) statsLocked(now time.Time, lost int64) Stats {
	perToken := t.total.bytesPerToken()
	s := Stats{
		SchemaVersion: 1,
		UptimeS:       t.processes.up(micros(now)),
		Processes:     int(t.processes.n),
		Sessions:      int(t.sessions.n),
		Open:          t.sessions.all.Len() - t.sessions.closed.Len(),
		Config:        t.config,
		Totals:        t.total.totals(perToken),
		Upstreams:     make(map[string]Part, len(t.upstreams)),
		Tools:         make(map[string]Part, len(t.tools)),
		Hosts:         t.hosts.all(),
	}
	s.Totals.EventsLost = lost
	for name, of := range t.upstreams {
		s.Upstreams[name] = of.part(perToken)
	}
	for name, of := range t.tools {
		if name != other || of.sum.Calls+of.sum.Prefetch.Issued > 0 {
			s.Tools[name] = of.part(perToken)
		}
	}
	s.Report = s.Line()
	return s
}

// View is what the dashboard shows; of now see [Tally.Stats].
func (t *Tally) View(now time.Time) View {
	lost := t.lost()
	t.mu.Lock()
	defer t.mu.Unlock()
	at := micros(now)
	if at == 0 {
		at = t.processes.latest()
	}
	v := View{
		NowUS: at, Stats: t.statsLocked(now, lost), Series: t.series.points(at),
		Graph: t.graph.strongest(), GraphOther: t.graph.other,
		Timeline: []Bar{}, Decisions: []DecisionView{}, Levels: []LevelView{}, Problems: []string{},
	}
	for _, b := range t.bars.all() {
		v.Timeline = append(v.Timeline, *b)
	}
	slices.SortStableFunc(v.Timeline, func(a, b Bar) int { return int(min(max(a.AtUS-b.AtUS, -1), 1)) })
	for _, d := range slices.Backward(t.decisions.all()) {
		v.Decisions = append(v.Decisions, d.shown())
	}
	for _, l := range slices.Backward(t.levels.all()) {
		v.Levels = append(v.Levels, *l)
	}
	for _, p := range t.problems.all() {
		v.Problems = append(v.Problems, *p)
	}
	if lost > 0 {
		v.Problems = append(v.Problems, fmt.Sprintf("%d lines could not be written; the figures count what they tell of", lost))
	}
	return v
}
