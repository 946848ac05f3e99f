package demo

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
)

// report is both runs side by side, as --json prints it. All times are
// milliseconds as measured, none scaled back: what the proxy itself adds is
// not shortened, and scaling would blow it up with the rest.
type report struct {
	Speed   float64  `json:"speed"` // think and tool times, and those that the proxy was told, were divided by it
	Turns   int      `json:"turns"`
	Rows    []row    `json:"calls"`
	Direct  total    `json:"direct"`
	Through total    `json:"mcpschedd"`
	Account *account `json:"stats,omitempty"` // what mcpschedd says of its run
	Equal   bool     `json:"equal"`           // every call and every answer, to the byte
	Survey  *survey  `json:"plan,omitempty"`  // reading that was done as one plan
}

// row is one call of the script in both runs.
type row struct {
	Turn      int            `json:"turn"`
	Server    string         `json:"upstream"`
	Tool      string         `json:"tool"`
	Args      map[string]any `json:"arguments"`
	ReadOnly  bool           `json:"read_only"` // as its server says
	Bytes     int            `json:"bytes"`     // of the answer's text, direct
	DirectMs  float64        `json:"direct_ms"`
	ThroughMs float64        `json:"mcpschedd_ms"`
	Answered  string         `json:"answered"` // how, as mcpschedd says
	Equal     bool           `json:"equal"`

	call call
}

// total is what one run took.
type total struct {
	StartMs  float64 `json:"start_ms"`     // processes, handshakes, lists of tools
	ReadMs   float64 `json:"read_only_ms"` // for calls that only read, each by itself
	WaitedMs float64 `json:"waited_ms"`    // for all calls; of those made together, the slowest counts
	TookMs   float64 `json:"took_ms"`      // thinking and waiting
}

func newReport(direct, through session, speed float64) *report {
	r := &report{Speed: speed, Direct: totalOf(direct), Through: totalOf(through), Account: through.Account}
	r.Equal = len(direct.Answers) == len(through.Answers)
	for i := range min(len(direct.Answers), len(through.Answers)) {
		d, t := direct.Answers[i], through.Answers[i]
		same := sameCall(d.call, t.call) && d.Text == t.Text
		r.Equal = r.Equal && same
		r.Turns = d.Turn
		r.Rows = append(r.Rows, row{
			Turn: d.Turn, Server: d.Server, Tool: d.Tool, Args: d.Args, ReadOnly: d.ReadOnly, Bytes: len(d.Text),
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
	t := total{StartMs: milliseconds(s.Start), WaitedMs: milliseconds(s.Waited), TookMs: milliseconds(s.Took)}
	for _, a := range s.Answers {
		if a.ReadOnly {
			t.ReadMs += milliseconds(a.Wait)
		}
	}
	return t
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
	if r.Survey != nil && !r.Survey.Equal {
		return fmt.Errorf("the plan brought other answers than its calls one by one")
	}
	return nil
}

func (r *report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
