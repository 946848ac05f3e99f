package tune_test

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
	"pgregory.net/rapid"

	"mcpschedd/internal/config"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/record"
	"mcpschedd/internal/replay"
	"mcpschedd/internal/tune"
	"mcpschedd/internal/valuemodel"
)

var began = time.UnixMilli(1.7e12)

var reads = valuemodel.Layer{Class: valuemodel.ReadOnly}

func rule(pattern string, l valuemodel.Layer) valuemodel.Rule {
	return valuemodel.Rule{Pattern: pattern, Source: "c.toml:1", Layer: l}
}

// options returns options with the models of some tools.
func options(t testing.TB, rules ...valuemodel.Rule) tune.Options {
	models, problems := valuemodel.Compile(rules)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return tune.Options{
		Model: func(tool string) *valuemodel.Model {
			upstream, name, _ := strings.Cut(tool, "/")
			return models.Resolve(valuemodel.Upstream{Name: upstream}, name, valuemodel.Hints{})
		},
		Missing: func(string) bool { return false }, Secret: func([]byte) bool { return false },
		MinProbability: 0.3, Waste: 50 * time.Millisecond, MaxAge: func(string) time.Duration { return 30 * time.Second },
	}
}

// read returns the event of a call of hub/get.
func read(second, args, result int) record.Event {
	return record.Event{
		Kind: record.Call, Disposition: record.Fetched, At: began.Add(time.Duration(second) * time.Second), Session: "s",
		Upstream: "hub", Tool: "get", Class: "read_only", Bytes: 10 << 10, UpstreamMS: 900,
		ArgsHash: fmt.Sprintf("%016x", args), ResultHash: fmt.Sprintf("%016x", result+1),
	}
}

func proposed(o tune.Options, all []record.Event) tune.Proposal {
	t := tune.New(o)
	for i := range all {
		t.AddEvent(&all[i])
	}
	return t.Propose()
}

func TestFigures(t *testing.T) {
	times := func(n int, each func(i int) record.Event) (all []record.Event) {
		for i := range n {
			all = append(all, each(i))
		}
		return all
	}
	fails := func(i int) record.Event {
		e := read(i, i, i)
		e.IsError = true
		return e
	}
	sized := func(kb int64) func(i int) record.Event {
		return func(i int) record.Event {
			e := read(i, i, i)
			e.Bytes = kb << 10
			return e
		}
	}
	prefetched := func(wrong int) []record.Event {
		return times(40, func(i int) record.Event {
			e := read(i, i, i)
			if e.Kind, e.Fate = record.Prefetch, record.Used; i < wrong {
				e.Fate = record.Wasted
			}
			return e
		})
	}
	mine := func(l valuemodel.Layer) []valuemodel.Rule {
		l.Class = valuemodel.ReadOnly
		return []valuemodel.Rule{rule("hub/get", l)}
	}
	known := mine(valuemodel.Layer{})
	for _, test := range []struct {
		name   string
		rules  []valuemodel.Rule
		events []record.Event
		want   []string // texts in tuned.toml
		advice string   // text of the advice
		never  string   // text that must be in neither
	}{
		{"costs", known, times(20, func(i int) record.Event { return read(i, i, i) }), []string{"cost_model.typical_kb = 10 # median of 20 answers", "latency_ms_p50 = 900", "max_kb = 10"}, "", "speculate"},
		{"too few", known, times(9, func(i int) record.Event { return read(i, i, i) }), nil, "", "get"},
		{"the user's own", mine(valuemodel.Layer{Cost: valuemodel.Cost{TypicalKB: 3}}), times(20, func(i int) record.Event { return read(i, i, i) }), []string{"latency_ms_p50"}, "", "_kb"},
		{"larger than the known maximum", known, times(20, sized(60)), []string{"typical_kb = 60", "max_kb = 60"}, "", ""},
		{"smaller than the known median", known, times(20, sized(3)), []string{"typical_kb = 3", "max_kb = 3"}, "", ""},
		{"larger than the user's own maximum", mine(valuemodel.Layer{Cost: valuemodel.Cost{MaxKB: 50}}), times(20, sized(60)), []string{"latency_ms_p50"}, "", "_kb"},
		{"errors", known, times(20, fails), nil, "", "get"},
		{"no upstream", known, times(20, func(i int) record.Event { e := read(i, i, i); e.Upstream = ""; return e }), nil, "", "get"},
		{"prefetches that are wrong", known, prefetched(40), []string{"speculate = false # 0 of 40 prefetches right"}, "", "cost_model"},
		{"prefetches that are right", known, prefetched(10), nil, "", "speculate"},
		{"prefetches that the user wants", mine(valuemodel.Layer{Speculate: new(true)}), prefetched(40), nil, "", "speculate"},
		{"answers that stay", known, times(20, func(i int) record.Event { return read(60*i, 1, 1) }), []string{"typical_kb"}, "# cost_model.freshness_ttl_s = 60 # 19 answers", ""},
		{"answers that change", known, times(20, func(i int) record.Event { return read(60*i, 1, i) }), []string{"typical_kb"}, "", "freshness"},
		{"answers between writes", known, times(40, func(i int) record.Event {
			if i%2 == 0 {
				return read(60*i, 1, 1)
			}
			e := read(60*i, 1, 1)
			e.Tool, e.Class = "put", "mutates_external"
			return e
		}), []string{"typical_kb"}, "", "freshness"},
		{"answers between writes, with an older log read in between", known, times(60, func(i int) record.Event {
			e := read(60*i, 1, 1)
			switch i % 3 {
			case 1:
				e.Tool = "put"
			case 2:
				e = read(-60, 1, 1)
				e.Tool = "put"
			}
			return e
		}), []string{"typical_kb"}, "", "freshness"},
		{"a name that would be a pattern", []valuemodel.Rule{rule("hub/*", reads)}, times(20, func(i int) record.Event {
			e := read(i, i, i)
			e.Tool = "g?t"
			return e
		}), nil, "", "g?t"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := proposed(options(t, test.rules...), test.events)
			text := string(p.TOML())
			for _, want := range test.want {
				if !strings.Contains(text, want) {
					t.Errorf("got %s, want %s in it", text, want)
				}
			}
			if !strings.Contains(p.AdviceTOML(), test.advice) {
				t.Errorf("advised %s, want %s", p.AdviceTOML(), test.advice)
			}
			_, body, _ := strings.Cut(text, "\n[")
			if both := body + p.AdviceTOML(); test.never != "" && strings.Contains(both, test.never) {
				t.Errorf("got %s, want no %s", both, test.never)
			}
			again(t, p)
		})
	}
}

// again fails unless the proposal is a valid tuned.toml.
func again(t *testing.T, p tune.Proposal) {
	t.Helper()
	path := t.TempDir() + "/c.toml"
	for name, text := range map[string][]byte{path: []byte("# none\n"), config.TunedPath(path): p.TOML()} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Default().Load(path)
	if err != nil {
		t.Fatalf("%v, in:\n%s", err, p.TOML())
	}
	if len(c.Tuned) != len(p.Blocks) {
		t.Errorf("got %d tools, want %d", len(c.Tuned), len(p.Blocks))
	}
}

// The proposal from any log can be loaded.
func TestAnyEvents(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		tuner := tune.New(options(t, rule("*", reads)))
		for range rapid.IntRange(0, 40).Draw(r, "events") {
			e := read(rapid.IntRange(-10, 1000).Draw(r, "second"), rapid.IntRange(0, 2).Draw(r, "args"), rapid.IntRange(0, 1).Draw(r, "result"))
			e.Kind = rapid.SampledFrom([]record.Kind{record.Call, record.Prefetch, record.Begin, "new"}).Draw(r, "kind")
			e.Fate = rapid.SampledFrom([]record.Fate{record.Used, record.Wasted, "new"}).Draw(r, "fate")
			e.Tool = rapid.SampledFrom([]string{"get", `a"\` + "\n", "é/*", ""}).Draw(r, "tool")
			e.UpstreamMS = rapid.SampledFrom([]float64{-1, 0, 1e12, 12.345}).Draw(r, "ms")
			e.Bytes = rapid.SampledFrom([]int64{math.MinInt64, -1, 0, 12345, math.MaxInt64}).Draw(r, "bytes")
			for range rapid.SampledFrom([]int{1, 12}).Draw(r, "times") {
				tuner.AddEvent(&e)
			}
		}
		if text := tuner.Propose().TOML(); len(text) > 0 {
			var any map[string]any
			if err := toml.Unmarshal(text, &any); err != nil {
				r.Fatalf("%v, in:\n%s", err, text)
			}
		}
	})
}

// play returns the state of a learner that has learned to read the first item of a list next.
func play(t *testing.T) predict.State {
	known := map[string]predict.Tool{
		"list": {Model: &valuemodel.Model{Upstream: "hub", Tool: "list"}},
		"get":  {Model: &valuemodel.Model{Upstream: "hub", Tool: "get"}},
	}
	known["get"].Model.Class, known["get"].Model.Speculate = valuemodel.ReadOnly, new(true)
	m := predict.New(predict.Options{Learn: true, Tool: func(name string) predict.Tool { return known[name] }})
	for i := range 40 {
		s := m.Begin(uint64(i)+1, false)
		at := began.Add(time.Duration(i) * time.Hour)
		s.Call(predict.Call{ID: 1, Turn: 1, Tool: "list", Arguments: fmt.Sprintf(`{"owner":"o%d"}`, i), At: at})
		s.Result(predict.Result{ID: 1, Structured: fmt.Appendf(nil, `{"items":[{"n":%d},{"n":%d}]}`, 1000+i, 2000+i), At: at})
		s.Candidates(at)
		s.Call(predict.Call{ID: 2, Turn: 2, Tool: "get", Arguments: fmt.Sprintf(`{"number":%d,"owner":"o%d"}`, 1000+i, i), At: at})
		s.End()
	}
	state, err := m.Merge(predict.State{})
	if err != nil {
		t.Fatal(err)
	}
	return state
}

const firstOfTheList = `tool = "get", args = {number = "$result.items[*].n", owner = "$args.owner"}}`

func TestLearned(t *testing.T) {
	state := play(t)
	all := rule("hub/*", reads)
	same, err := valuemodel.ParseBinding("$result.items[*].n")
	if err != nil {
		t.Fatal(err)
	}
	owner, err := valuemodel.ParseBinding("$args.owner")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		rules []valuemodel.Rule
		gone  string
		want  bool
	}{
		{"a read", []valuemodel.Rule{all}, "", true},
		{"a tool that is gone", []valuemodel.Rule{all}, "hub/get", false},
		{"after a tool that is gone", []valuemodel.Rule{all}, "hub/list", false},
		{"a write", []valuemodel.Rule{rule("hub/get", valuemodel.Layer{Class: valuemodel.MutatesExternal})}, "", false},
		{"one that tells third parties", []valuemodel.Rule{all, rule("hub/get", valuemodel.Layer{Disclosure: valuemodel.ThirdParty})}, "", false},
		{"one that is configured", []valuemodel.Rule{all, rule("hub/list", valuemodel.Layer{FollowUps: []valuemodel.FollowUp{
			{Tool: "get", Args: map[string]valuemodel.Binding{"number": same, "owner": owner}, Probability: 0.9, Max: 2},
		}})}, "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := options(t, test.rules...)
			o.Missing = func(tool string) bool { return tool == test.gone }
			tuner := tune.New(o)
			if err := tuner.AddLearned("hub", state); err != nil {
				t.Fatal(err)
			}
			if err := tuner.AddLearned("broken", predict.State{Server: []byte("junk")}); err == nil {
				t.Error("an invalid state: got no error")
			}
			p := tuner.Propose()
			if got := strings.Contains(string(p.TOML()), firstOfTheList); got != test.want {
				t.Errorf("got %s, want it proposed: %v", p.TOML(), test.want)
			}
			again(t, p)
		})
	}
}

// Recorded calls train the learner as the same calls do in the proxy, and yield costs.
func TestCallsWarmTheLearner(t *testing.T) {
	var calls []replay.Call
	add := func(session, batch int, tool, arguments, text string) {
		start := began.Add(time.Duration(session)*time.Hour + time.Duration(4*batch)*time.Second).UnixMilli()
		end := start + 700
		calls = append(calls, replay.Call{
			Session: fmt.Sprint(session), Batch: batch, Start: &start, End: &end, Tool: tool,
			Arguments: []byte(arguments), Text: text, Bytes: len(text),
		})
	}
	for i := range 20 {
		add(i, 1, "hub/list", fmt.Sprintf(`{"owner" : "o%d"}`, i), fmt.Sprintf(`{"items":[{"n":%d},{"n":%d}]}`, 1000+i, 2000+i))
		add(i, 2, "other/list", `{}`, `{}`) // another upstream; its calls are not turns of this one
		add(i, 3, "hub/get", fmt.Sprintf(`{"number":%d,"owner":"o%d"}`, 1000+i, i), "x")
	}
	tuner := tune.New(options(t, rule("*/*", reads)))
	tuner.AddCalls(calls)
	p := tuner.Propose()
	for _, want := range []string{firstOfTheList, "cost_model.latency_ms_p50 = 700 # median of 20 answers"} {
		if !strings.Contains(string(p.TOML()), want) {
			t.Errorf("got %s, want %s in it", p.TOML(), want)
		}
	}
}

// A follow-up that the learned state and the recorded calls have is proposed once, with the evidence of
// both, however many calls came later.
func TestLearnedAndCalls(t *testing.T) {
	tuner := tune.New(options(t, rule("hub/*", reads)))
	if err := tuner.AddLearned("hub", play(t)); err != nil {
		t.Fatal(err)
	}
	var calls []replay.Call
	for i := range 60 {
		add := func(batch int, tool, arguments, text string) {
			calls = append(calls, replay.Call{Session: fmt.Sprint(i), Batch: batch, Tool: tool, Arguments: []byte(arguments), Text: text})
		}
		if i < 20 {
			add(1, "hub/list", fmt.Sprintf(`{"owner":"o%d"}`, i), fmt.Sprintf(`{"items":[{"n":%d},{"n":%d}]}`, 1000+i, 2000+i))
			add(2, "hub/get", fmt.Sprintf(`{"number":%d,"owner":"o%d"}`, 1000+i, i), "x")
			continue
		}
		for batch := range 10 { // so many changes that a merge would not have the first ones
			var text strings.Builder
			for j := range 40 {
				fmt.Fprintf(&text, `{"id":"%d-%d-%d"},`, i, batch, j)
			}
			add(batch, "hub/find", fmt.Sprintf(`{"q":"%d-%d"}`, i, batch), "["+text.String()+"{}]")
			add(batch+100, "hub/open", fmt.Sprintf(`{"id":"%d-%d-%d"}`, i, batch, i%40), "x")
		}
	}
	slices.SortStableFunc(calls, func(a, b replay.Call) int { return cmp.Or(cmp.Compare(a.Session, b.Session), a.Batch-b.Batch) })
	tuner.AddCalls(calls)
	text := string(tuner.Propose().TOML())
	_, line, found := strings.Cut(text, firstOfTheList)
	line, _, _ = strings.Cut(line, "\n")
	var right, of float64
	if _, err := fmt.Sscanf(line, ", # %f of %f", &right, &of); err != nil || !found || strings.Count(text, firstOfTheList) != 1 || of < 50 {
		t.Errorf("got %s, want the follow-up once, with about 60 candidates", text)
	}
}

// A tool whose own name has a slash is proposed with the name of its server, which would otherwise be
// taken from it.
func TestToolWithSlash(t *testing.T) {
	var calls []replay.Call
	for i := range 20 {
		calls = append(calls,
			replay.Call{Session: fmt.Sprint(i), Batch: 1, Tool: "hub/list", Arguments: fmt.Appendf(nil, `{"owner":"o%d"}`, i), Text: fmt.Sprintf(`{"n":%d}`, 1000+i)},
			replay.Call{Session: fmt.Sprint(i), Batch: 2, Tool: "hub/issues/get", Arguments: fmt.Appendf(nil, `{"number":%d}`, 1000+i), Text: "x"})
	}
	tuner := tune.New(options(t, rule("hub/*", reads)))
	tuner.AddCalls(calls)
	if text := string(tuner.Propose().TOML()); !strings.Contains(text, `tool = "hub/issues/get", args = {number = "$result.n"}`) {
		t.Errorf("got %s", text)
	}
}

// A follow-up with the constant null is not proposed: TOML has no null, and a call without the argument may
// be another call.
func TestNull(t *testing.T) {
	var calls []replay.Call
	for i := range 20 {
		calls = append(calls,
			replay.Call{Session: fmt.Sprint(i), Batch: 1, Tool: "hub/list", Arguments: fmt.Appendf(nil, `{"owner":"o%d"}`, i), Text: fmt.Sprintf(`{"n":%d}`, 1000+i)},
			replay.Call{Session: fmt.Sprint(i), Batch: 2, Tool: "hub/get", Arguments: fmt.Appendf(nil, `{"number":%d,"page":null}`, 1000+i), Text: "x"})
	}
	tuner := tune.New(options(t, rule("hub/*", reads)))
	tuner.AddCalls(calls)
	if text := string(tuner.Propose().TOML()); strings.Contains(text, "follow_up") {
		t.Errorf("got %s", text)
	}
}

// The evidence names the days of all calls with a time, also if one in between has none.
func TestPeriod(t *testing.T) {
	var calls []replay.Call
	for i := range 12 {
		c := replay.Call{Session: "s", Batch: i, Tool: "hub/get", Arguments: []byte("{}"), Text: "x", Bytes: 9000}
		if i != 6 {
			start := began.Add(time.Duration(i) * 24 * time.Hour).UnixMilli()
			c.Start, c.End = &start, new(start+900)
		}
		calls = append(calls, c)
	}
	tuner := tune.New(options(t, rule("hub/*", reads)))
	tuner.AddCalls(calls)
	if text := string(tuner.Propose().TOML()); !strings.Contains(text, "median of 12 answers, 2023-11-14 to 2023-11-25") {
		t.Errorf("got %s", text)
	}
}

func TestUnclassified(t *testing.T) {
	e := read(1, 1, 1)
	if got := proposed(options(t), []record.Event{e}).Unclassified; len(got) != 1 || got[0] != "hub/get" {
		t.Errorf("got %q", got)
	}
	e.IsError = true
	if got := proposed(options(t), []record.Event{e}).Unclassified; got != nil {
		t.Errorf("from errors only: got %q", got)
	}
}
