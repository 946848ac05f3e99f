package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/replay"
	"mcpschedd/tools/dataset"
)

const takes = 600 * time.Millisecond

// desk is a session of a client that makes one call per turn: a list, three of its items, and one
// of them again after a change.
const desk = `
{"session":"a","batch":0,"tool":"list","arguments":{"of":"b"},"result_text":"[\"x\",\"y\"]"}
{"session":"a","batch":1,"tool":"get","arguments":{"id":"x"},"result_text":"old"}
{"session":"a","batch":2,"tool":"get","arguments":{"id":"y"},"result_text":"why"}
{"session":"a","batch":3,"tool":"set","arguments":{"id":"x"},"result_text":"done"}
{"session":"a","batch":4,"tool":"get","arguments":{ "id": "x" },"result_text":"new","is_error":true}
`

// agent is a session of a client that makes several calls per turn, with times.
const agent = `
{"session":"b","batch":0,"tool":"get","arguments":{"id":"1"},"ts_ms":1000,"res_ts_ms":1010}
{"session":"b","batch":0,"tool":"get","arguments":{"id":"2"},"ts_ms":1005,"res_ts_ms":1500}
{"session":"b","batch":1,"tool":"set","arguments":{},"ts_ms":3500,"res_ts_ms":3600}
{"session":"b","batch":1,"tool":"get","arguments":{"id":"3"},"ts_ms":3500,"res_ts_ms":3600}
{"session":"b","batch":2,"tool":"get","arguments":{"id":"4"},"ts_ms":999999,"res_ts_ms":999999}
`

func parsed(t *testing.T, text string) []*session {
	t.Helper()
	name := filepath.Join(t.TempDir(), "classes.toml")
	if err := os.WriteFile(name, []byte("[tools.get]\nside_effect_class = \"read_only\"\n[tools.list]\nside_effect_class = \"pure\"\nspeculate = false\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	model, err := dataset.Classes(name)
	if err != nil {
		t.Fatal(err)
	}
	calls, err := replay.ReadTrace("trace", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return sessionsOf(calls, 1, model)
}

func TestSessions(t *testing.T) {
	all := parsed(t, desk+strings.TrimSpace(agent))
	if len(all) != 1 {
		t.Fatalf("got %d sessions, want only the first", len(all))
	}
	var reads, counts, repeats []bool
	for _, c := range all[0].Calls {
		reads, counts, repeats = append(reads, c.Reads), append(counts, c.Counts), append(repeats, c.Repeat)
	}
	got := [][]bool{reads, counts, repeats}
	want := [][]bool{{true, true, true, false, true}, {false, true, true, false, false}, {false, false, false, false, true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reads, counts, repeats: %s", diff)
	}
}

// A step is written as its pause and its calls.
func TestTimetable(t *testing.T) {
	for _, c := range []struct {
		trace  string
		pauses pauses
		want   string
	}{
		{desk, recorded, "3s[0] 3s[1] 3s[2] 3s[3] 3s[4]"},
		{desk, inRow, "3s[0] 3s[1] 0s[2] 3s[3] 3s[4]"},
		{desk, atOnce, "3s[0] 3s[1 2] 3s[3] 3s[4]"},
		{agent, recorded, "3s[0 1] 2s[2 3] 20s[4]"},
		{agent, inRow, "3s[0] 0s[1] 2s[2] 0s[3] 20s[4]"},
		{agent, atOnce, "3s[0 1] 2s[2] 0s[3] 20s[4]"},
	} {
		var got []string
		for _, s := range parsed(t, c.trace)[0].timetable(c.pauses) {
			numbers, _ := json.Marshal(s.calls)
			got = append(got, s.pause.String()+strings.ReplaceAll(string(numbers), ",", " "))
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: got %s, want %s", c.pauses, got, c.want)
		}
	}
	for i, s := range parsed(t, desk)[0].timetable(hasty) {
		if i > 0 && (s.pause < 300*time.Millisecond || s.pause > time.Second) {
			t.Errorf("hasty: got a pause of %v", s.pause)
		}
	}
}

// The trace for replay can be read, and has the times of a server without prefetches.
func TestTrace(t *testing.T) {
	s := parsed(t, agent)[0]
	calls := s.trace(s.timetable(atOnce), cell{Serial: true, Takes: takes})
	var times [][2]int64
	var text strings.Builder
	for _, c := range calls {
		times = append(times, [2]int64{*c.Start, *c.End})
		json.NewEncoder(&text).Encode(c)
	}
	if diff := cmp.Diff([][2]int64{{0, 600}, {0, 1200}, {3200, 3800}, {3800, 4400}, {24400, 25000}}, times); diff != "" {
		t.Error(diff)
	}
	if _, err := replay.ReadTrace("trace", strings.NewReader(text.String())); err != nil {
		t.Error(err)
	}
}

func TestWorld(t *testing.T) {
	w := newWorld(parsed(t, desk)[0].Calls)
	for _, c := range []struct {
		tool, arguments, want string
		failed                bool
	}{
		{"get", `{"id":"x"}`, "old", false},
		{"get", `{"id":"z"}`, notRecorded, false},
		{"set", `{"id":"x"}`, "done", false},
		{"get", `{"id":"x"}`, "new", true},
		{"get", `{"id": "y"}`, "why", false},
	} {
		if got, failed := w.call(keyOf(c.tool, []byte(c.arguments))); got != c.want || failed != c.failed {
			t.Errorf("%s %s: got %q, %v, want %q, %v", c.tool, c.arguments, got, failed, c.want, c.failed)
		}
	}
}

// played plays a session directly with the server, in fake time. The calls early are made before
// it begins.
func played(t *testing.T, s *session, c cell, early ...string) *play {
	t.Helper()
	dir := t.TempDir()
	t.Setenv(sessionVariable, "s")
	l := &lab{dir: dir, played: []*session{s}}
	a := &arm{lab: l, cell: c, dir: dir}
	if err := l.writeTools(dir); err != nil {
		t.Fatal(err)
	}
	if err := a.furnish(s, "s"); err != nil {
		t.Fatal(err)
	}
	p := &play{session: s, calls: make([]made, len(s.Calls))}
	bubble.Test(t, func(t *testing.T) {
		h := &house{dir: dir, takes: c.Takes, serial: c.Serial, rooms: make(map[string]*room)}
		listed, err := h.listed()
		if err != nil {
			t.Fatal(err)
		}
		in, err := client.NewInProcessClient(listed)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		if _, err := in.Initialize(t.Context(), mcp.InitializeRequest{}); err != nil {
			t.Fatal(err)
		}
		for _, arguments := range early {
			go in.CallTool(context.WithoutCancel(t.Context()), mcp.CallToolRequest{Params: mcp.CallToolParams{Name: "get", Arguments: json.RawMessage(arguments)}})
		}
		names, err := s.listed(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.client(t.Context(), in, names, s.timetable(c.Pauses)); err != nil {
			t.Fatal(err)
		}
	})
	var err error
	if p.arrived, err = readJournal(journalFile(dir, "s")); err != nil {
		t.Fatal(err)
	}
	p.cover()
	return p
}

func TestPlay(t *testing.T) {
	p := played(t, parsed(t, desk)[0], cell{Takes: takes, Pauses: atOnce})
	got := figuresOf([]*play{p})
	want := figures{Sessions: 1, Calls: 5, Reads: 2, Upstream: 5, PerCall: 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// At a serial server the second call of a turn waits for the first, and the first for earlier
// calls.
func TestPlaySerial(t *testing.T) {
	c := cell{Serial: true, Takes: 2 * think, Pauses: atOnce}
	without := played(t, parsed(t, desk)[0], c)
	p := played(t, parsed(t, desk)[0], c, `{"id":"none"}`)
	r := row{cell: c, Arm: cold, figures: figuresOf([]*play{p})}
	r.compare([]*play{p}, []*play{without})
	if got, want := r.Upstream, 6; got != want {
		t.Errorf("upstream: got %d calls, want %d", got, want)
	}
	if got, want := r.Others, 6.5/6; got < want-1e-9 || got > want+1e-9 { // half of the early call was still running
		t.Errorf("others: got %v, want %v", got, want)
	}
}

// A call is covered if its server got it before the client made it, and not again.
func TestCover(t *testing.T) {
	s := parsed(t, desk)[0]
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	came := func(call, ms int) arrival { return arrival{Key: s.Calls[call].Key, At: at(ms).UnixNano()} }
	p := &play{
		session: s,
		calls:   []made{{sent: at(0), answered: at(9)}, {sent: at(20), answered: at(29)}, {sent: at(30), answered: at(39)}, {}, {sent: at(50), answered: at(59)}},
		arrived: []arrival{came(0, 1), came(1, 10), came(2, 12), came(2, 35), came(1, 51)},
	}
	p.cover()
	var covered []bool
	for _, m := range p.calls {
		covered = append(covered, m.covered)
	}
	if want := []bool{false, true, false, false, false}; !slices.Equal(covered, want) {
		t.Errorf("got %v, want %v", covered, want)
	}
	if f := figuresOf([]*play{p}); f.Coverage != 0.5 {
		t.Errorf("coverage: got %v, want one of two reads", f.Coverage)
	}
}

func TestSame(t *testing.T) {
	c := &call{Text: "a"}
	failed := mcp.NewToolResultText("a")
	failed.IsError = true
	for i, r := range []*mcp.CallToolResult{mcp.NewToolResultText("a"), mcp.NewToolResultText("a "), failed, {}} {
		if got := same(r, c); got != (i == 0) {
			t.Errorf("result %d: got %v", i, got)
		}
	}
}

func TestMissed(t *testing.T) {
	good := func() *row {
		r := &row{cell: cell{Serial: true, Pauses: recorded}, Arm: cold, Others: 1.02}
		r.Coverage, r.Replay.Coverage, r.PerCall = 0.41, 0.5, 1.3
		return r
	}
	for want, change := range map[string]func(*row){
		"":          func(*row) {},
		"replay":    func(r *row) { r.Replay.Coverage = 0.6 },
		"coverage":  func(r *row) { r.Arm = trained },
		"calls":     func(r *row) { r.PerCall = 1.31 },
		"different": func(r *row) { r.Different = 1 },
		"others":    func(r *row) { r.Others = 1.03 },
	} {
		r := good()
		change(r)
		if got := strings.Join(r.missed(), " "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	r := good()
	r.Arm, r.Coverage = off, 0
	if r.Others = 1; len(r.missed()) > 0 {
		t.Errorf("off: got %v, want no target of coverage", r.missed())
	}
}

func TestParse(t *testing.T) {
	files := []string{"-trace", "t", "-train", "t", "-classes", "c"}
	for _, c := range []struct {
		args []string
		want string // part of the error
	}{
		{nil, ""},
		{[]string{"-train", ""}, "-train"},
		{[]string{"-cell", "stdio/none"}, "-cell"},
		{[]string{"file"}, `"file"`},
	} {
		o, err := parse(append(slices.Clone(files), c.args...), t.Output())
		if c.want == "" {
			if err != nil || len(o.wanted()) != 32 {
				t.Errorf("%v: got %d cells, %v", c.args, len(o.wanted()), err)
			}
		} else if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want an error with %s", c.args, err, c.want)
		}
	}
}

// At a serial server that takes as long as a pause, an oracle has time for one read.
func TestCeiling(t *testing.T) {
	s := parsed(t, desk)[0]
	for _, tt := range []struct {
		cell cell
		want int
	}{
		{cell{Takes: takes, Pauses: recorded}, 2},
		{cell{Takes: 3 * time.Second, Pauses: inRow}, 2},
		{cell{Takes: 3 * time.Second, Pauses: hasty, Serial: true}, 2},
		{cell{Takes: takes, Pauses: inRow, Serial: true}, 2},
		{cell{Takes: 3 * time.Second, Pauses: inRow, Serial: true}, 1},
		{cell{Takes: 3 * time.Second, Pauses: atOnce, Serial: true}, 1},
	} {
		if got := s.ceiling(s.timetable(tt.cell.Pauses), tt.cell); got != tt.want {
			t.Errorf("%s: got %d of the two reads, want %d", tt.cell, got, tt.want)
		}
	}
}
