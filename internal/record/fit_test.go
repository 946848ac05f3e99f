package record_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"

	"mcpschedd/internal/record"
)

// On a small terminal the waiting and the tools are what stays.
func TestFit(t *testing.T) {
	s := busy().Stats(time.Time{})
	for _, tt := range []struct {
		columns, lines int
		want           string
	}{
		{40, 11, `waiting  905ms hidden, 900ms of it by
         prefetches, 1.1s waited

tool              calls  hidden  waited
github/get_issue  2      900ms   1.1s
files/read        1      5ms     0s
`},
		{20, 8, `waiting  905ms
  hidden, 900ms of
  it by prefetches,
  1.1s waited

tool           calls
…ub/get_issue  2
files/read     1
`},
		{12, 2, "tool\n…b/get_issue\n"},
	} {
		if diff := gocmp.Diff(tt.want, s.Fit(tt.columns, tt.lines)); diff != "" {
			t.Errorf("%d by %d: want (-), got (+):\n%s", tt.columns, tt.lines, diff)
		}
	}
	text := s.Fit(60, 0)
	if !strings.HasPrefix(text, "prefetch_hit=33.3% decline_recall_loss=20.0%\n") || !strings.Contains(text, "\nregret      1.1s less hidden than by the best choices, which\n            would have hidden 2s\n") {
		t.Errorf("60 by any number: want all of it, in lines; got\n%s", text)
	}
	if joined := strings.Join(strings.Fields(text), " "); !strings.Contains(joined, busyLine) {
		t.Errorf("the report line is lost in %s", joined)
	}
	nothing := tallied().Stats(time.Time{})
	if got := nothing.Fit(5, 5); got != "no calls so far\n" {
		t.Errorf("nothing: got %q", got)
	}
}

// Whatever the terminal and the names, no line is longer than it and no more lines are
// written than there are, but for one where there is none.
func TestFitFits(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	names := []string{"list", strings.Repeat("very_long_", 20), "世界世界世界世界世界世界", "a\u0301bc", "x", ""}
	for i := range 400 {
		var all []record.Event
		for n := range 1 + r.IntN(20) {
			all = append(all, record.Event{
				Kind: record.Call, Session: "a", Seq: int64(n + 1), Upstream: names[r.IntN(4)], Tool: fmt.Sprint(names[r.IntN(len(names))], r.IntN(9)), Disposition: record.Fetched, Sent: 1,
				LatencyMS: 1e7 * r.Float64(), Class: "read_only",
			}, record.Event{Kind: record.Choice, Session: "a", Candidates: 3, Reasons: map[string]int{"unsteady": 2, "gate": 1}, BestMS: 10})
		}
		s := tallied(all...).Stats(time.Time{})
		columns, lines := 12+r.IntN(120), r.IntN(40)
		text := s.Fit(columns, lines)
		got := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if lines > 0 && len(got) > max(lines, 2) {
			t.Errorf("%d: %d by %d: got %d lines", i, columns, lines, len(got))
		}
		if !strings.Contains("\n"+text, "\ntool") {
			t.Errorf("%d: %d by %d: no tools in\n%s", i, columns, lines, text)
		}
		for _, line := range got {
			if n := utf8.RuneCountInString(line); n > columns {
				t.Errorf("%d: %d by %d: got a line of %d: %q", i, columns, lines, n, line)
			}
		}
	}
}

func TestWrap(t *testing.T) {
	for _, tt := range []struct {
		text            string
		columns, indent int
		want            string
	}{
		{"one two three", 0, 0, "one two three"},
		{"one two three", 7, 0, "one two|three"},
		{"one two three", 8, 2, "one two|  three"},
		{"one two three", 4, 3, "one|two|thre|e"}, // no room for the indent
		{"name      text and", 8, 2, "name|  text|  and"},
		{"unbreakable", 4, 1, "unbr| eak| abl| e"},
		{"世界世界", 3, 0, "世界世|界"},
		{"", 4, 0, ""},
		{"  in front", 6, 0, "  in|front"},
	} {
		if got := strings.Join(record.Wrap(tt.text, tt.columns, tt.indent), "|"); got != tt.want {
			t.Errorf("%q in %d: got %q, want %q", tt.text, tt.columns, got, tt.want)
		}
	}
}

func FuzzWrap(f *testing.F) {
	f.Add("one two  three\t世界 e\u0301", 7, 2)
	f.Add("\xe4", 7, 2) // no letter
	f.Fuzz(func(t *testing.T, text string, columns, indent int) {
		columns, indent = columns&63, indent&63
		lines := record.Wrap(text, columns, indent)
		if got := strings.ReplaceAll(strings.Join(lines, ""), " ", ""); got != strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), " ", "") && utf8.ValidString(text) {
			t.Errorf("got %q of %q", got, text)
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); columns > 1 && n > columns {
				t.Errorf("%d columns: got %q", columns, line)
			}
		}
	})
}

// Nothing was fetched ahead of many reads: one line says why, and what to set.
func TestWhyNone(t *testing.T) {
	calls := func(class string, n int, more ...record.Event) string {
		for i := range n {
			more = append(more, record.Event{Kind: record.Call, Session: "a", Seq: int64(i + 1), Upstream: "files", Tool: "read", Disposition: record.Fetched, Class: class})
		}
		s := tallied(more...).Stats(time.Time{})
		return s.Fit(0, 0)
	}
	reads := func(n int, more ...record.Event) string { return calls("read_only", n, more...) }
	declined := record.Event{Kind: record.Choice, Session: "a", Candidates: 9, Reasons: map[string]int{"unsteady": 6, "gate": 2, "cap": 1}}
	for _, tt := range []struct {
		name, text, want string
	}{
		{"reasons", reads(21, declined), "prefetches  none: of 9 candidates 6 others may change it unnoticed (what they read may change without the proxy noticing: set remote = true for the upstream if it asks a service elsewhere, exclusive = true if nothing else changes it, or validate for tools that read a file); 2 would not pay (waste would weigh more than what they hide: waste_ms and second_worth_usd say what it weighs)\n"},
		{"an unknown reason", reads(21, record.Event{Kind: record.Choice, Session: "a", Reasons: map[string]int{"mood\x1b": 1}}), "prefetches  none: of 1 candidates 1 mood?\n"},
		{"nothing thought of", reads(21), "prefetches  none: no call was thought of; nothing has been seen to follow, or [enrichment] mode is \"off\"\n"},
		{"an upstream without a model", calls("indeterminate", 48), "prefetches  none: of 48 calls nothing says that their tools only read, so they are neither stored nor prefetched: mcpschedd check --connect -v prints the lines to paste\n"},
		{"too few reads to say", reads(20, declined), ""},
	} {
		got := ""
		for line := range strings.Lines(tt.text) {
			if strings.HasPrefix(line, "prefetches") {
				got = line
			}
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Prefetches that have begun are shown before it is known what becomes of them.
func TestUnderWay(t *testing.T) {
	sent := record.Event{Kind: record.Sent, Session: "a", Seq: 2, Upstream: "files", Tool: "read", Sent: 1, Prefetched: true}
	call := record.Event{Kind: record.Call, Session: "a", Seq: 1, Upstream: "files", Tool: "read", Disposition: record.Fetched, Class: "read_only"}
	for _, tt := range []struct {
		all  []record.Event
		want string
	}{
		{[]record.Event{call, sent}, "prefetches  1, 1 whose fate is not known yet\n"},
		{[]record.Event{sent}, "prefetches  1, 1 whose fate is not known yet\n"},
		{[]record.Event{call, sent, {Kind: record.Prefetch, Session: "a", Seq: 3, Fate: record.Wasted, Cause: "expired"}}, "prefetches  2, wasted 1 (1 too old when a call came), 1 whose fate is not known yet\n"},
		{[]record.Event{call, sent, {Kind: record.End, Session: "a"}}, "prefetches  1, 1 whose fate is not known yet\n"},
	} {
		s := tallied(tt.all...).Stats(time.Time{})
		if got := s.Fit(0, 0); !strings.Contains(got, tt.want) {
			t.Errorf("want %q in\n%s", tt.want, got)
		}
	}
}
