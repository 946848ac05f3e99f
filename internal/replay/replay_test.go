package replay_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/dedup"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/replay"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/valuemodel"
)

// models returns models of an upstream: get_ and list_ tools are read-only, and set_item changes
// only the item with its id.
func models(t testing.TB, more ...valuemodel.Rule) func(string) *valuemodel.Model {
	t.Helper()
	m, problems := valuemodel.Compile(append([]valuemodel.Rule{
		{Pattern: "get_*", Layer: valuemodel.Layer{Class: valuemodel.ReadOnly}},
		{Pattern: "list_*", Layer: valuemodel.Layer{Class: valuemodel.ReadOnly}},
		{Pattern: "set_item", Layer: valuemodel.Layer{
			Class: valuemodel.MutatesLocal, InvalidatesOnly: new(true),
			Invalidates: []valuemodel.Edge{{Tool: "get_item", Match: []string{"id"}}},
		}},
	}, more...))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return func(tool string) *valuemodel.Model {
		return m.Resolve(valuemodel.Upstream{Name: "trace", Domain: "trace"}, tool, valuemodel.Hints{})
	}
}

// leads returns a rule with a follow_up from a list to its items.
func leads(t testing.TB, probability float64) valuemodel.Rule {
	t.Helper()
	id, err := valuemodel.ParseBinding("$result.items[*]")
	if err != nil {
		t.Fatal(err)
	}
	return valuemodel.Rule{Pattern: "list_items", Layer: valuemodel.Layer{FollowUps: []valuemodel.FollowUp{
		{Tool: "get_item", Probability: probability, Args: map[string]valuemodel.Binding{"id": id}},
	}}}
}

// usual returns an arm with the defaults of the configuration.
func usual(name string, source replay.Source) replay.Arm {
	return replay.Arm{
		Name: name, Source: source,
		Rules: speculate.Rules{Budget: 8000, MinProbability: 0.3, Waste: 50 * time.Millisecond, SecondWorth: 0.01},
		Store: dedup.Options{MaxBytes: 1 << 20, WriteSettle: time.Minute, Settle: 2 * time.Second},
	}
}

// trace parses calls. A line is one turn of calls, separated by spaces: tool:id, followed by ! if
// the call failed. The answer to a list is the letters of its id. A blank line starts the next
// session. A call followed by @ and a latency in ms has recorded times; a turn preceded by @@ and
// a time in s has a recorded think time.
func trace(text string) []replay.Call {
	var calls []replay.Call
	session, now := 0, int64(1e12)
	for batch, turn := range strings.Split(strings.Trim(text, "\n"), "\n") {
		turn = strings.TrimSpace(turn)
		if turn == "" {
			session++
			continue
		}
		think := int64(3000)
		begin, last := now, now
		for i, part := range strings.Fields(turn) {
			if seconds, ok := strings.CutPrefix(part, "@@"); ok && i == 0 {
				fmt.Sscan(seconds, &think)
				think *= 1000
				continue
			}
			part, latency, timed := strings.Cut(part, "@")
			part, failed := strings.CutSuffix(part, "!")
			tool, id, _ := strings.Cut(part, ":")
			c := replay.Call{
				Session: fmt.Sprint("s", session), Batch: batch, Tool: tool, Failed: failed,
				Arguments: json.RawMessage(fmt.Sprintf(`{"id":%q}`, id)), Text: "{}",
			}
			if strings.HasPrefix(tool, "list") {
				items, _ := json.Marshal(strings.Split(id, ""))
				c.Text = fmt.Sprintf(`{"items":%s}`, items)
			}
			c.Bytes = len(c.Text)
			if timed {
				var ms int64
				fmt.Sscan(latency, &ms)
				start, end := begin+think, begin+think+ms
				c.Start, c.End = &start, &end
				last = max(last, end)
			}
			calls = append(calls, c)
		}
		now = last
	}
	return calls
}

// play plays a trace with arms that share a learner.
func play(t testing.TB, o replay.Options, text string, arms ...replay.Arm) []*replay.Report {
	t.Helper()
	if o.Model == nil {
		o.Model = models(t)
	}
	if o.MaxAge == 0 {
		o.MaxAge = 10 * time.Second
	}
	p := replay.New(o, arms...)
	p.Play(replay.Sessions(trace(text)))
	return p.Reports()
}

// sessions returns sessions in which the first item of a list is read next, with the turns
// between in between.
func sessions(n int, between string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "list_items:%c%c\n%sget_item:%c\n\n", 'a'+i%20, 'b'+i%20, between, 'a'+i%20)
	}
	return b.String()
}

func TestLearned(t *testing.T) {
	r := play(t, replay.Options{Learn: true}, sessions(40, ""), usual("learned", replay.Forecast))[0]
	if r.Sessions != 40 || r.Calls != 80 || r.Reads != 80 || r.Repeats != 0 {
		t.Errorf("got %d sessions, %d calls, %d reads, %d repeats", r.Sessions, r.Calls, r.Reads, r.Repeats)
	}
	if r.Used < 25 || r.Used > 40 || r.Accuracy < 0.8 {
		t.Errorf("got %d used of %d issued: the calls that always follow were not learned", r.Used, r.Issued)
	}
	if want := int64(r.Used * 450); r.Hidden != want {
		t.Errorf("got %d ms hidden, want %d, with the default latency of 450 ms", r.Hidden, want)
	}
	if r.Coverage != float64(r.Used)/80 {
		t.Errorf("got a coverage of %v", r.Coverage)
	}
	if want := float64(80-r.Used+r.Issued) / 80; r.Amplification != want {
		t.Errorf("got an amplification of %v, want %v", r.Amplification, want)
	}
	var n, came int
	for _, d := range r.Calibration {
		n += d.N
		came += int(d.Observed*float64(d.N) + 0.5)
	}
	if came < r.Used || came > 40 || n < 40 {
		t.Errorf("got %d predicted calls, of which %d came", n, came)
	}
}

// Train learns from sessions, and their calls are not in the figures.
func TestTrain(t *testing.T) {
	p := replay.New(replay.Options{Model: models(t), Learn: true, MaxAge: 10 * time.Second}, usual("learned", replay.Forecast))
	p.Train(replay.Sessions(trace(sessions(40, ""))))
	p.Play(replay.Sessions(trace(sessions(10, ""))))
	r := p.Reports()[0]
	if r.Calls != 20 || r.Used != 10 {
		t.Errorf("got %d calls, %d used, want 20 and 10", r.Calls, r.Used)
	}
	n := 0
	for _, d := range r.Calibration {
		n += d.N
	}
	if n > 40 {
		t.Errorf("got %d calls in the table of probabilities, with those of Train", n)
	}
}

// Calls made together do not follow each other.
func TestSameTurn(t *testing.T) {
	text := strings.ReplaceAll(sessions(40, ""), "\nget", " get")
	for _, r := range play(t, replay.Options{Learn: true}, text, usual("learned", replay.Forecast)) {
		if r.Used != 0 {
			t.Errorf("got %d used of %d issued, want none", r.Used, r.Issued)
		}
	}
}

// A write between a prefetch and its call invalidates the prefetch if it changes the same item.
func TestWriteBetween(t *testing.T) {
	o := replay.Options{Model: models(t, leads(t, 0.9))}
	for _, c := range []struct {
		name, between string
		issued, used  int
	}{
		{"nothing", "", 2, 1},
		{"anything", "write:x\n", 2, 0},
		{"that item", "set_item:a\n", 3, 1},           // the list is still valid, so the item is prefetched again
		{"that item, in vain", "set_item:a!\n", 3, 1}, // a failed write may have changed the item too
		{"another item", "set_item:zz\n", 2, 1},
		{"beside it", "write:x ", 2, 0},
		{"behind it", "", 2, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := "list_items:ab\n" + c.between + "get_item:a\n"
			if c.name == "behind it" {
				text = "list_items:ab\nget_item:a write:x\n"
			}
			r := play(t, o, text, usual("static", replay.Forecast))[0]
			if r.Used != c.used || r.Issued != c.issued || r.Stale != 0 {
				t.Errorf("got %d used of %d issued, %d stale, want %d of %d", r.Used, r.Issued, r.Stale, c.used, c.issued)
			}
		})
	}
}

func TestSources(t *testing.T) {
	text := "list_items:ab\nget_item:a\nget_item:a get_other:q\nwrite:x\nlist_items:cde\nget_item:d\nget_item:a\n"
	o := replay.Options{Model: models(t, leads(t, 0.9))}
	all := play(t, o, text, usual("off", replay.Nothing), usual("static", replay.Forecast), usual("oracle", replay.Oracle))
	type figures struct{ Issued, Used, Repeats, Upstream int }
	got := make(map[string]figures)
	for _, r := range all {
		got[r.Name] = figures{r.Issued, r.Used, r.Repeats, int(r.Amplification*float64(r.Calls) + 0.5)}
	}
	want := map[string]figures{
		"off":    {0, 0, 2, 8},
		"static": {5, 2, 2, 11}, // all items of each list: a, b; c, d, e
		"oracle": {4, 4, 2, 8},  // get_item a, get_other q, list_items cde, get_item d: no repeats
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Arms that only watch, and arms with a small budget, a high minimum probability or a high cost of
// waste.
func TestBounds(t *testing.T) {
	text := "list_items:abc\nget_item:a get_item:b get_item:c\n"
	o := replay.Options{Model: models(t, leads(t, 0.9))}
	watch := usual("watch", replay.Forecast)
	watch.Rules.Mode = "shadow"
	narrow := usual("narrow", replay.Forecast)
	narrow.Rules.Budget = 10 // tokens; one prefetch always fits
	narrow.Rules.PerSession = 1
	unlikely := usual("unlikely", replay.Forecast)
	unlikely.Rules.MinProbability = 0.95
	dear := usual("dear", replay.Forecast)
	dear.Rules.Waste = time.Hour
	for i, r := range play(t, o, text, watch, narrow, unlikely, dear) {
		want := []struct {
			used   int
			reason enrich.Reason
		}{{0, enrich.Shadow}, {1, enrich.Budget}, {0, enrich.LowProbability}, {0, enrich.Gate}}[i]
		if r.Used != want.used || r.Issued != want.used || r.Declined[want.reason] == 0 {
			t.Errorf("%s: got %d used of %d issued, left out %v, want %d and some for %s", r.Name, r.Used, r.Issued, r.Declined, want.used, want.reason)
		}
	}
}

// A slot that is released is given to a waiting candidate.
func TestSlotTakenAgain(t *testing.T) {
	o := replay.Options{Model: models(t, leads(t, 0.9))}
	one := usual("one", replay.Forecast)
	one.Rules.PerSession = 1
	r := play(t, o, "list_items:abc\nget_item:a\nget_item:b\nget_item:c\n", one)[0]
	if r.Used != 3 || r.Hidden != 3*450 {
		t.Errorf("got %d used, %d ms hidden, want 3 and %d", r.Used, r.Hidden, 3*450)
	}
}

// A prefetch that is sent in the pause before a turn takes as long as the call of that turn. With one
// slot, b is sent when a is answered.
func TestSentInAPause(t *testing.T) {
	o := replay.Options{Model: models(t, leads(t, 0.9))}
	one := usual("one", replay.Forecast)
	one.Rules.PerSession = 1
	r := play(t, o, "list_items:ab@100\n@@5 get_item:b@6000\n", one)[0]
	if r.Issued != 2 || r.Late != 1 || r.Hidden != 5000-450 {
		t.Errorf("got %d issued, %d late, %d ms hidden, want 2, 1 and %d", r.Issued, r.Late, r.Hidden, 5000-450)
	}
}

func TestAge(t *testing.T) {
	o := replay.Options{Model: models(t, leads(t, 0.9))}
	text := "list_items:a@100\n@@%d get_item:a@100\n"
	for _, c := range []struct{ think, used int }{{9, 1}, {11, 0}} {
		if r := play(t, o, fmt.Sprintf(text, c.think), usual("static", replay.Forecast))[0]; r.Used != c.used {
			t.Errorf("after %d s: got %d used of %d issued, want %d", c.think, r.Used, r.Issued, c.used)
		}
	}
}

// An earlier answer makes all later events earlier. So an answer is used that would have expired
// by the recorded times.
func TestEarlyAnswerMovesTheClock(t *testing.T) {
	const text = "list_items:ab@10\nget_item:a@10000\nget_item:b@10"
	o := replay.Options{Model: models(t, leads(t, 0.9)), MaxAge: 14 * time.Second}
	r := play(t, o, text, usual("on", replay.Forecast), usual("off", replay.Nothing))
	// a takes 10 s and is called after 3 s, so b is called 13 s after the list instead of 16 s
	if on, off := r[0], r[1]; on.Used != 2 || on.Hidden != 3010 || off.WaitAfter != off.WaitBefore {
		t.Errorf("got %d used, %d ms hidden, want 2 and 3010; without prefetches the wait is %d instead of %d ms", on.Used, on.Hidden, off.WaitAfter, off.WaitBefore)
	}
}

// With KeepTurns an answer may be used for that many turns, however long they take.
func TestKeepTurns(t *testing.T) {
	arm := usual("static", replay.Forecast)
	for turns, used := range map[int]int{1: 1, 4: 1, 5: 0} {
		o := replay.Options{Model: models(t, leads(t, 0.9)), KeepTurns: 4}
		text := "list_items:a@100\n" + strings.Repeat("@@3600 get_other:x@100\n", turns-1) + "@@3600 get_item:a@100\n\n"
		if r := play(t, o, text+text, arm)[0]; r.Used != 2*used || r.Issued != 2 {
			t.Errorf("after %d turns: got %d used of %d issued, want %d", turns, r.Used, r.Issued, 2*used)
		}
	}
	o := replay.Options{Model: models(t, leads(t, 0.9)), KeepTurns: 4}
	if r := play(t, o, "list_items:a\nwrite:x get_item:a\n", arm)[0]; r.Used != 1 {
		t.Errorf("a read in the turn of a write: got %d used, want 1, as reads come first", r.Used)
	}
	if r := play(t, o, "get_item:a\nlist_items:a\nget_item:a\n", arm)[0]; r.Issued != 0 {
		t.Errorf("got %d issued, want no prefetch of an earlier call", r.Issued)
	}
}

// A call that comes while its prefetch is in flight waits for the rest of the fetch.
func TestLate(t *testing.T) {
	o := replay.Options{Model: models(t, leads(t, 0.9))}
	r := play(t, o, "list_items:a@100\n@@2 get_item:a@5000\n", usual("static", replay.Forecast))[0]
	if r.Used != 1 || r.Late != 1 || r.Hidden != 2000 || r.WaitBefore != 5100 || r.WaitAfter != 3100 {
		t.Errorf("got %d used, %d late, %d ms before, %d after, %d hidden, want 1, 1, 5100, 3100, 2000", r.Used, r.Late, r.WaitBefore, r.WaitAfter, r.Hidden)
	}
}

// A call at the same instant as the previous answer comes before the worker handles that answer,
// so no prefetch is made for it. The proxy does the same.
func TestCallAtOnceIsNotPrefetched(t *testing.T) {
	o := replay.Options{Model: models(t, leads(t, 0.9))}
	r := play(t, o, "list_items:ab@100\n@@0 get_item:a@500\n@@3 get_item:b@500\n", usual("static", replay.Forecast))[0]
	if r.Issued != 1 || r.Used != 1 || r.Declined[enrich.InFlight] != 1 || r.Hidden != 500 {
		t.Errorf("got %d issued, %d used, %d ms hidden, declined %v, want 1, 1, 500, one in flight", r.Issued, r.Used, r.Hidden, r.Declined)
	}
}

// A failed prefetch serves no call, and delays a call that has joined it. If that call fails too,
// it is not prefetched again.
func TestFailedGuess(t *testing.T) {
	o := replay.Options{Model: models(t, leads(t, 0.9))}
	r := play(t, o, "list_items:a@100\n@@5 get_item:a!@100\n", usual("static", replay.Forecast))[0]
	if r.Issued != 1 || r.Used != 0 || r.Hidden != 0 {
		t.Errorf("got %d used of %d issued, %d ms hidden, want 0 of 1, 0 ms", r.Used, r.Issued, r.Hidden)
	}
	r = play(t, o, "list_items:a@100\n@@1 get_item:a!@3000\n", usual("static", replay.Forecast))[0]
	if r.Used != 0 || r.Hidden != -2000 || r.Amplification != 1.5 {
		t.Errorf("joined: got %d used, %d ms hidden, amplification %v, want 0, -2000 and 1.5", r.Used, r.Hidden, r.Amplification)
	}
}

// Repeats are served while answers are fresh, in every arm.
func TestRepeats(t *testing.T) {
	fresh := valuemodel.Rule{Pattern: "get_fresh", Layer: valuemodel.Layer{Cost: valuemodel.Cost{Freshness: time.Minute}}}
	r := play(t, replay.Options{Model: models(t, fresh)}, "get_fresh:a\nget_fresh:a\nget_item:a\nget_item:a\nwrite:x\nget_fresh:a\n", usual("off", replay.Nothing))[0]
	if r.Repeats != 3 || r.RepeatsServed != 1 || r.Used != 0 || r.Stale != 0 {
		t.Errorf("got %d repeats, %d served, %d used, %d stale, want 3, 1, 0, 0", r.Repeats, r.RepeatsServed, r.Used, r.Stale)
	}
}

// Arms are independent.
func TestArmsAlone(t *testing.T) {
	text := sessions(30, "") + sessions(5, "write:x\n")
	o := replay.Options{Learn: true}
	low := usual("low", replay.Forecast)
	low.Rules.MinProbability, low.Rules.Waste = 0.01, 0
	both := play(t, o, text, usual("usual", replay.Forecast), low)
	for i, alone := range []replay.Arm{usual("usual", replay.Forecast), low} {
		if diff := cmp.Diff(play(t, o, text, alone)[0], both[i], cmp.AllowUnexported(replay.Figures{})); diff != "" {
			t.Errorf("%s: alone and with another arm: %s", alone.Name, diff)
		}
	}
	if both[0].Issued >= both[1].Issued {
		t.Errorf("got %d and %d issued, want the gate to make a difference", both[0].Issued, both[1].Issued)
	}
}

// The text and the JSON contain the reasons for declined candidates by key.
func TestReportForms(t *testing.T) {
	r := replay.Report{Name: "learned", Declined: map[enrich.Reason]int{enrich.Unsteady: 3, enrich.LowProbability: 2}}
	var text strings.Builder
	if _, err := r.WriteTo(&text); err != nil || !strings.HasPrefix(text.String(), "policy learned, 0 sessions\ncalls  ") || !strings.Contains(text.String(), "\ndeclined.unsteady         3\n") {
		t.Errorf("got %v, %s", err, text.String())
	}
	if text, _ := json.Marshal(r); !strings.Contains(string(text), `"declined":{"low_probability":2,"unsteady":3}`) {
		t.Errorf("got %s", text)
	}
}

// The latency of a call is learned as recorded, even if a later call of its turn began after its
// end.
func TestDurationBesideALaterCall(t *testing.T) {
	calls := trace("get_item:a@5 get_other:b@5\n")
	start, end := *calls[1].Start+2000, *calls[1].End+2000
	calls[1].Start, calls[1].End = &start, &end
	p := replay.New(replay.Options{Model: models(t), MaxAge: 10 * time.Second}, usual("on", replay.Forecast))
	p.Play(replay.Sessions(calls))
	if got := p.Shared().Typical("get_item").Latency.P50; got > 10*time.Millisecond {
		t.Errorf("got %v, want about 5 ms", got)
	}
}

// Coverage is a share of the reads, and so at most 1, also if prefetches of a shell's commands were used,
// which are no reads.
func TestCoverageOfReads(t *testing.T) {
	command, err := valuemodel.ParseBinding("$result.commands[*]")
	if err != nil {
		t.Fatal(err)
	}
	rules := []valuemodel.Rule{
		{Pattern: "list_commands", Layer: valuemodel.Layer{FollowUps: []valuemodel.FollowUp{
			{Tool: "shell", Probability: 0.9, Args: map[string]valuemodel.Binding{"command": command}},
		}}},
		{Pattern: "shell", Layer: valuemodel.Layer{Classify: "shell"}},
	}
	var calls []replay.Call
	for batch, c := range [][3]string{
		{"list_commands", `{}`, `{"commands":["ls a","ls b"]}`}, {"shell", `{"command":"ls a"}`, "x"}, {"shell", `{"command":"ls b"}`, "y"},
	} {
		calls = append(calls, replay.Call{Session: "s", Batch: batch, Tool: c[0], Arguments: json.RawMessage(c[1]), Text: c[2], Bytes: len(c[2])})
	}
	p := replay.New(replay.Options{Model: models(t, rules...), MaxAge: time.Minute}, usual("a", replay.Forecast))
	p.Play(replay.Sessions(calls))
	if r := p.Reports()[0]; r.Used != 2 || r.Reads != 1 || r.Coverage != 0 {
		t.Errorf("got %d used of %d reads, coverage %v, want 2 used, and none of them a read", r.Used, r.Reads, r.Coverage)
	}
}
