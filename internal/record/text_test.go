package record_test

import (
	"encoding/csv"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"mcpschedd/internal/record"
)

// busy returns a tally with a little of everything.
func busy() *record.Tally {
	pair := use("a", 3, 2)
	pair[0].HiddenMS, pair[0].LatencyMS = 900, 100
	pair[1].LatencyMS, pair[1].Sent = 1000, 1
	return tallied(append(pair,
		record.Event{Kind: record.Call, Session: "a", Seq: 1, Disposition: record.Fetched, Sent: 1, LatencyMS: 1000, UpstreamMS: 990, Bytes: 4000, Tokens: 1000, Predicted: 700, Class: "read_only"},
		record.Event{Kind: record.Call, Session: "a", Seq: 4, Upstream: "files", Tool: "read", Disposition: record.Hit, HiddenMS: 5, Bytes: 4000, Tokens: 1000, NotResent: 4000, Reference: true},
		record.Event{Kind: record.Prefetch, Session: "a", Seq: 5, Fate: record.Wasted, Cause: "never_asked", Sent: 1},
		record.Event{Kind: record.Prefetch, Session: "a", Seq: 6, Fate: record.Wasted, Cause: "dropped"},
		record.Event{Kind: record.Choice, Session: "a", Candidates: 8, Issued: 3, Reasons: map[string]int{"gate": 3, "budget": 2}, LateCalled: 1, BestMS: 2000, AchievedMS: 900},
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
	s := busy().Stats(time.Time{})
	want := `waiting     905ms hidden, 900ms of it by prefetches, 1.1s waited
saved       about 2900 tokens, 2 turns of the model
cost        3 requests to servers, 1.00 per call, 20ms that calls waited for prefetches
calls       3, 2 from the cache, 1 fetched
sessions    1, 1 open
prefetches  3, 33% used (reference: 60% or more), wasted 2 (1 cancelled, 1 never called)
declined    5 (3 not worth it, 2 too many tokens), 20% called anyway (reference: 10% or less)
sizes       1 predicted, 100% overrun (reference: 15% or less)
regret      1.1s less hidden than with the best choices, which would have hidden 2s

tool              calls  hidden  waited  prefetches  used  p50    p90
github/get_issue  2      900ms   1.1s    3           1     100ms  1s
files/read        1      5ms     0s      0           0     0s     0s
`
	if diff := gocmp.Diff(want, s.Figures()); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

func TestCSVToAFullDisk(t *testing.T) {
	if err := record.WriteCSV(noRoom{}, busy().Rows()); !errors.Is(err, errNoRoom) {
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
	tally := record.NewTally(0)
	for i := range 2000 {
		e := record.Event{
			Kind:    []record.Kind{record.Session, record.Call, record.Prefetch, record.Choice, record.Level, record.Harm}[r.IntN(6)],
			Session: hostile(r), Process: hostile(r), Client: hostile(r), Upstream: hostile(r), Tool: hostile(r), Host: hostile(r),
			Seq: int64(i), Disposition: record.Fetched, Fate: record.Wasted, Cause: hostile(r), Why: hostile(r),
			Reasons: map[string]int{hostile(r): 1}, Top: []record.Decision{{Tool: hostile(r), Reason: hostile(r)}},
		}
		tally.Add(&e)
	}
	s := tally.Stats(time.Time{})
	var out strings.Builder
	out.WriteString(s.Figures())
	record.WriteCSV(&out, tally.Rows())
	for _, c := range out.String() {
		if c != '\n' && c < ' ' || c == '\u202e' || c == '\u2028' || c == 0x7f {
			t.Fatalf("%U is printed", c)
		}
	}
	if len(s.Tools) < 100 {
		t.Errorf("only %d tools", len(s.Tools))
	}
	for name := range s.Tools {
		if len(name) > 260 {
			t.Errorf("a name of %d bytes", len(name))
		}
	}
	if err := compiled(t).Validate(asJSON(t, s)); err != nil {
		t.Error(err)
	}
	asJSON(t, tally.View(time.Time{}))
}

func TestCSV(t *testing.T) {
	var out strings.Builder
	if err := record.WriteCSV(&out, busy().Rows()); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
	if err != nil || len(lines) != 2 {
		t.Fatalf("got %d lines, %v", len(lines), err)
	}
	got := make(map[string]string)
	for i, name := range lines[0] {
		if _, twice := got[name]; twice {
			t.Errorf("two columns %s", name)
		}
		got[name] = lines[1][i]
	}
	for name, want := range map[string]string{
		"process": "p", "session": "a", "client": "", "begin": "2026-05-01T08:00:00.000000Z", "end": "", "calls": "3", "prefetches": "3", "used": "1", "wasted": "2",
		"accuracy": "0.333", "declined": "5", "tool_ms_hidden": "905.000", "turns_saved": "2", "context_tokens_saved": "2900", "harm_foreground_wait_ms": "20.000", "regret_ms": "1100.000",
	} {
		if got[name] != want {
			t.Errorf("%s: got %q, want %q", name, got[name], want)
		}
	}
}

// Names chosen by clients must not be run as formulas by a spreadsheet.
func TestCSVFormulas(t *testing.T) {
	for client, want := range map[string]string{
		"=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@SUM(A1)": "'@SUM(A1)", "\t=1": "'?=1", "\r\n=1": "'??=1", "  =1": "'  =1", "＝1": "'＝1",
		"claude 2": "claude 2", "a=b": "a=b", "": "", " ": " ", "é": "é", "'=1": "'=1",
	} {
		rows := tallied(record.Event{Kind: record.Session, Session: "a", Client: client}).Rows()
		var out strings.Builder
		if err := record.WriteCSV(&out, rows); err != nil {
			t.Fatal(err)
		}
		lines, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
		if err != nil || len(lines) != 2 || lines[1][2] != want {
			t.Errorf("%q: got %q, %v; want %q", client, lines[1][2], err, want)
		}
	}
}
