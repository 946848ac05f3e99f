package replay

import (
	"maps"
	"time"

	"mcpschedd/internal/enrich"
)

// Counts counts calls and prefetches.
type Counts struct {
	Calls         int `json:"calls"`
	Reads         int `json:"reads"`           // calls of tools that only read and may be prefetched
	Repeats       int `json:"repeats"`         // of those: equal to an earlier call of the session
	Issued        int `json:"issued"`          // prefetches
	Used          int `json:"used"`            // prefetches whose answer a call used
	Late          int `json:"late"`            // of those: still in flight when the call came
	UsedByRepeats int `json:"used_by_repeats"` // of those: first used by a repeat
	RepeatsServed int `json:"repeats_served"`  // repeats that were not sent upstream
	Stale         int `json:"stale_served"`    // answers fetched before the end of a recorded write; must be 0

	upstream      int           // calls sent upstream, prefetches included
	before, after time.Duration // total wait, as recorded and as played
}

func (c *Counts) add(o *Counts) {
	c.Calls += o.Calls
	c.Reads += o.Reads
	c.Repeats += o.Repeats
	c.Issued += o.Issued
	c.Used += o.Used
	c.Late += o.Late
	c.UsedByRepeats += o.UsedByRepeats
	c.RepeatsServed += o.RepeatsServed
	c.Stale += o.Stale
	c.upstream += o.upstream
	c.before += o.before
	c.after += o.after
}

// Figures are counts and the ratios derived from them. Figures and Report are output formats of
// `mcpschedd replay`: an object of JSON, a line of CSV.
type Figures struct {
	Session string `json:"-"` // of a row
	Counts
	IssuedPerCall float64 `json:"issued_per_call"`
	Accuracy      float64 `json:"accuracy"`       // Used / Issued; 0 if none was issued
	Coverage      float64 `json:"coverage"`       // share of the reads, except repeats, that used a prefetch
	Amplification float64 `json:"amplification"`  // calls sent upstream, prefetches included, per call of the client
	WaitBefore    int64   `json:"wait_ms_before"` // sum of the recorded durations of the calls
	WaitAfter     int64   `json:"wait_ms_after"`  // sum of their durations in the replay
	Hidden        int64   `json:"hidden_ms"`      // WaitBefore - WaitAfter
}

// figures returns the counts with their ratios.
func (c *Counts) figures() Figures {
	f := Figures{
		Counts: *c, WaitBefore: c.before.Milliseconds(), WaitAfter: c.after.Milliseconds(),
		IssuedPerCall: ratio(c.Issued, c.Calls), Accuracy: ratio(c.Used, c.Issued),
		Coverage: ratio(c.Used-c.UsedByRepeats, c.Reads-c.Repeats), Amplification: ratio(c.upstream, c.Calls),
	}
	f.Hidden = f.WaitBefore - f.WaitAfter
	return f
}

func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// Report is the result of an arm.
type Report struct {
	Name     string `json:"policy"`
	Sessions int    `json:"sessions"`
	Untimed  int    `json:"untimed_calls"` // calls without a recorded duration
	Think    int64  `json:"think_ms"`      // pause assumed between turns where it was not recorded
	Figures
	Declined    map[enrich.Reason]int `json:"declined"` // declined candidates by reason, counted once after each turn
	Calibration []Decile              `json:"calibration"`
	Tools       map[string]Figures    `json:"tools"`
	Rows        []Figures             `json:"-"` // by session, in the order in which they were played
}

// Reports returns the results of the arms so far.
func (p *Player) Reports() []*Report {
	var all []*Report
	for _, a := range p.arms {
		r := a.report.report(a.Name)
		r.Untimed, r.Think, r.Calibration = p.untimed, p.o.Think.Milliseconds(), p.calibration()
		all = append(all, r)
	}
	return all
}

// tally counts the calls of one session, or of all sessions played.
type tally struct {
	tools    map[string]*Counts
	declined map[enrich.Reason]int
	rows     []Figures
}

func newTally() *tally {
	return &tally{tools: make(map[string]*Counts), declined: make(map[enrich.Reason]int)}
}

// tool returns the counts of a tool.
func (t *tally) tool(name string) *Counts {
	c := t.tools[name]
	if c == nil {
		c = new(Counts)
		t.tools[name] = c
	}
	return c
}

// sum returns the counts over all tools.
func (t *tally) sum() *Counts {
	all := new(Counts)
	for _, c := range t.tools {
		all.add(c)
	}
	return all
}

// session adds a session that has ended.
func (t *tally) session(id string, session *tally) {
	row := session.sum().figures()
	row.Session = id
	t.rows = append(t.rows, row)
	for name, c := range session.tools {
		t.tool(name).add(c)
	}
	for why, n := range session.declined {
		t.declined[why] += n
	}
}

func (t *tally) report(name string) *Report {
	r := &Report{
		Name: name, Sessions: len(t.rows), Figures: t.sum().figures(), Declined: maps.Clone(t.declined),
		Tools: make(map[string]Figures), Rows: t.rows,
	}
	for name, c := range t.tools {
		r.Tools[name] = c.figures()
	}
	return r
}
