package tune_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mcpschedd/internal/predict"
	"mcpschedd/internal/record"
	"mcpschedd/internal/tune"
	"mcpschedd/internal/valuemodel"
)

var began = time.UnixMilli(1.7e12)

// read is an answered call of hub/get, so many seconds after the beginning.
func read(second, args, result int) record.Event {
	return record.Event{
		Kind: record.Call, Disposition: record.Fetched, At: began.Add(time.Duration(second) * time.Second), Session: "s", Process: "p",
		Upstream: "hub", Tool: "get", Class: "read_only", Bytes: 10 << 10, UpstreamMS: 900,
		ArgsHash: fmt.Sprintf("%016x", args), ResultHash: fmt.Sprintf("%016x", result+1),
	}
}

// write is a call of a tool that changes something.
func write(second int, upstream, tool string) record.Event {
	e := read(second, 0, 0)
	e.Upstream, e.Tool, e.Class = upstream, tool, "mutates_external"
	return e
}

func mined(t testing.TB, all []record.Event, rules ...valuemodel.Rule) tune.Layer {
	m := tune.New(tune.Options{Model: known(t, append(rules, rule("hub/get", reads))...)})
	for i := range all {
		m.Event(&all[i])
	}
	return m.Layer()
}

func expect(t *testing.T, l tune.Layer, key string, want ...string) {
	t.Helper()
	if got := lines(l, key); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s: got %q, want %q", key, got, want)
	}
}

func advised(l tune.Layer, key string) bool {
	for _, b := range l.Blocks {
		for _, line := range b.Lines {
			if line.Key == key {
				return line.Advice
			}
		}
	}
	return false
}

// A quantile is known to 5 %.
func TestCosts(t *testing.T) {
	var all []record.Event
	for i := range 10 {
		e := read(i, i, i)
		if all = append(all, e); i == 9 {
			break
		}
		hit := e
		hit.Disposition, hit.UpstreamMS = record.Hit, 0 // tells nothing of what it costs
		all = append(all, hit)
	}
	l := mined(t, all)
	expect(t, l, "cost_model.typical_kb", "hub/get 9.9")
	expect(t, l, "cost_model.latency_ms_p50", "hub/get 880")
	expect(t, l, "cost_model.max_kb", "hub/get 9.9")
	few := mined(t, all[:16])
	expect(t, few, "cost_model.typical_kb")
	// What is nearly what is known is not proposed.
	near := rule("hub/get", valuemodel.Layer{Cost: valuemodel.Cost{TypicalKB: 8, MaxKB: 15, Latency: time.Second}})
	if l := mined(t, all, near); len(l.Blocks) > 0 {
		t.Errorf("got %+v, want nothing", l.Blocks)
	}
}

func TestSpeculateFalse(t *testing.T) {
	guesses := func(used, wasted int) (all []record.Event) {
		for i := range used + wasted {
			e := read(i, i, i)
			e.Kind, e.Fate = record.Prefetch, record.Wasted
			if i < used {
				e.Fate = record.Used
			}
			all = append(all, e)
		}
		return all
	}
	expect(t, mined(t, guesses(1, 40)), "speculate", "hub/get false")
	expect(t, mined(t, guesses(0, 9)), "speculate")                                                            // too few to say
	expect(t, mined(t, guesses(10, 31)), "speculate")                                                          // it may be good enough
	expect(t, mined(t, guesses(1, 40), rule("hub/get", valuemodel.Layer{Speculate: new(true)})), "speculate")  // the operator's word
	expect(t, mined(t, guesses(1, 40), rule("hub/get", valuemodel.Layer{Speculate: new(false)})), "speculate") // it is so already
}

func TestShadowToOn(t *testing.T) {
	watched := func(mode string, called int) (all []record.Event) {
		all = append(all, record.Event{Kind: record.Begin, Mode: mode})
		for i := range 20 {
			all = append(all, record.Event{Kind: record.Choice, Upstream: "hub", Top: []record.Decision{{Tool: "get", P: 0.5, Reason: "shadow", Called: i < called}}})
		}
		return all
	}
	l := mined(t, watched("shadow", 15))
	expect(t, l, "mode", ` "on"`)
	if !advised(l, "mode") {
		t.Error("mode: got a setting, want advice")
	}
	expect(t, mined(t, watched("shadow", 5)), "mode")
	expect(t, mined(t, watched("on", 15)), "mode")
}

func TestFreshness(t *testing.T) {
	// Asked every 10 s; every so often the answer is another.
	asked := func(changes int) (all []record.Event) {
		for i := range 600 {
			result := 0
			if changes > 0 {
				result = i / changes
			}
			all = append(all, read(i*10, 1, result))
		}
		return all
	}
	l := mined(t, asked(0))
	expect(t, l, "cost_model.freshness_ttl_s", "hub/get 15")
	if !advised(l, "cost_model.freshness_ttl_s") {
		t.Error("freshness: got a setting, want advice: a record is no promise")
	}
	expect(t, mined(t, asked(20)), "cost_model.freshness_ttl_s")
	// With a write before every second call, half of the answers say nothing, and the
	// others are told apart by it.
	var all []record.Event
	for i, e := range asked(2) {
		if i%2 == 0 {
			all = append(all, write(i*10-1, "hub", "set"))
		}
		all = append(all, e)
	}
	expect(t, mined(t, all), "cost_model.freshness_ttl_s", "hub/get 15")
	expect(t, mined(t, all), "invalidates")
}

func TestFailFast(t *testing.T) {
	var all []record.Event
	for i := range 100 {
		all = append(all, read(i*100_000, 1, 0))
	}
	l := mined(t, all)
	expect(t, l, "fail_fast_after_n", "hub/get 5") // of shorter runs there is one each
	if !advised(l, "fail_fast_after_n") {
		t.Error("fail_fast_after_n: got a setting, want advice")
	}
	for i := range all {
		all[i].ResultHash = fmt.Sprintf("%016x", i/7)
	}
	expect(t, mined(t, all), "fail_fast_after_n")
}

func TestInvalidates(t *testing.T) {
	// The answer changes with every write of another upstream, and only then.
	record := func(writer string, effect bool) (all []record.Event) {
		result := 0
		for i := range 60 {
			if i%3 == 0 {
				all = append(all, write(i*100, writer, "push"))
				if effect {
					result++
				}
			}
			all = append(all, read(i*100+50, 1, result))
		}
		return all
	}
	expect(t, mined(t, record("git", true)), "invalidates", `git/push "hub/get"`)
	expect(t, mined(t, record("git", false)), "invalidates")
	expect(t, mined(t, record("hub", true)), "invalidates") // known: it is the same upstream
	edge := rule("git/push", valuemodel.Layer{Invalidates: []valuemodel.Edge{{Tool: "hub/get"}}})
	expect(t, mined(t, record("git", true), edge), "invalidates")
}

func TestFollowUpsOfArgumentsAlone(t *testing.T) {
	var all []record.Event
	for i := range 60 {
		session := fmt.Sprint(i)
		a, b := read(i*100, i, i), read(i*100+2, i, i)
		a.Tool, a.Session, b.Session, a.Seq, b.Seq = "open", session, session, 1, 2
		a.Arguments, b.Arguments = fmt.Sprintf(`{"path":"/a/%d"}`, i), fmt.Sprintf(`{"file":"/a/%d"}`, i)
		all = append(all, b, a) // lines need not be in order
	}
	l := mined(t, all, rule("hub/open", reads))
	expect(t, l, "follow_up", `hub/open { tool = "get", probability = 0.99, args = { file = "$args.path" }, max = 1 }`)
}

// What nothing can be told of is passed over; nothing grows without bound.
func TestAbsurdEvents(t *testing.T) {
	m := tune.New(tune.Options{Model: known(t, rule("*", reads)), Bytes: 1 << 20})
	bad := []float64{math.NaN(), math.Inf(1), -1, 1e300, 0}
	for i := range 200_000 {
		e := read(i, i, i)
		e.Tool, e.Session, e.Process = fmt.Sprint("t", i), fmt.Sprint("s", i), fmt.Sprint("p", i)
		e.UpstreamMS, e.LatencyMS, e.Bytes = bad[i%5], bad[i%5], math.MinInt64
		e.Arguments = fmt.Sprintf(`{"a":%d}`, i)
		switch i % 7 {
		case 0:
			e.ArgsHash = "x"
		case 1:
			e.ResultHash = ""
		case 2:
			e.At = time.Time{}
		case 3:
			e.At = time.Unix(math.MaxInt64/2, 0)
		}
		m.Event(&e)
	}
	l := m.Layer()
	if len(l.Blocks) > 0 {
		t.Errorf("got %d blocks, want none", len(l.Blocks))
	}
	if len(l.Notes) < 2 || len(l.Sources) > 2000 {
		t.Errorf("got notes %q and %d sources, want to be told what was left out", l.Notes, len(l.Sources))
	}
}

func TestAnyHistory(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := tune.New(tune.Options{Model: known(t, rule("*/get*", reads)), MinN: 1})
		for range rapid.IntRange(0, 60).Draw(r, "events") {
			e := record.Event{
				Kind:        rapid.SampledFrom([]record.Kind{record.Begin, record.Call, record.Prefetch, record.Choice, record.End, "x"}).Draw(r, "kind"),
				Disposition: rapid.SampledFrom([]record.Disposition{record.Fetched, record.Hit, ""}).Draw(r, "how"),
				Fate:        rapid.SampledFrom([]record.Fate{record.Used, record.Wasted, ""}).Draw(r, "fate"),
				At:          time.UnixMilli(rapid.Int64().Draw(r, "at")),
				Upstream:    rapid.SampledFrom([]string{"", "a", "b/c"}).Draw(r, "upstream"),
				Tool:        rapid.SampledFrom([]string{"", "get", "get\"\n", "set"}).Draw(r, "tool"),
				Class:       rapid.SampledFrom([]string{"", "read_only", "mutates_local"}).Draw(r, "class"),
				ArgsHash:    rapid.SampledFrom([]string{"", "00000000000000aa", "zz"}).Draw(r, "args"),
				ResultHash:  rapid.SampledFrom([]string{"", "00000000000000aa", "00000000000000ab"}).Draw(r, "result"),
				Arguments:   rapid.SampledFrom([]string{"", "{}", `{"a":1}`, `{"a":`, `[1]`, `{"a":{"b":"$args"}}`}).Draw(r, "arguments"),
				LatencyMS:   rapid.Float64().Draw(r, "latency"), UpstreamMS: rapid.Float64().Draw(r, "upstream"),
				Bytes: rapid.Int64().Draw(r, "bytes"), Session: rapid.SampledFrom([]string{"", "s", "t"}).Draw(r, "session"),
				Turn: rapid.Int().Draw(r, "turn"), Seq: rapid.Int64().Draw(r, "seq"),
			}
			m.Event(&e)
		}
		for _, b := range m.Layer().Blocks {
			if b.Tool != "" {
				configured(t, b)
			}
		}
	})
}

func TestLearned(t *testing.T) {
	state := func() []byte {
		m := predict.NewLearner(predict.LearnerOptions{Target: func(tool string) bool { return tool == "get" }})
		for i := range 40 {
			s := m.Begin(uint64(i), false)
			at := began.Add(time.Duration(i) * time.Hour)
			s.Call(predict.Call{ID: 1, Turn: 1, Tool: "list", Arguments: fmt.Sprintf(`{"owner":"o%d"}`, i), At: at})
			s.Result(predict.Outcome{ID: 1, Values: predict.Extract(fmt.Appendf(nil, `{"items":[{"n":%d},{"n":%d}]}`, 1000+i, 2000+i), nil), At: at})
			s.Candidates(at)
			s.Call(predict.Call{ID: 2, Turn: 2, Tool: "get", Arguments: fmt.Sprintf(`{"number":%d,"owner":"o%d"}`, 1000+i, i), At: at})
			s.End()
		}
		out, err := m.Merge(nil)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}()
	m := tune.New(tune.Options{Model: known(t, rule("hub/*", reads))})
	m.Learned("hub", state)
	got := lines(m.Layer(), "follow_up")
	if len(got) != 1 || !strings.Contains(got[0], `args = { number = "$result.items[*].n", owner = "$args.owner" }, max = 1 }`) {
		t.Errorf("got %q, want the first of the list, and no more", got)
	}
	// Nor is one that does not exist any more.
	m = tune.New(tune.Options{Model: known(t, rule("hub/*", reads)), Missing: func(tool string) bool { return tool == "hub/get" }})
	m.Learned("hub", state)
	expect(t, m.Layer(), "follow_up")
	// A tool that changes something is not proposed, nor is anything of a broken state.
	m = tune.New(tune.Options{Model: known(t, rule("hub/get", valuemodel.Layer{Class: valuemodel.MutatesExternal}))})
	m.Learned("hub", state)
	m.Learned("hub", []byte("junk"))
	expect(t, m.Layer(), "follow_up")
}
