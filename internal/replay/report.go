package replay

import (
	"maps"
	"time"

	"mcpschedd/internal/enrich"
)

// Counts are what happened to some calls.
type Counts struct {
	Calls         int `json:"calls"`
	Reads         int `json:"reads"`           // calls of tools that only read and may be run early
	Repeats       int `json:"repeats"`         // of those: the session had made the very same call before
	Issued        int `json:"issued"`          // guesses
	Used          int `json:"used"`            // guesses whose answer some call got
	Late          int `json:"late"`            // of those: it was still under way when it was asked for
	UsedByRepeats int `json:"used_by_repeats"` // of those: first by a call that was a repeat
	RepeatsServed int `json:"repeats_served"`  // repeats that were not sent upstream
	Stale         int `json:"stale_served"`    // answers from before a change that was known of: must be 0

	upstream      int // calls sent there, guesses included
	before, after time.Duration
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

// Figures are counts and what they say. They, a Report and a Row are as wide as what `replay`
// prints of them is: an object of JSON, a line of CSV.
type Figures struct {
	Counts
	IssuedPerCall float64 `json:"issued_per_call"`
	Accuracy      float64 `json:"accuracy"`       // used by issued; 0 without any
	Coverage      float64 `json:"coverage"`       // of the reads that are no repeats: those that got a guess's answer
	Amplification float64 `json:"amplification"`  // calls sent upstream, guesses included, by calls of the client
	WaitBefore    int64   `json:"wait_ms_before"` // what the calls waited when they were recorded, each by itself
	WaitAfter     int64   `json:"wait_ms_after"`  // what they wait here
	Hidden        int64   `json:"hidden_ms"`      // the difference
}

// figures says what the counts come to.
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

// Report is what an arm came to.
type Report struct {
	Name     string `json:"policy"`
	Sessions int    `json:"sessions"`
	Untimed  int    `json:"untimed_calls"` // of which it was not recorded how long they took
	Think    int64  `json:"think_ms"`      // what was taken for the time to think, where that was not recorded
	Figures
	Declined    map[enrich.Reason]int `json:"declined"` // guesses left out, by reason, once after each turn
	Calibration []Decile              `json:"calibration"`
	Tools       map[string]Figures    `json:"tools"`
	Rows        []Row                 `json:"-"` // in the order in which they were played
}

// Row is one session.
type Row struct {
	Session string
	Figures
}

// Reports are what the arms came to so far.
func (p *Player) Reports() []*Report {
	var all []*Report
	for _, a := range p.arms {
		r := a.report.report(a.rules.Name)
		r.Untimed, r.Think, r.Calibration = p.untimed, p.o.Think.Milliseconds(), p.calibration()
		all = append(all, r)
	}
	return all
}

// tally counts what happened to the calls of a session, or of all that were
// played.
type tally struct {
	tools    map[string]*Counts
	declined map[enrich.Reason]int
	rows     []Row
}

func newTally() *tally {
	return &tally{tools: make(map[string]*Counts), declined: make(map[enrich.Reason]int)}
}

// tool is what is counted of a tool.
func (t *tally) tool(name string) *Counts {
	c := t.tools[name]
	if c == nil {
		c = new(Counts)
		t.tools[name] = c
	}
	return c
}

// sum is what is counted of all tools.
func (t *tally) sum() *Counts {
	all := new(Counts)
	for _, c := range t.tools {
		all.add(c)
	}
	return all
}

// session adds a session that has ended.
func (t *tally) session(id string, of *tally) {
	t.rows = append(t.rows, Row{id, of.sum().figures()})
	for name, c := range of.tools {
		t.tool(name).add(c)
	}
	for why, n := range of.declined {
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
