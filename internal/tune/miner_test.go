package tune_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mcpschedd/internal/replay"
	"mcpschedd/internal/tune"
	"mcpschedd/internal/valuemodel"
)

// known are models of an upstream's tools, by "upstream/tool".
func known(t testing.TB, rules ...valuemodel.Rule) func(string) *valuemodel.Model {
	t.Helper()
	m, problems := valuemodel.Compile(rules)
	if len(problems) > 0 {
		t.Fatalf("rules: %v", problems)
	}
	return func(name string) *valuemodel.Model {
		upstream, tool, _ := strings.Cut(name, "/")
		return m.Resolve(valuemodel.Upstream{Name: upstream, Domain: upstream}, tool, valuemodel.Hints{})
	}
}

func rule(pattern string, l valuemodel.Layer) valuemodel.Rule {
	return valuemodel.Rule{Pattern: pattern, Source: "config.toml:1", Layer: l}
}

var reads = valuemodel.Layer{Class: valuemodel.ReadOnly}

// script is a recorded trace in the making. A turn takes a second, half of it the
// call.
type script struct {
	calls []replay.Call
	now   int64
}

func (s *script) call(session, tool, args, text string) {
	from, to := s.now, s.now+500
	s.now += 1000
	s.calls = append(s.calls, replay.Call{
		Session: session, Batch: len(s.calls), Start: &from, End: &to, Tool: tool,
		Arguments: json.RawMessage(args), Text: text, Bytes: len(text),
	})
}

// lines are a layer's lines of one key: block, value.
func lines(l tune.Layer, key string) (out []string) {
	for _, b := range l.Blocks {
		for _, line := range b.Lines {
			if line.Key == key {
				out = append(out, b.Tool+" "+line.Value)
			}
		}
	}
	return out
}

// lists are sessions that list n things each, look at the first, and at the second of
// every third session.
func lists(sessions int) []replay.Call {
	s := &script{now: 1.7e12}
	for i := range sessions {
		id := fmt.Sprintf("s%d", i)
		s.call(id, "list", fmt.Sprintf(`{"owner":"o%d"}`, i), fmt.Sprintf(`{"items":[{"n":%d},{"n":%d},{"n":%d}]}`, 100*i+11, 100*i+12, 100*i+13))
		s.call(id, "get", fmt.Sprintf(`{"owner":"o%d","number":%d}`, i, 100*i+11), "x")
		if i%3 == 0 {
			s.call(id, "get", fmt.Sprintf(`{"owner":"o%d","number":%d}`, i, 100*i+12), "x")
		}
		s.now += 60_000
	}
	return s.calls
}

func TestFollowUpOfAList(t *testing.T) {
	m := tune.New(tune.Options{Model: known(t, rule("hub/*", reads)), Upstream: "hub"})
	m.Trace("a.jsonl", lists(30))
	got := lines(m.Layer(), "follow_up")
	want := []string{`hub/list { tool = "get", probability = 0.99, args = { number = "$result.items[0].n", owner = "$args.owner" }, max = 1 }`}
	if len(got) == 0 || got[0] != want[0] && !strings.Contains(got[0], `args = { number = "$result.items[*<=3].n", owner = "$args.owner" }, max = 1`) {
		t.Errorf("got %q, want first %q", got, want)
	}
	for _, line := range got {
		if strings.Contains(line, "[2]") || strings.Contains(line, "max = 3") {
			t.Errorf("got %s: the third was never looked at", line)
		}
	}
}

// A text that lists files, as a search writes it.
func TestFollowUpOfAText(t *testing.T) {
	s := &script{now: 1.7e12}
	for i := range 30 {
		id := fmt.Sprint(i)
		if i%2 == 0 {
			s.call(id, "find", fmt.Sprintf(`{"q":"q%d"}`, i), fmt.Sprintf("Found 1 file\n/r/file%d.go", i))
			s.call(id, "read", fmt.Sprintf(`{"path":"/r/file%d.go"}`, i), "x")
		} else {
			s.call(id, "find", fmt.Sprintf(`{"q":"q%d"}`, i), fmt.Sprintf("Found 9 files\n%s", strings.Repeat(fmt.Sprintf("/r/%d/a.go\n/r/%d/b.go\n/r/%d/c.go\n", i, i+1000, i+2000), 3)))
			s.call(id, "other", "{}", "x")
		}
		s.now += 60_000
	}
	m := tune.New(tune.Options{Model: known(t, rule("hub/*", reads)), Upstream: "hub"})
	m.Trace("a.jsonl", s.calls)
	got := strings.Join(lines(m.Layer(), "follow_up"), "\n")
	if !strings.Contains(got, `hub/find { tool = "read", probability = 0.95, args = { path = "$text.paths[*<=1]" }, max = 1 }`) {
		t.Errorf("got %s, want the only path of a text that has one", got)
	}
}

// What was right once, and is not any more, is not proposed.
func TestFollowUpsThatCeasedToBeRight(t *testing.T) {
	s := &script{now: 1.7e12}
	for i := range 60 {
		id := fmt.Sprint(i)
		s.call(id, "list", fmt.Sprintf(`{"p":%d}`, i), fmt.Sprintf(`{"id":"id-%d"}`, i))
		if i < 40 {
			s.call(id, "get", fmt.Sprintf(`{"id":"id-%d"}`, i), "x")
		} else {
			s.call(id, "get", fmt.Sprintf(`{"id":"other-%d"}`, i), "x")
		}
		s.now += 60_000
	}
	m := tune.New(tune.Options{Model: known(t, rule("hub/*", reads)), Upstream: "hub"})
	m.Trace("a.jsonl", s.calls)
	if got := lines(m.Layer(), "follow_up"); len(got) > 0 {
		t.Errorf("got %q, want none: in the last third it was never right", got)
	}
}

// Logs come in many small parts: one session alone tells nothing, all together do.
func TestSessionsOfManyTraces(t *testing.T) {
	all := lists(30)
	m := tune.New(tune.Options{Model: known(t, rule("hub/*", reads)), Upstream: "hub"})
	for i := range 30 {
		var some []replay.Call
		for _, c := range all {
			if c.Session == fmt.Sprintf("s%d", i) {
				some = append(some, c)
			}
		}
		m.Trace("log", some)
	}
	l := m.Layer()
	if got := lines(l, "follow_up"); len(got) == 0 {
		t.Error("got no follow-ups, want one")
	}
	if len(l.Sources) != 1 || l.Sources[0].Sessions != 30 || l.Sources[0].Calls != len(all) || l.Sources[0].From != 1.7e12 {
		t.Errorf("got sources %+v, want one with all sessions", l.Sources)
	}
}

// Nothing that changes something, that tells third parties, or that is another
// upstream's follows.
func TestNothingFollowsThatMayNot(t *testing.T) {
	for name, rules := range map[string][]valuemodel.Rule{
		"a write":       {rule("hub/list", reads), rule("hub/get", valuemodel.Layer{Class: valuemodel.MutatesExternal})},
		"nobody knows":  {rule("hub/list", reads)},
		"third parties": {rule("hub/*", reads), rule("hub/get", valuemodel.Layer{Disclosure: valuemodel.ThirdParty})},
		"not allowed":   {rule("hub/*", reads), rule("hub/get", valuemodel.Layer{Speculate: new(false)})},
	} {
		m := tune.New(tune.Options{Model: known(t, rules...), Upstream: "hub"})
		m.Trace("a.jsonl", lists(30))
		if got := lines(m.Layer(), "follow_up"); len(got) > 0 {
			t.Errorf("%s: got %q, want none", name, got)
		}
	}
	calls := lists(30)
	for i := range calls {
		if calls[i].Tool == "get" {
			calls[i].Tool = "other/get"
		}
	}
	m := tune.New(tune.Options{Model: known(t, rule("*", reads)), Upstream: "hub"})
	m.Trace("a.jsonl", calls)
	if got := lines(m.Layer(), "follow_up"); len(got) > 0 {
		t.Errorf("another upstream's: got %q, want none", got)
	}
}

// A value that may be a key is no constant of a configuration.
func TestTokensAreNoConstants(t *testing.T) {
	for _, token := range []string{"ghp1234567890abcdefghij", "hunter2", "open"} {
		s := &script{now: 1.7e12}
		for i := range 30 {
			id := fmt.Sprint(i)
			s.call(id, "list", "{}", fmt.Sprintf(`{"id":"id-%d"}`, i))
			s.call(id, "get", fmt.Sprintf(`{"id":"id-%d","with":%q}`, i, token), "x")
			s.now += 60_000
		}
		secret := func(argument, value string) bool { return argument == "with" && value == `"hunter2"` }
		m := tune.New(tune.Options{Model: known(t, rule("hub/*", reads)), Upstream: "hub", Secret: secret})
		m.Trace("a.jsonl", s.calls)
		got := strings.Join(lines(m.Layer(), "follow_up"), "\n")
		if strings.Contains(got, token) != (token == "open") {
			t.Errorf("%s: got %s", token, got)
		}
	}
}

// What is configured already is not proposed again, and the order of things does not
// depend on chance.
func TestSecondRunProposesNothing(t *testing.T) {
	first := func(rules ...valuemodel.Rule) tune.Layer {
		m := tune.New(tune.Options{Model: known(t, append(rules, rule("hub/*", reads))...), Upstream: "hub"})
		m.Trace("a.jsonl", lists(40))
		return m.Layer()
	}
	l := first()
	for range 5 {
		if diff := cmp.Diff(l, first()); diff != "" {
			t.Fatalf("two runs differ:\n%s", diff)
		}
	}
	if len(l.Blocks) == 0 {
		t.Fatal("got nothing proposed, want something to be configured")
	}
	var rules []valuemodel.Rule
	for _, b := range l.Blocks {
		rules = append(rules, rule(b.Tool, configured(t, b)))
	}
	if again := first(rules...); len(again.Blocks) > 0 {
		t.Errorf("got %+v, want nothing", again.Blocks)
	}
}

// A trace may hold anything: what comes out is configuration.
func TestAnyTrace(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		values := rapid.SampledFrom([]string{`1`, `12`, `"a b"`, `"/r/x.go"`, `"$args"`, `"$result.x"`, `null`, `[1,"/r/x.go"]`, `{"a":{"b":12}}`, `1e300`, `"é\u0000\""`, `true`})
		names := rapid.SampledFrom([]string{`a`, `b c`, `""`, `a.b`, `123`, `q\"`})
		object := func(label string) string {
			return fmt.Sprintf(`{"%s":%s,"z":%s}`, strings.ReplaceAll(names.Draw(r, label), `""`, ``), values.Draw(r, label), values.Draw(r, label))
		}
		m := tune.New(tune.Options{Model: known(t, rule("hub/get*", reads)), Upstream: "hub", MinN: 1})
		for part := range rapid.IntRange(1, 3).Draw(r, "parts") {
			s := &script{now: rapid.Int64Range(0, 1e12).Draw(r, "begin")}
			for range rapid.IntRange(0, 40).Draw(r, "calls") {
				s.call(rapid.SampledFrom([]string{"x", "y", "z"}).Draw(r, "session"), rapid.SampledFrom([]string{"get", "get2", "set", ""}).Draw(r, "tool"), object("args"), object("text"))
				c := &s.calls[len(s.calls)-1]
				c.Failed = rapid.Bool().Draw(r, "failed")
				if rapid.Bool().Draw(r, "untimed") {
					c.Start, c.End = nil, nil
				}
				if rapid.Bool().Draw(r, "plain") {
					c.Text = "Found\n/r/x.go:1: a b\n12\n"
				}
			}
			m.Trace(fmt.Sprint(part), s.calls)
		}
		for _, b := range m.Layer().Blocks {
			configured(t, b)
		}
	})
}

// A session that asks the same again and again takes no longer for it.
func TestManyRepeats(t *testing.T) {
	s := &script{now: 1.7e12}
	for i := range 20_000 {
		s.call(fmt.Sprint(i/10_000), "get", fmt.Sprintf(`{"id":%d}`, 1000+i%2), `{"id":1000,"next":1001}`)
	}
	m := tune.New(tune.Options{Model: known(t, rule("hub/*", reads)), Upstream: "hub"})
	m.Trace("a.jsonl", s.calls)
	m.Layer()
}

// What a list leads to may have been asked for in the same turn, after it.
func TestAskedInTheSameTurn(t *testing.T) {
	s := &script{now: 1.7e12}
	for i := range 30 {
		id := fmt.Sprint(i)
		s.call(id, "list", fmt.Sprintf(`{"p":%d}`, i), fmt.Sprintf(`{"id":"id-%d"}`, i))
		s.call(id, "other", "{}", "x")
		s.call(id, "get", fmt.Sprintf(`{"id":"id-%d"}`, i), "x")
		if i%2 == 0 { // every second session guesses right by itself
			n := len(s.calls)
			s.calls[n-1].Batch, s.calls[n-2].Batch = s.calls[n-3].Batch, s.calls[n-3].Batch
		}
		s.now += 60_000
	}
	m := tune.New(tune.Options{Model: known(t, rule("hub/*", reads)), Upstream: "hub"})
	m.Trace("a.jsonl", s.calls)
	l := m.Layer()
	for _, b := range l.Blocks {
		for _, line := range b.Lines {
			if line.Key == "follow_up" && b.Tool == "hub/list" && strings.HasPrefix(line.Evidence, "15 of 15 guesses right") {
				return
			}
		}
	}
	t.Errorf("got %+v, want a follow-up for the sessions that did not ask in the same turn", l.Blocks)
}
