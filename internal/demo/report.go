package demo

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/record"
)

// report is the comparison of both runs, as --json prints it. All times are measured
// milliseconds. They are not scaled back to real time, which would also multiply the overhead of
// the proxy, which Speed does not shorten.
type report struct {
	Speed   float64         `json:"speed"` // divisor of think times, tool times and the times in the configuration
	Turns   int             `json:"turns"`
	Rows    []row           `json:"calls"`
	Direct  total           `json:"direct"`
	Through total           `json:"mcpschedd"`
	Stats   *record.Stats   `json:"stats"` // mcpschedd's statistics of its run
	Plan    *planComparison `json:"plan"`  // comparison of single reads with one plan
}

// row is one call of the script in both runs.
type row struct {
	call
	Turn      int     `json:"turn"`
	ReadOnly  bool    `json:"read_only"`
	DirectMS  float64 `json:"direct_ms"`
	ThroughMS float64 `json:"mcpschedd_ms"`
	Answered  string  `json:"answered"` // disposition that mcpschedd reports
}

// total is the times of one run.
type total struct {
	StartMS  float64 `json:"start_ms"`     // for processes, initialization and lists of tools
	ReadMS   float64 `json:"read_only_ms"` // sum over all read-only calls
	WaitedMS float64 `json:"waited_ms"`    // sum over all turns of the slowest call
}

// newReport compares the runs. It returns an error if they differ in anything but time.
func newReport(direct, through runResult, speed float64) (*report, error) {
	r := &report{Speed: speed, Stats: through.Stats}
	r.Direct = total{StartMS: milliseconds(direct.Start), WaitedMS: milliseconds(direct.Waited)}
	r.Through = total{StartMS: milliseconds(through.Start), WaitedMS: milliseconds(through.Waited)}
	for i, d := range direct.Answers {
		t := through.Answers[i]
		same := d.Server == t.Server && d.Tool == t.Tool && d.Text == t.Text
		if !same || !bytes.Equal(jsonrpc.Marshal(d.Args), jsonrpc.Marshal(t.Args)) {
			return nil, fmt.Errorf("call %d, %s: direct and mcpschedd differ", i+1, d.short(70))
		}
		c := row{
			call: d.call, Turn: d.Turn, ReadOnly: d.Tool != "update_issue",
			DirectMS: milliseconds(d.Wait), ThroughMS: milliseconds(t.Wait),
			Answered: cmp.Or(t.How, string(record.Fetched)), // an answer without a disposition was fetched
		}
		if c.ReadOnly {
			r.Direct.ReadMS += c.DirectMS
			r.Through.ReadMS += c.ThroughMS
		}
		r.Rows, r.Turns = append(r.Rows, c), c.Turn
	}
	return r, nil
}

// writeText writes the report as text: savings, a line per call, costs, and next steps. kept is
// the folder with the record, if it was kept.
func (r *report) writeText(w io.Writer, kept string) error {
	fmt.Fprintf(w, `Through mcpschedd the agent waited %s for read-only calls: %s instead of %s.

Measured just now: one agent session of %d calls in %d turns, played twice at the same
time, directly against two MCP servers and through mcpschedd against two identical ones.
Think times (2-6 s), tool times (0.1-0.9 s) and the times in mcpschedd's configuration are
divided by %g. Both runs returned the same results, byte for byte.

`, change(r.Direct.ReadMS, r.Through.ReadMS), seconds(r.Through.ReadMS), seconds(r.Direct.ReadMS), len(r.Rows), r.Turns, r.Speed)
	if err := r.writeRows(w); err != nil {
		return err
	}
	t := &r.Stats.Totals
	fmt.Fprintf(w, "\nThe cost: %d requests to the servers for %d calls, %.2f each.\n", t.UpstreamCalls, t.Calls, t.Amplification)
	fmt.Fprintf(w, "Of %d prefetches, %d were used, and %d were still unused at the end.\n", t.Prefetch.Issued, t.Prefetch.Used, t.Prefetch.Issued-t.Prefetch.Used)
	fmt.Fprintf(w, "\nAs one plan (execute_tool_plan), %d calls took one turn and %s of waiting; one by one\nand directly, %d turns and %s.\n",
		r.Plan.Calls, seconds(r.Plan.PlanMS), r.Plan.Calls, seconds(r.Plan.DirectMS))
	if kept != "" {
		fmt.Fprintf(w, "\nThe event log of the session was kept; to look at it: mcpschedd dashboard %q\n", filepath.Join(kept, "events"))
	}
	_, err := fmt.Fprint(w, "\nTo put mcpschedd in front of your own servers: mcpschedd import\n")
	return err
}

// Characters and maximum length of a bar.
const (
	waited, saved = '█', '░'
	barWidth      = 20
)

// writeRows writes a line per call, and the sums.
func (r *report) writeRows(w io.Writer) error {
	longest := 0.1
	for _, c := range r.Rows {
		longest = max(longest, c.DirectMS, c.ThroughMS)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "turn\tcall\t  direct\tmcpschedd\tanswered\t%c waited, %c saved\n", waited, saved)
	for _, c := range r.Rows {
		fmt.Fprintf(t, "%4d\t%s\t%5.0f ms\t%6.0f ms\t%s\t%s\n", c.Turn, c.short(42), c.DirectMS, c.ThroughMS, strings.Replace(c.Answered, "hit", "cached", 1), bar(c.DirectMS, c.ThroughMS, longest))
	}
	for _, sum := range []struct {
		name            string
		direct, through float64
	}{
		{"all read-only calls", r.Direct.ReadMS, r.Through.ReadMS},
		{"all turns, each its slowest call", r.Direct.WaitedMS, r.Through.WaitedMS},
		{"to start, once", r.Direct.StartMS, r.Through.StartMS},
	} {
		fmt.Fprintf(t, "\t%s\t%5.0f ms\t%6.0f ms\t%s\t\n", sum.name, sum.direct, sum.through, change(sum.direct, sum.through))
	}
	return t.Flush()
}

// bar draws the wait through mcpschedd, followed by the time saved.
func bar(directMS, throughMS, longest float64) string {
	cells := func(ms float64) int { return int(math.Round(barWidth * ms / longest)) }
	n := cells(throughMS)
	return strings.Repeat(string(waited), n) + strings.Repeat(string(saved), max(0, cells(directMS)-n))
}

// seconds formats a time.
func seconds(ms float64) string { return fmt.Sprintf("%.2f s", ms/1000) }

// change describes the difference between two times.
func change(from, to float64) string {
	word := "more"
	if to < from {
		word = "less"
	}
	return fmt.Sprintf("%.0f %% %s", 100*math.Abs(to-from)/max(from, 0.1), word)
}

// milliseconds converts d for the report.
func milliseconds(d time.Duration) float64 {
	return float64(d.Round(100*time.Microsecond)) / float64(time.Millisecond)
}
