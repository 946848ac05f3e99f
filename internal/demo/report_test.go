package demo_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/demo"
	"mcpschedd/internal/record"
)

// two returns a direct run of two calls in one turn.
func two() demo.Played {
	list := demo.Call{Server: "tracker", Tool: "list_issues", Args: map[string]any{"state": "open", "label": "bug"}}
	read := demo.Call{Server: "files", Tool: "read_file", Args: map[string]any{"path": "a/" + strings.Repeat("long/", 20)}}
	return demo.Played{
		Start: 20 * time.Millisecond, Waited: 100 * time.Millisecond,
		Answers: []demo.Answer{
			demo.AnswerTo(list, 1, "[1]", 95040*time.Microsecond),
			demo.AnswerTo(read, 1, "x", 100*time.Millisecond),
		},
	}
}

func TestText(t *testing.T) {
	through := two()
	through.Start, through.Waited = 30*time.Millisecond, 101*time.Millisecond
	through.Answers[0].Wait = 101 * time.Millisecond
	through.Answers[1].Wait, through.Answers[1].How = 200*time.Microsecond, "hit"
	stats := &record.Stats{}
	through.Stats = stats
	f := &stats.Totals
	f.Calls, f.UpstreamCalls, f.Amplification = 2, 4, 2
	f.Prefetch.Issued, f.Prefetch.Open, f.Prefetch.Used = 3, 1, 1
	r, err := demo.NewReport(two(), through, 4)
	if err != nil {
		t.Fatal(err)
	}
	r.Plan = &demo.Planned{Calls: 11, DirectMS: 738, PlanMS: 236}
	var b bytes.Buffer
	if err := demo.WriteText(r, &b, "it is kept"); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(b.String()) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	want := `Through mcpschedd the agent waited 48 % less for read-only calls: 0.10 s instead of 0.20 s.

Measured just now: one agent session of 2 calls in 1 turns, played twice at the same
time, directly against two MCP servers and through mcpschedd against two identical ones.
Think times (2-6 s), tool times (0.1-0.9 s) and the times in mcpschedd's configuration are
divided by 4. Both runs returned the same results, byte for byte.

turn  call                                          direct  mcpschedd  answered   █ waited, ░ saved
   1  list_issues label="bug" state="open"           95 ms     101 ms  fetched    ████████████████████
   1  read_file path="a/long/long/long/long/lon…    100 ms       0 ms  cached     ░░░░░░░░░░░░░░░░░░░░
      all read-only calls                           195 ms     101 ms  48 % less
      all turns, each its slowest call              100 ms     101 ms  1 % more
      to start, once                                 20 ms      30 ms  50 % more

The cost: 4 requests to the servers for 2 calls, 2.00 each.
Of 3 prefetches, 1 were used, and 2 were still unused at the end.

As one plan (execute_tool_plan), 11 calls took one turn and 0.24 s of waiting; one by one
and directly, 11 turns and 0.74 s.

The event log of the session was kept; to look at it: mcpschedd dashboard "it is kept/events"

To put mcpschedd in front of your own servers: mcpschedd import`
	if diff := cmp.Diff(want, strings.Join(lines, "\n")); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

// Different answers are an error.
func TestRunsDiffer(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*demo.Played)
		want   string // "" for no error
	}{
		"times and dispositions": {func(p *demo.Played) { p.Answers[0].Wait, p.Answers[1].How = 1, "hit" }, ""},
		"an answer": {func(p *demo.Played) { p.Answers[1].Text = "x " },
			`call 2, read_file path="a/long/long/long/long/long/long/long/long/long/long/l…: direct and mcpschedd differ`},
		"an argument": {func(p *demo.Played) { p.Answers[0].Args = map[string]any{"state": "all"} },
			`call 1, list_issues label="bug" state="open": direct and mcpschedd differ`},
	} {
		through := two()
		test.change(&through)
		got := ""
		if _, err := demo.NewReport(two(), through, 4); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
