package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// report is what a run found. Its JSON form is for programs.
type report struct {
	Mode     string  `json:"mode"`
	Quick    bool    `json:"quick,omitempty"`
	Go       string  `json:"go"`
	OS       string  `json:"os"`
	Arch     string  `json:"arch"`
	CPUs     int     `json:"cpus"`
	Began    string  `json:"began"` // RFC 3339, UTC
	Seconds  float64 `json:"seconds"`
	Cells    []row   `json:"cells,omitempty"`
	Facts    []fact  `json:"facts,omitempty"`
	Targets  []check `json:"targets,omitempty"`
	Complete bool    `json:"complete"` // the proxy was measured
}

// row is one cell.
type row struct {
	Cell       string   `json:"cell"`
	Upstream   string   `json:"upstream"`
	Front      string   `json:"front"`
	Size       int      `json:"size_bytes"`
	Window     int      `json:"in_flight"`
	Columns    []column `json:"columns"`
	Latency    *spread  `json:"p50_to_base,omitempty"`  // quotient of the medians of each round
	Throughput *spread  `json:"rate_to_base,omitempty"` // quotient of the calls per second of each round
}

// column is one target in a cell.
type column struct {
	Name  string   `json:"name"`
	P50   float64  `json:"p50_us"`
	P99   float64  `json:"p99_us"`
	Max   float64  `json:"max_us"`
	Rate  float64  `json:"calls_per_s"`               // median of the rounds
	CPU   *float64 `json:"cpu_us_per_call,omitempty"` // of the process in the middle; absent where unknown
	Calls int      `json:"calls"`
}

// fact is one figure that is no part of a cell.
type fact struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// check is one target: what was to be reached and what was.
type check struct {
	Name string  `json:"name"`
	Got  float64 `json:"got"`
	Want float64 `json:"want"`
	Unit string  `json:"unit,omitempty"`
	Min  bool    `json:"at_least,omitempty"` // want is a lower bound, else an upper one
	OK   bool    `json:"ok"`
}

func newReport(o options) *report {
	return &report{
		Mode: o.mode, Quick: o.quick, Complete: o.bin != "",
		Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(),
		Began: time.Now().UTC().Format(time.RFC3339),
	}
}

// bases says what each column that is judged is held against.
var bases = map[string]string{proxied: relayed, switchedOn: switchedOff, newer: older, connected: relayServed}

func newRow(c cell, runners []*runner) row {
	r := row{Cell: c.String(), Upstream: c.upstream, Front: c.front, Size: c.size, Window: c.window}
	byName := make(map[string]*runner)
	for _, run := range runners {
		byName[run.name] = run
		col := column{
			Name:  run.name,
			P50:   micros(percentile(run.latencies, 50)),
			P99:   micros(percentile(run.latencies, 99)),
			Max:   micros(percentile(run.latencies, 100)),
			Rate:  spreadOf(slices.Clone(run.rates)).Median,
			Calls: len(run.latencies),
		}
		if run.name != direct && run.cpuKnown && col.Calls > 0 {
			cpu := micros(run.cpu) / float64(col.Calls)
			col.CPU = &cpu
		}
		r.Columns = append(r.Columns, col)
	}
	for judged, base := range bases {
		if p, b := byName[judged], byName[base]; p != nil && b != nil {
			latency := spreadOf(ratios(p.medians, b.medians))
			throughput := spreadOf(ratios(p.rates, b.rates))
			r.Latency, r.Throughput = &latency, &throughput
		}
	}
	return r
}

// brief is the row on one line while the run goes on.
func (r row) brief() string {
	var s strings.Builder
	for _, c := range r.Columns {
		s.WriteString(fmt.Sprintf("%s %s  ", c.Name, duration(c.P50)))
	}
	if r.Latency != nil {
		s.WriteString(fmt.Sprintf("p50 ×%.2f, calls/s ×%.2f", r.Latency.Median, r.Throughput.Median))
	}
	return s.String()
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// duration writes microseconds for people.
func duration(us float64) string {
	switch {
	case us < 1000:
		return fmt.Sprintf("%.0fµs", us)
	case us < 1e6:
		return fmt.Sprintf("%.2fms", us/1e3)
	}
	return fmt.Sprintf("%.2fs", us/1e6)
}

func (r *report) addFact(name string, value float64, unit string) {
	r.Facts = append(r.Facts, fact{name, value, unit})
}

func (r *report) atMost(name string, got, want float64, unit string) {
	r.Targets = append(r.Targets, check{Name: name, Got: got, Want: want, Unit: unit, OK: got <= want})
}

func (r *report) atLeast(name string, got, want float64, unit string) {
	r.Targets = append(r.Targets, check{Name: name, Got: got, Want: want, Unit: unit, Min: true, OK: got >= want})
}

// addCell adds a row and holds it against its target, if it has one. The targets
// were stated with the SDK's upstream: what a tenth of a millisecond is to one
// that needs no time itself, is only told.
func (r *report) addCell(c row) {
	r.Cells = append(r.Cells, c)
	if most := map[string]float64{"enrich": 1.15, "record": 1.05}[r.Mode]; most > 0 {
		if c.Window == 1 {
			r.atMost(c.Cell+" p50, on / off", c.Latency.Median, most, "")
		}
		return
	}
	if r.Mode == "versions" {
		if c.Window == 1 {
			r.atMost(c.Cell+" p50, new / old", c.Latency.Median, 1.05, "")
		} else {
			r.atLeast(c.Cell+" calls/s, new / old", c.Throughput.Median, 0.95, "")
		}
		return
	}
	if c.Latency == nil || c.Upstream != sdkUpstream {
		return
	}
	if c.Window == 1 {
		want := 1.08
		if c.Size <= 1<<10 {
			want = 1.2
		}
		r.atMost(c.Cell+" p50, proxy / relay", c.Latency.Median, want, "")
		return
	}
	switch c.Size {
	case 1 << 10:
		r.atLeast(c.Cell+" calls/s, proxy / relay", c.Throughput.Median, 0.85, "")
	case 100 << 10:
		r.atLeast(c.Cell+" calls/s, proxy / relay", c.Throughput.Median, 0.95, "")
	}
}

func (r *report) addSleepers(cells, target string, took time.Duration) {
	name := fmt.Sprintf("%s %s, 16 calls of 300 ms at once", cells, target)
	if bases[target] != "" {
		r.atMost(name, took.Seconds(), 0.4, "s")
		return
	}
	r.addFact(name, took.Seconds(), "s")
}

// passed says whether the proxy was measured and reached every target.
func (r *report) passed() bool {
	return r.Complete && !slices.ContainsFunc(r.Targets, func(c check) bool { return !c.OK })
}

func (r *report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

const caption = `Cells are upstream/front/size/calls in flight. sdk is a server built with mcp-go,
the kind that the targets were stated with: these rows are judged. raw answers
from memory faster than any server in the field: its rows show the proxy's own
cost at its plainest, and are told without a verdict. What "base" means: the relay,
the proxy with everything off, or the earlier build.
`

func (r *report) writeTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	if len(r.Cells) > 0 {
		if _, err := io.WriteString(w, caption); err != nil {
			return err
		}
		fmt.Fprintln(t, "cell\t\tp50\tp99\tcalls/s\tcpu/call\tcalls\tp50 to base (quartiles)\tcalls/s to base\t")
	}
	for _, c := range r.Cells {
		for i, col := range c.Columns {
			cellName, cpu, latency, throughput := "", "", "", ""
			if i == 0 {
				cellName = c.Cell
			}
			if col.CPU != nil {
				cpu = duration(*col.CPU)
			}
			if bases[col.Name] != "" && c.Latency != nil {
				latency, throughput = c.Latency.String(), c.Throughput.String()
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%.0f\t%s\t%d\t%s\t%s\t\n", cellName, col.Name, duration(col.P50), duration(col.P99), col.Rate, cpu, col.Calls, latency, throughput)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range r.Facts {
		fmt.Fprintf(t, "%s\t%s %s\n", f.Name, number(f.Value), f.Unit)
	}
	for _, c := range r.Targets {
		verdict, bound := "ok", "≤"
		if !c.OK {
			verdict = "MISSED"
		}
		if c.Min {
			bound = "≥"
		}
		fmt.Fprintf(t, "%s\t%s %s\t(target %s %s)\t%s\n", c.Name, number(c.Got), c.Unit, bound, number(c.Want), verdict)
	}
	fmt.Fprintf(t, "%s %s/%s, %d CPUs, %.0f s\n", r.Go, r.OS, r.Arch, r.CPUs, r.Seconds)
	return t.Flush()
}

// number writes v with at most three decimals and no exponent.
func number(v float64) string {
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
}

// String is the median and the quartiles.
func (s spread) String() string {
	return fmt.Sprintf("%.2f (%.2f–%.2f)", s.Median, s.Low, s.High)
}
