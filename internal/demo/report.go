package demo

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// report is both runs side by side, as --json prints it. All times are
// milliseconds as measured, none scaled back: what the proxy itself adds is
// not shortened, and scaling would blow it up with the rest.
type report struct {
	Speed   float64 `json:"speed"` // think and tool times were divided by it
	Turns   int     `json:"turns"`
	Rows    []row   `json:"calls"`
	Direct  total   `json:"direct"`
	Through total   `json:"mcpschedd"`
	Equal   bool    `json:"equal"` // every call and every answer, to the byte
}

// row is one call of the script in both runs.
type row struct {
	Turn      int            `json:"turn"`
	Server    string         `json:"upstream"`
	Tool      string         `json:"tool"`
	Args      map[string]any `json:"arguments"`
	Bytes     int            `json:"bytes"` // of the answer's text, direct
	DirectMs  float64        `json:"direct_ms"`
	ThroughMs float64        `json:"mcpschedd_ms"`
	Answered  string         `json:"answered"` // how, as mcpschedd says
	Equal     bool           `json:"equal"`

	call call
}

// total is what one run took.
type total struct {
	StartMs  float64 `json:"start_ms"`  // processes, handshakes, lists of tools
	WaitedMs float64 `json:"waited_ms"` // of calls made together, the slowest counts
	TookMs   float64 `json:"took_ms"`   // thinking and waiting
}

func newReport(direct, through session, speed float64) *report {
	r := &report{Speed: speed, Direct: totalOf(direct), Through: totalOf(through)}
	r.Equal = len(direct.Answers) == len(through.Answers)
	for i := range min(len(direct.Answers), len(through.Answers)) {
		d, t := direct.Answers[i], through.Answers[i]
		same := sameCall(d.call, t.call) && d.Text == t.Text
		r.Equal = r.Equal && same
		r.Turns = d.Turn
		r.Rows = append(r.Rows, row{
			Turn: d.Turn, Server: d.Server, Tool: d.Tool, Args: d.Args, Bytes: len(d.Text),
			DirectMs: milliseconds(d.Wait), ThroughMs: milliseconds(t.Wait),
			// An answer without a word on it was fetched like any other.
			Answered: cmp.Or(t.Disposition, "fetched"), Equal: same, call: d.call,
		})
	}
	return r
}

func sameCall(a, b call) bool {
	return a.Server == b.Server && a.Tool == b.Tool && bytes.Equal(compact(a.Args), compact(b.Args))
}

func totalOf(s session) total {
	return total{milliseconds(s.Start), milliseconds(s.Waited), milliseconds(s.Took)}
}

// mismatch is an error if the two runs differ in anything but time.
func (r *report) mismatch() error {
	for i, w := range r.Rows {
		if !w.Equal {
			return fmt.Errorf("call %d, %s: direct and mcpschedd differ", i+1, w.call.short(70))
		}
	}
	if !r.Equal {
		return fmt.Errorf("direct and mcpschedd differ in the number of calls")
	}
	return nil
}

func (r *report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// writeTable prints the report for people, and what to do next: config is the
// file in which mcpschedd looks for its configuration.
func (r *report) writeTable(w io.Writer, config string) error {
	fmt.Fprintf(w, "One agent session, twice: %d calls in %d turns, straight to two MCP servers and through mcpschedd.\n", len(r.Rows), r.Turns)
	fmt.Fprintf(w, "Think times (2-6 s) and tool times (100-900 ms) are divided by %g in both. Waits are as measured, in ms.\n\n", r.Speed)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, " #\tturn\tcall\t  direct\tmcpschedd\tdifference\tanswered\n")
	for i, c := range r.Rows {
		answered := c.Answered
		if !c.Equal {
			answered += ", DIFFERS"
		}
		fmt.Fprintf(t, "%2d\t%4d\t%s\t%8.1f\t%9.1f\t%+10.1f\t%s\n",
			i+1, c.Turn, c.call.short(54), c.DirectMs, c.ThroughMs, c.ThroughMs-c.DirectMs, answered)
	}
	difference := r.Through.WaitedMs - r.Direct.WaitedMs
	fmt.Fprintf(t, "\t\twaited in all (a turn waits for its slowest call)\t%8.1f\t%9.1f\t%+10.1f\t\n",
		r.Direct.WaitedMs, r.Through.WaitedMs, difference)
	fmt.Fprintf(t, "\t\tto start, once\t%8.1f\t%9.1f\t%+10.1f\t\n",
		r.Direct.StartMs, r.Through.StartMs, r.Through.StartMs-r.Direct.StartMs)
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nThrough mcpschedd the agent waited %.1f ms %s, %.1f %% of its waiting.\n",
		max(difference, -difference), map[bool]string{true: "less", false: "more"}[difference < 0],
		100*max(difference, -difference)/max(r.Direct.WaitedMs, 0.1))
	if r.Equal {
		fmt.Fprintf(w, "All %d answers were the same to the byte.\n", len(r.Rows))
	}
	_, err := fmt.Fprintf(w, `
Next, with mcpschedd on your PATH:
  1. list your servers in %s:
       [upstreams.files]
       command = "npx"
       args = ["-y", "@modelcontextprotocol/server-filesystem", "/path/to/project"]
  2. add one line to your client, for Claude Code:
       claude mcp add mcpschedd -- mcpschedd serve
`, config)
	return err
}
