package replay

import (
	"time"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/record"
)

// Figures are counts of calls and prefetches with the ratios derived from them: of one tool, of
// one session or of all. Figures and Report have more than 15 fields because they are output
// formats of `mcpschedd replay`: an object of JSON, a line of CSV.
type Figures struct {
	Session       string `json:"-"` // of a row
	Calls         int    `json:"calls"`
	Reads         int    `json:"reads"`           // calls of tools that only read and may be prefetched
	Repeats       int    `json:"repeats"`         // of those: equal to an earlier call of the session
	Issued        int    `json:"issued"`          // prefetches
	Used          int    `json:"used"`            // prefetches that a call used
	Late          int    `json:"late"`            // of the used ones: still in flight when the call came
	UsedByRepeats int    `json:"used_by_repeats"` // of the used ones: first used by a repeat
	RepeatsServed int    `json:"repeats_served"`  // repeats that were not sent upstream
	Stale         int    `json:"stale_served"`    // answers fetched before the end of a recorded write; must be 0

	// Set by derive.
	IssuedPerCall float64 `json:"issued_per_call"`
	Accuracy      float64 `json:"accuracy"`       // Used / Issued; 0 if none was issued
	Coverage      float64 `json:"coverage"`       // share of the reads, except repeats, that used a prefetch
	Amplification float64 `json:"amplification"`  // calls sent upstream, prefetches included, per call of the client
	WaitBefore    int64   `json:"wait_ms_before"` // sum of the recorded durations of the calls
	WaitAfter     int64   `json:"wait_ms_after"`  // sum of their durations in the replay
	Hidden        int64   `json:"hidden_ms"`      // WaitBefore - WaitAfter

	covered       int           // reads, except repeats, that used a prefetch
	upstream      int           // calls sent upstream, prefetches included
	before, after time.Duration // total wait, as recorded and as played
}

// add adds the counts of other figures.
func (f *Figures) add(o *Figures) {
	f.Calls += o.Calls
	f.Reads += o.Reads
	f.Repeats += o.Repeats
	f.Issued += o.Issued
	f.Used += o.Used
	f.Late += o.Late
	f.UsedByRepeats += o.UsedByRepeats
	f.RepeatsServed += o.RepeatsServed
	f.Stale += o.Stale
	f.covered += o.covered
	f.upstream += o.upstream
	f.before += o.before
	f.after += o.after
}

// derive sets the ratios and the waits.
func (f *Figures) derive() {
	f.IssuedPerCall, f.Accuracy = record.Ratio(f.Issued, f.Calls), record.Ratio(f.Used, f.Issued)
	f.Coverage, f.Amplification = record.Ratio(f.covered, f.Reads-f.Repeats), record.Ratio(f.upstream, f.Calls)
	f.WaitBefore, f.WaitAfter = f.before.Milliseconds(), f.after.Milliseconds()
	f.Hidden = f.WaitBefore - f.WaitAfter
}

// Report is the result of an arm or, while it is played, of one of its sessions. It is an output
// format, as Figures are.
type Report struct {
	Name        string                `json:"policy"`
	Sessions    int                   `json:"sessions"`
	Untimed     int                   `json:"untimed_calls"` // calls without a recorded duration
	Think       int64                 `json:"think_ms"`      // pause assumed between turns where it was not recorded
	Figures                           // sum over all tools
	Declined    map[enrich.Reason]int `json:"declined"` // declined candidates by reason, counted once after each turn
	Calibration []Decile              `json:"calibration"`
	Tools       map[string]*Figures   `json:"tools"`
	Rows        []Figures             `json:"-"` // by session, in the order in which they were played
}

// Decile is a row of the reliability table: calls by their probability when first predicted, and how
// many of them were made while an answer fetched then could have been used.
type Decile struct {
	From     float64 `json:"from"` // probability
	N        int     `json:"n"`
	Expected float64 `json:"expected"` // mean probability; 0 if N is 0
	Observed float64 `json:"observed"` // share that were made
}

// Reports returns the results of the arms so far.
func (p *Player) Reports() (all []*Report) {
	for _, a := range p.arms {
		r := a.report
		r.Sessions, r.Untimed, r.Think, r.Calibration = len(r.Rows), p.untimed, p.o.Think.Milliseconds(), p.calibration()
		r.derive()
		for _, f := range r.Tools {
			f.derive()
		}
		all = append(all, r)
	}
	return all
}

func newReport(name string) *Report {
	return &Report{Name: name, Declined: make(map[enrich.Reason]int), Tools: make(map[string]*Figures)}
}

// tool returns the figures of a tool.
func (r *Report) tool(name string) *Figures {
	if r.Tools[name] == nil {
		r.Tools[name] = new(Figures)
	}
	return r.Tools[name]
}

// addSession adds the report of a session that has ended.
func (r *Report) addSession(s *Report) {
	row := Figures{Session: s.Name}
	for name, f := range s.Tools {
		row.add(f)
		r.tool(name).add(f)
	}
	for why, n := range s.Declined {
		r.Declined[why] += n
	}
	r.add(&row)
	row.derive()
	r.Rows = append(r.Rows, row)
}

// labelled counts a call that was predicted. In Player.deciles, Expected and Observed are sums.
func (p *Player) labelled(probability float64, came bool) {
	if !p.playing {
		return
	}
	d := &p.deciles[min(9, max(0, int(probability*10)))]
	d.N++
	d.Expected += probability
	if came {
		d.Observed++
	}
}

// calibration returns the reliability table.
func (p *Player) calibration() (all []Decile) {
	for i, d := range p.deciles {
		d.From = float64(i) / 10
		if d.N > 0 {
			d.Expected, d.Observed = d.Expected/float64(d.N), d.Observed/float64(d.N)
		}
		all = append(all, d)
	}
	return all
}
