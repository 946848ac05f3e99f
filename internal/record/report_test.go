package record_test

import (
	"encoding/csv"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/record"
)

// busy returns a tally with events of all kinds.
func busy() *record.Tally {
	pair := use("a", 3, 2)
	pair[0].HiddenMS, pair[0].LatencyMS = 900, 100
	pair[1].LatencyMS, pair[1].Sent = 1000, 1
	return tallied(append(pair,
		record.Event{Kind: record.Call, Session: "a", Seq: 1, Disposition: record.Fetched, Sent: 1, LatencyMS: 1000, UpstreamMS: 990, Bytes: 4000, Tokens: 1000, PredictedTokens: 700, Class: "read_only"},
		record.Event{Kind: record.Call, Session: "a", Seq: 4, Upstream: "files", Tool: "read", Disposition: record.Hit, HiddenMS: 5, Bytes: 4000, Tokens: 1000, NotResent: 4000},
		record.Event{Kind: record.Prefetch, Session: "a", Seq: 5, Fate: record.Wasted, Cause: "never_asked", Sent: 1},
		record.Event{Kind: record.Prefetch, Session: "a", Seq: 6, Fate: record.Wasted, Cause: "dropped"},
		record.Event{Kind: record.Decision, Session: "a", Candidates: 8, Issued: 3, Declined: map[string]int{"gate": 3, "budget": 2}, LateCalled: 1},
		record.Event{Kind: record.Plan, Session: "a", Steps: 4, Depth: 3, BytesIn: 8000, BytesOut: 400},
		record.Event{Kind: record.Harm, Session: "a", Why: "foreground_wait", LatencyMS: 20},
	)...)
}

const busyLine = "prefetch_hit=33.3% decline_recall_loss=20.0% cost_overrun=100.0% race_win=100.0% waste=66.7% turns_saved=2 " +
	"served=2 (prefetch=1, repeat=1) backoffs=0 tool_ms_hidden=905 tokens_saved=2900 prefetches=3 dispatched=2 declines=5 predictions=1"

func TestLine(t *testing.T) {
	s := busy().Stats(time.Time{})
	if s.ReportLine() != busyLine || s.Report != busyLine {
		t.Errorf("got  %s\nwant %s", s.ReportLine(), busyLine)
	}
	s = tallied(record.Event{Kind: record.Call, Disposition: record.Fetched, Sent: 1, LatencyMS: 50}).Stats(time.Time{})
	if s.ReportLine() != "" {
		t.Errorf("nothing was done: got %q", s.ReportLine())
	}
}

func TestText(t *testing.T) {
	v := busy().View(time.Time{})
	text := v.Text(true)
	for _, want := range []string{
		"\ntool_ms_hidden_prefetch     900 ms   Waiting time saved by prefetches, each counted with its first use only.\n",
		"\nprefetch.accuracy           33%      Share of the prefetches with a known fate that were used.\n",
		"\ngate                        3        the expected waste outweighs the expected saving, or a later prefetch may save as much: waste_ms and second_worth_usd set the weight\n",
		"\nnever_asked                 1        the session or the process ended first\n",
		"\n\ntool              calls  hidden  waited  prefetches  used  p50     p90\ngithub/get_issue  2      900 ms  1.10 s  3           1     100 ms  1.00 s\nfiles/read        1      5 ms    0 ms    0           0     0 ms    0 ms\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "\ncalls_failed") || strings.Contains(text, "\nbackoffs") {
		t.Errorf("want no figures that are 0:\n%s", text)
	}
}

// Processes in containers have the same PID, and each has a line. Only the workplaces of a daemon share one, and those
// of one directory are listed once.
func TestTextOfProcesses(t *testing.T) {
	var v record.View
	v.Stats.SetRunning([]record.Status{
		{PID: 1, Transport: "http", Dir: "/a"}, {PID: 1, Transport: "http", Dir: "/b"},
		{PID: 2, Transport: record.Daemon, Dir: "/c"}, {PID: 2, Transport: record.Daemon, Dir: "/d"},
		{PID: 2, Transport: record.Daemon, Dir: "/d"}, // with other variables
	})
	text := v.Text(false)
	for _, want := range []string{"http in /a,", "http in /b,", "daemon in /c,", "\n  and in /d\n"} {
		if strings.Count(text, want) != 1 {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
}

func TestCSVToAFullDisk(t *testing.T) {
	if err := new(busy().Stats(time.Time{})).WriteCSV(noRoom{}); !errors.Is(err, errNoRoom) {
		t.Errorf("got %v", err)
	}
}

var errNoRoom = errors.New("no room")

type noRoom struct{}

func (noRoom) Write([]byte) (int, error) { return 0, errNoRoom }

// hostile returns a random malicious name.
func hostile(r *rand.Rand) string {
	parts := []string{"\x1b[2J", "\x1b]0;owned\a", "\r\n", "\t", "\u202e", "\x00", "\xff\xfe", "\u2028", "=1+1", `"`, ",", "ok", strings.Repeat("long", 3000)}
	var b strings.Builder
	for range 1 + r.IntN(4) {
		b.WriteString(parts[r.IntN(len(parts))])
	}
	return b.String()
}

// Control characters in names do not reach the terminal.
func TestHostileNames(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	tally := record.NewTally()
	for i := range 2000 {
		e := record.Event{
			Kind:    []record.Kind{record.Session, record.Call, record.Prefetch, record.Decision, record.Level, record.Harm}[r.IntN(6)],
			Session: hostile(r), Process: hostile(r), Client: hostile(r), Upstream: hostile(r), Tool: hostile(r), Host: hostile(r),
			Seq: int64(i), Disposition: record.Fetched, Fate: record.Wasted, Cause: hostile(r), Why: hostile(r),
			Declined: map[string]int{hostile(r): 1}, Top: []record.Candidate{{Tool: hostile(r), Reason: hostile(r)}},
		}
		record.Clamp(&e)
		tally.Add(&e)
	}
	s := tally.Stats(time.Time{})
	var out strings.Builder
	v := record.View{Stats: s}
	out.WriteString(v.Text(true))
	s.WriteCSV(&out)
	for _, c := range out.String() {
		if c != '\n' && c < ' ' || c == '\u202e' || c == '\u2028' || c == 0x7f {
			t.Fatalf("%U is printed", c)
		}
	}
	if len(s.Tools) < 100 {
		t.Errorf("only %d tools", len(s.Tools))
	}
	for name := range s.Tools {
		if len(name) > 520 {
			t.Errorf("a name of %d bytes", len(name))
		}
	}
	if err := compiled(t).Validate(asJSON(t, s)); err != nil {
		t.Error(err)
	}
	asJSON(t, tally.View(time.Time{}))
}

func TestCSV(t *testing.T) {
	got := csvOf(t, busy())
	if len(got) != 3 {
		t.Fatalf("got %d lines, want a head and two tools", len(got))
	}
	of := make(map[string]string)
	for i, name := range got[0] {
		if _, twice := of[name]; twice {
			t.Errorf("two columns %s", name)
		}
		of[name] = got[2][i] + " " + got[1][i]
	}
	for name, want := range map[string]string{
		"tool": "github/get_issue files/read", "calls": "2 1", "prefetch.issued": "3 0", "prefetch.wasted": "2 0", "tool_ms_hidden": "900 5", "latency_ms.p50": "100 0", "context_tokens_saved": "0 1000",
	} {
		if of[name] != want {
			t.Errorf("%s: got %q, want %q", name, of[name], want)
		}
	}
}

func csvOf(t *testing.T, tally *record.Tally) [][]string {
	t.Helper()
	s := tally.Stats(time.Time{})
	var out strings.Builder
	if err := s.WriteCSV(&out); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return lines
}
