package telemetry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mcpschedd/internal/events"
	"mcpschedd/internal/telemetry"
)

// path is a trajectory as anybody may read it.
type path struct {
	Session, Process, Client string
	BeginUS                  int64 `json:"begin_us"`
	EndUS                    int64 `json:"end_us"`
	Open, Partial            bool
	Turns                    []struct {
		Turn  int
		Calls []struct {
			Seq  int64
			Plan int
			Step string
		}
	}
	Prefetches []struct{ Seq int64 }
	Plans      []struct {
		Plan  int
		Steps int
		Open  bool
		Edges [][2]string
	}
	Calls       int
	Tokens      int64
	WaitMS      float64 `json:"wait_ms"`
	HiddenMS    float64 `json:"hidden_ms"`
	Parallelism float64
}

func paths(t interface{ Fatal(...any) }, text string) []path {
	var all []path
	for line := range strings.Lines(text) {
		var p path
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatal(line, err)
		}
		all = append(all, p)
	}
	return all
}

// trajectories are those of events, with so much held at most.
func trajectories(t interface{ Fatal(...any) }, held int64, all ...events.Event) string {
	var out bytes.Buffer
	w := telemetry.NewTrajectories(&out, held)
	for i := range all {
		if err := w.Add(&all[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w.Held() != 0 || w.Waiting() != 0 {
		t.Fatal("held after the end:", w.Held(), "bytes of", w.Waiting(), "sessions")
	}
	return out.String()
}

// ms is that long after the beginning of all.
func ms(n float64) time.Time { return time.UnixMicro(1_700_000_000_000_000 + int64(n*1000)) }

func TestTrajectory(t *testing.T) {
	a := events.Event{Process: "p", Session: "a"}
	event := func(kind events.Kind, at float64, set func(e *events.Event)) events.Event {
		e := a
		e.Kind, e.At = kind, ms(at)
		set(&e)
		return e
	}
	got := trajectories(t, 0,
		event(events.Session, 0, func(e *events.Event) { e.Client = "claude 2" }),
		event(events.Call, 10, func(e *events.Event) {
			e.Seq, e.Turn, e.Upstream, e.Tool, e.ArgsHash = 1, 1, "github", "list", "00ff"
			e.Disposition, e.LatencyMS, e.Tokens = events.Fetched, 100, 50
		}),
		event(events.Call, 195, func(e *events.Event) { // of a later number than the one below
			e.Seq, e.Turn, e.Upstream, e.Tool, e.Disposition = 4, 2, "github", "get", events.Joined
			e.LatencyMS, e.HiddenMS, e.Tokens, e.UseOf = 30, 70, 5, 2
		}),
		event(events.Call, 200, func(e *events.Event) {
			e.Seq, e.Turn, e.Upstream, e.Tool, e.Disposition = 3, 2, "github", "get", events.Failed
			e.LatencyMS, e.Error = 50, "timeout"
		}),
		event(events.Call, 300, func(e *events.Event) {
			e.Seq, e.Turn, e.Plan, e.Step, e.Upstream, e.Tool, e.Disposition = 5, 3, 1, "b", "github", "get", events.Hit
			e.Needs, e.IsError = []string{"a"}, true
		}),
		event(events.Plan, 290, func(e *events.Event) {
			e.Plan, e.Steps, e.Depth, e.LatencyMS, e.BytesIn, e.BytesOut = 1, 1, 2, 20, 4000, 100
		}),
		event(events.Choice, 300, func(e *events.Event) { e.Candidates = 3 }), // not part of it
		event(events.End, 400, func(*events.Event) {}),
		event(events.Prefetch, 120, func(e *events.Event) { // known after the end
			e.Seq, e.Upstream, e.Tool, e.ArgsHash, e.After, e.PredictedP = 2, "github", "get", "0101", 1, 0.75
			e.Fate, e.UsedBy, e.LatencyMS, e.Tokens = events.Late, 4, 110, 5
		}),
	)
	want := `{"session":"a","process":"p","client":"claude 2","begin_us":1700000000000000,"end_us":1700000000400000,"turns":[` +
		`{"turn":1,"at_us":1700000000010000,"calls":[{"seq":1,"at_us":1700000000010000,"tool":"github/list","args_hash":"00ff","disposition":"fetched","latency_ms":100,"hidden_ms":0,"tokens":50}]},` +
		`{"turn":2,"at_us":1700000000195000,"calls":[{"seq":3,"at_us":1700000000200000,"tool":"github/get","disposition":"failed","latency_ms":50,"hidden_ms":0,"tokens":0,"error":"timeout"},` +
		`{"seq":4,"at_us":1700000000195000,"tool":"github/get","disposition":"joined","latency_ms":30,"hidden_ms":70,"tokens":5,"use_of":2}]},` +
		`{"turn":3,"at_us":1700000000300000,"calls":[{"seq":5,"at_us":1700000000300000,"tool":"github/get","disposition":"hit","latency_ms":0,"hidden_ms":0,"tokens":0,"is_error":true,"plan":1,"step":"b","needs":["a"]}]}],` +
		`"prefetches":[{"seq":2,"at_us":1700000000120000,"tool":"github/get","args_hash":"0101","after":1,"p":0.75,"fate":"late","used_by_seq":4,"latency_ms":110,"tokens":5}],` +
		`"plans":[{"plan":1,"at_us":1700000000290000,"latency_ms":20,"steps":1,"depth":2,"bytes_in":4000,"bytes_out":100,"edges":[["a","b"]]}],` +
		`"calls":4,"tokens":55,"wait_ms":180,"hidden_ms":70,"parallelism":1.1613}` + "\n" // 180 ms of waiting in 155
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

func TestTrajectoryWithoutItsEnds(t *testing.T) {
	call := func(process, session string, seq int64) events.Event {
		return events.Event{Kind: events.Call, Process: process, Session: session, Seq: seq, At: ms(float64(seq)), Disposition: events.Hit}
	}
	begin := func(process, session string) events.Event {
		return events.Event{Kind: events.Session, Process: process, Session: session, At: ms(0)}
	}
	end := func(process, session string) events.Event {
		return events.Event{Kind: events.End, Process: process, Session: session, At: ms(9)}
	}
	for _, tt := range []struct {
		name   string
		events []events.Event
		want   string // session:calls, ? for open, + for partial
	}{
		{"nothing", nil, ""},
		{"no calls", []events.Event{begin("p", "a"), end("p", "a")}, "a:0"},
		{"a process that was killed", []events.Event{begin("p", "a"), call("p", "a", 1)}, "a:1?"},
		{"a process that ended before its session", []events.Event{begin("p", "a"), call("p", "a", 1), end("p", "")}, "a:1"},
		{"no beginning", []events.Event{call("p", "a", 1), end("p", "a")}, "a:1+"},
		{"two ends", []events.Event{begin("p", "a"), end("p", "a"), end("p", "a"), end("p", ""), end("p", "")}, "a:0"},
		{"one name in two processes", []events.Event{begin("p", "a"), begin("q", "a"), call("p", "a", 1), call("q", "a", 1), call("q", "a", 2)}, "a:1? a:2?"},
		{"lines after the end of the process", []events.Event{begin("p", "a"), end("p", ""), call("p", "a", 1)}, "a:0 a:1?+"},
		{"no session", []events.Event{{Kind: events.Level, Process: "p"}, {Kind: events.Call, Process: "p"}}, ""},
		{"a kind of a later version", []events.Event{{Kind: "mood", Process: "p", Session: "a"}}, ""},
	} {
		var got []string
		for _, p := range paths(t, trajectories(t, 0, tt.events...)) {
			text := fmt.Sprintf("%s:%d", p.Session, p.Calls)
			if p.Open {
				text += "?"
			}
			if p.Partial {
				text += "+"
			}
			got = append(got, text)
		}
		if got := strings.Join(got, " "); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestTrajectoryParallelism(t *testing.T) {
	type span struct{ at, ms float64 }
	for _, tt := range []struct {
		name  string
		calls []span
		want  float64
	}{
		{"none", nil, 0},
		{"no time", []span{{0, 0}, {5, 0}}, 0},
		{"one after the other, with pauses", []span{{0, 10}, {50, 10}, {60, 3}}, 1},
		{"two at once", []span{{0, 10}, {0, 10}}, 2},
		{"one within another", []span{{0, 30}, {10, 10}, {25, 5}}, 1.5},
		{"a chain of overlaps", []span{{0, 10}, {5, 10}, {10, 10}}, 1.5},
		{"in any order", []span{{10, 10}, {0, 10}, {5, 10}}, 1.5},
	} {
		var all []events.Event
		for i, c := range tt.calls {
			all = append(all, events.Event{Kind: events.Call, Session: "a", Seq: int64(i), At: ms(c.at), LatencyMS: c.ms})
		}
		all = append(all, events.Event{Kind: events.End, Session: "a"})
		if got := paths(t, trajectories(t, 0, all...))[0].Parallelism; got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestTrajectoryPlans(t *testing.T) {
	step := func(plan int, id string, needs ...string) events.Event {
		return events.Event{Kind: events.Call, Session: "a", Plan: plan, Step: id, Needs: needs}
	}
	p := paths(t, trajectories(t, 0,
		step(2, "one"), // its plan has no line: the process was killed
		step(1, "a"), step(1, "each", "a"), step(1, "each", "a"), step(1, "z", "each", "a"),
		events.Event{Kind: events.Plan, Session: "a", Plan: 1, Steps: 4, Depth: 3},
	))[0]
	got := fmt.Sprint(p.Plans)
	if want := "[{1 4 false [[a each] [a z] [each z]]} {2 1 true []}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTrajectoryIsWrittenOnceNothingComesOfIt(t *testing.T) {
	var out bytes.Buffer
	w := telemetry.NewTrajectories(&out, 0)
	add := func(e events.Event) {
		if err := w.Add(&e); err != nil {
			t.Fatal(err)
		}
	}
	add(events.Event{Kind: events.Session, Process: "p", Session: "a"})
	add(events.Event{Kind: events.End, Process: "p", Session: "a"})
	if out.Len() > 0 {
		t.Fatal("written at its end: a prefetch of it may still be used")
	}
	for range 5000 {
		add(events.Event{Kind: events.Level, Process: "p"})
	}
	if got := paths(t, out.String()); len(got) != 1 || got[0].Session != "a" {
		t.Fatalf("after 5,000 lines: got %v, want session a", got)
	}
	add(events.Event{Kind: events.Session, Process: "p", Session: "b"})
	add(events.Event{Kind: events.Session, Process: "q", Session: "c"})
	add(events.Event{Kind: events.End, Process: "p"})
	if got := paths(t, out.String()); len(got) != 2 || got[1].Session != "b" {
		t.Fatalf("at the end of the process: got %v, want session b too", got)
	}
}

// What is held stays within its bound, whatever the lines are like: many of one
// session, many sessions, or long texts.
func TestTrajectoriesHoldLittle(t *testing.T) {
	const most = 64 << 10
	for _, tt := range []struct {
		name string
		next func(i int) events.Event
	}{
		{"one session", func(i int) events.Event { return events.Event{Kind: events.Call, Session: "a", Seq: int64(i)} }},
		{"many sessions", func(i int) events.Event { return events.Event{Kind: events.Call, Session: fmt.Sprint(i), Seq: 1} }},
		{"many empty sessions", func(i int) events.Event { return events.Event{Kind: events.Session, Session: fmt.Sprint(i)} }},
		{"many ended sessions", func(i int) events.Event { return events.Event{Kind: events.End, Session: fmt.Sprint(i)} }},
		{"many processes", func(i int) events.Event { return events.Event{Kind: events.Call, Session: "a", Process: fmt.Sprint(i)} }},
		{"long texts", func(i int) events.Event {
			long := strings.Repeat("x", 1<<10)
			return events.Event{Kind: events.Call, Session: fmt.Sprint(i % 8), Step: long, Tool: long, Needs: []string{long}, Error: long, ArgsHash: long}
		}},
	} {
		var out bytes.Buffer
		w := telemetry.NewTrajectories(&out, most)
		calls, sessions := 0, 0
		for i := range 3000 {
			e := tt.next(i)
			if e.Kind == events.Call {
				calls++
			}
			if err := w.Add(&e); err != nil {
				t.Fatal(err)
			}
			if w.Held() > most {
				t.Fatalf("%s: %d bytes held", tt.name, w.Held())
			}
			sessions = max(sessions, w.Waiting())
		}
		if err := w.Close(); err != nil || w.Held() != 0 {
			t.Fatalf("%s: %v, %d bytes held in the end", tt.name, err, w.Held())
		}
		if sessions > most/256 {
			t.Errorf("%s: %d sessions were held at once", tt.name, sessions)
		}
		got := 0
		for _, p := range paths(t, out.String()) {
			got += p.Calls
		}
		if got != calls || calls > 0 && w.Cuts == 0 {
			t.Errorf("%s: %d of %d calls were written, and %d cuts counted", tt.name, got, calls, w.Cuts)
		}
	}
}

// What is written in pieces says so in each of them, and whose they are; a piece holds
// something.
func TestTrajectoryInPieces(t *testing.T) {
	var all []events.Event
	for _, session := range []string{"a", "b"} {
		all = append(all, events.Event{Kind: events.Session, Session: session, Client: session})
	}
	for i := range 40 {
		all = append(all, events.Event{Kind: events.Call, Session: []string{"a", "b"}[i%2], Seq: int64(i)})
	}
	all = append(all, events.Event{Kind: events.End, Session: "a"}, events.Event{Kind: events.End, Session: "b"})
	got := paths(t, trajectories(t, 3000, all...))
	if len(got) < 4 {
		t.Fatalf("got %d objects, want more", len(got))
	}
	calls := 0
	for _, p := range got {
		calls += p.Calls
		if !p.Partial || p.Calls == 0 || p.Client != p.Session {
			t.Errorf("got %+v, want it partial, with calls, of client %s", p, p.Session)
		}
	}
	if calls != 40 {
		t.Errorf("got %d calls, want 40", calls)
	}
	if got := paths(t, trajectories(t, 1, all[2], all[42])); len(got) != 2 || got[0].Calls != 1 || got[1].Open {
		t.Errorf("with no room at all: got %+v, want the call, and that there is an end", got)
	}
	if got := paths(t, trajectories(t, 1, all[2])); len(got) != 1 {
		t.Errorf("with no room at all: got %+v, want the call, and no second object without it", got)
	}
}

func TestTrajectoryTimes(t *testing.T) {
	call := func(at time.Time, ms float64) events.Event {
		return events.Event{Kind: events.Call, Session: "a", At: at, LatencyMS: ms}
	}
	p := paths(t, trajectories(t, 0, call(ms(50), 5), call(ms(20), 100), call(time.Time{}, 5), call(ms(60), 1)))[0]
	if p.BeginUS != ms(20).UnixMicro() || p.EndUS != ms(120).UnixMicro() {
		t.Errorf("got %d to %d, want %d to %d: from the first that began to the last that ended",
			p.BeginUS, p.EndUS, ms(20).UnixMicro(), ms(120).UnixMicro())
	}
}

// An event is its caller's again when it has been added.
func TestTrajectoryKeepsNothingOfTheEvent(t *testing.T) {
	var out bytes.Buffer
	w := telemetry.NewTrajectories(&out, 0)
	e := events.Event{Kind: events.Call, Session: "a", Plan: 1, Step: "b", Needs: []string{"a"}}
	if err := w.Add(&e); err != nil {
		t.Fatal(err)
	}
	e.Needs[0], e.Step = "other", "other"
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "other") {
		t.Errorf("got %s", out.String())
	}
}

// A number that is none was once an error of the encoder, which ended the export.
func TestTrajectoryOfNonsense(t *testing.T) {
	var all []events.Event
	for i, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 1e300, math.MaxFloat64} {
		for j, at := range []time.Time{{}, time.UnixMicro(math.MaxInt64), time.UnixMicro(math.MinInt64), ms(1)} {
			for _, kind := range []events.Kind{events.Call, events.Prefetch, events.Plan} {
				all = append(all, events.Event{
					Kind: kind, Session: fmt.Sprint("\xff", i, j), At: at, LatencyMS: x, HiddenMS: x, PredictedP: x,
					Tokens: math.MinInt64, Plan: -1, Step: "\x00\xff", Tool: "<\u2028>", Needs: []string{""}, Turn: -5, Seq: -1,
				})
			}
		}
	}
	for _, p := range paths(t, trajectories(t, 0, all...)) {
		if p.WaitMS != 0 || p.HiddenMS != 0 || p.Parallelism != 0 || p.Calls != 1 {
			t.Errorf("got %+v, want a call without times", p)
		}
	}
}

type full struct{ room int }

func (f *full) Write(b []byte) (int, error) {
	if f.room -= len(b); f.room < 0 {
		return 0, errors.New("no room")
	}
	return len(b), nil
}

func TestTrajectoryCannotBeWritten(t *testing.T) {
	w := telemetry.NewTrajectories(&full{}, 0)
	if err := w.Add(&events.Event{Kind: events.Call, Session: "a"}); err != nil {
		t.Fatal(err)
	}
	if err := w.Add(&events.Event{Kind: events.End}); err == nil {
		t.Error("at the end of the process: got no error")
	}
	w = telemetry.NewTrajectories(&full{}, 1)
	if err := w.Add(&events.Event{Kind: events.Call, Session: "a"}); err == nil {
		t.Error("when it is cut: got no error")
	}
	w = telemetry.NewTrajectories(&full{}, 0)
	w.Add(&events.Event{Kind: events.Call, Session: "a"})
	if err := w.Close(); err == nil {
		t.Error("at the end: got no error")
	}
}

// Whatever comes in whatever order, and however little is held: each call, prefetch
// and plan is in exactly one object, that of its session, and the sums are those of
// the calls that are in it.
func TestTrajectoriesLoseNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		held := rapid.SampledFrom([]int64{0, 1, 300, 2000, 20_000}).Draw(t, "held")
		var all []events.Event
		want := make(map[string][]int64)
		for i := range rapid.IntRange(0, 200).Draw(t, "events") {
			e := events.Event{
				Kind:    rapid.SampledFrom([]events.Kind{events.Begin, events.Session, events.Call, events.Call, events.Call, events.Prefetch, events.Plan, events.Choice, events.End}).Draw(t, "kind"),
				Process: rapid.SampledFrom([]string{"p", "q"}).Draw(t, "process"), Session: rapid.SampledFrom([]string{"a", "b", "c", "d", ""}).Draw(t, "session"),
				Seq: int64(i), Turn: rapid.IntRange(0, 3).Draw(t, "turn"),
				At: ms(float64(rapid.IntRange(0, 60).Draw(t, "at"))), LatencyMS: float64(rapid.IntRange(0, 20).Draw(t, "ms")),
			}
			switch e.Kind {
			case events.Plan:
				e.Plan = i + 1
			case events.Begin:
				e.Session = ""
			}
			if e.Session != "" && slices.Contains([]events.Kind{events.Call, events.Prefetch, events.Plan}, e.Kind) {
				want[e.Process+e.Session] = append(want[e.Process+e.Session], int64(i))
			}
			all = append(all, e)
		}
		got := make(map[string][]int64)
		for _, p := range paths(t, trajectories(t, held, all...)) {
			key := p.Process + p.Session
			busy, open, n := 0.0, map[int]bool{}, 0
			for _, turn := range p.Turns {
				n += len(turn.Calls)
				for _, c := range turn.Calls {
					e := all[c.Seq]
					got[key] = append(got[key], c.Seq)
					if e.Turn != turn.Turn {
						t.Fatalf("call %d of turn %d is in turn %d", c.Seq, e.Turn, turn.Turn)
					}
					busy += e.LatencyMS
					for tick := range int(e.LatencyMS) {
						open[int(e.At.Sub(ms(0)).Milliseconds())+tick] = true
					}
				}
			}
			for _, f := range p.Prefetches {
				got[key] = append(got[key], f.Seq)
			}
			for _, plan := range p.Plans {
				got[key] = append(got[key], int64(plan.Plan-1))
			}
			parallelism := 0.0
			if len(open) > 0 {
				parallelism = busy / float64(len(open))
			}
			if p.Calls != n || p.WaitMS != busy || math.Abs(p.Parallelism-parallelism) > 1e-3 {
				t.Fatalf("got %d calls, %v ms and %v; want %d, %v and %v", p.Calls, p.WaitMS, p.Parallelism, n, busy, parallelism)
			}
		}
		for _, seqs := range got {
			slices.Sort(seqs)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("want -, got +:\n%s", diff)
		}
	})
}
