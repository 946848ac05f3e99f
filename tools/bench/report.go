package main

import (
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

// report is the result of a run.
type report struct {
	Mode    string
	Quick   bool
	Go      string
	OS      string
	Arch    string
	CPUs    int
	Began   string // RFC 3339, UTC
	Seconds float64
	Cells   []row
	Facts   []fact
	Targets []check
}

// row is the result of a cell.
type row struct {
	Cell       string
	Upstream   string
	Front      string
	Size       int
	Window     int
	Columns    []column
	Latency    *spread // quotient of the medians of each round
	Throughput *spread // quotient of the calls per second of each round
}

// column is one target in a cell.
type column struct {
	Name  string
	P50   float64
	P99   float64
	Max   float64
	Rate  float64  // median of the rounds
	CPU   *float64 // of the process in the middle; nil if unknown
	Calls int
}

// fact is a figure that belongs to no cell.
type fact struct {
	Name  string
	Value float64
	Unit  string
}

// check is a target and the figure that was reached.
type check struct {
	Name string
	Got  float64
	Want float64
	Unit string
	Min  bool // the target is a minimum, otherwise a maximum
	OK   bool
}

func newReport(o options) *report {
	return &report{
		Mode: o.mode, Quick: o.quick,
		Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(),
	}
}

// bases maps each judged column to the column that it is compared with.
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

// brief formats the row as a line for the progress of a run.
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

// duration formats microseconds for people.
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

// addCell adds a row, and compares it with its target, if it has one. The targets apply to the
// SDK's upstream; for an upstream that takes almost no time, the ratio is only reported.
func (r *report) addCell(c row) {
	r.Cells = append(r.Cells, c)
	if c.Latency == nil || r.Mode == "speed" && c.Upstream != sdkUpstream {
		return
	}
	slowest, least, what := 0.0, 0.0, "" // 0 means no target
	switch r.Mode {
	case "enrich":
		slowest, what = 1.15, "on / off"
	case "record":
		slowest, what = 1.05, "on / off"
	case "versions":
		slowest, least, what = 1.05, 0.95, "new / old"
	default:
		what = "proxy / relay"
		slowest = map[int]float64{1 << 10: 1.2, 100 << 10: 1.08, 1 << 20: 1.08}[c.Size]
		least = map[int]float64{1 << 10: 0.85, 100 << 10: 0.95}[c.Size]
	}
	switch {
	case c.Window == 1:
		r.atMost(c.Cell+" p50, "+what, c.Latency.Median, slowest, "")
	case least > 0:
		r.atLeast(c.Cell+" calls/s, "+what, c.Throughput.Median, least, "")
	}
}

// passed reports whether the proxy reached every target.
func (r *report) passed() bool {
	return !slices.ContainsFunc(r.Targets, func(c check) bool { return !c.OK })
}

const caption = `Cells are upstream/front/size/calls in flight. sdk is a server built with mcp-go,
the kind that the targets were stated with: these rows are judged. raw answers
from memory faster than any server in the field: its rows show the proxy's own
cost at its plainest, and are told without a verdict. What "base" means: the relay,
the proxy with everything off, or the earlier build.
`

func (r *report) write(w io.Writer) error {
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

// number formats v with at most three decimals and no exponent.
func number(v float64) string {
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
}

// String returns the median and the quartiles.
func (s spread) String() string {
	return fmt.Sprintf("%.2f (%.2f–%.2f)", s.Median, s.Low, s.High)
}
