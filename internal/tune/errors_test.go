package tune_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/record"
	"mcpschedd/internal/tune"
)

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// An error comes at once, and is short: with 14 answers that took 400 ms, 16 of them
// made the median 2 ms.
func TestErrorsTellNothingOfCosts(t *testing.T) {
	var all []record.Event
	s := &script{now: 1.7e12}
	for i := range 30 {
		e := read(i, i, i)
		e.UpstreamMS, e.Bytes = 4000, 10<<10
		s.call(fmt.Sprint(i), "get", fmt.Sprintf(`{"n":%d}`, i), strings.Repeat("x", 10<<10))
		c := &s.calls[i]
		*c.End = *c.Start + 4000
		if i < 16 {
			e.IsError, e.UpstreamMS, e.Bytes = true, 2, 20
			c.Failed, c.Text, c.Bytes = true, "no", 2
			*c.End = *c.Start + 2
		}
		all = append(all, e)
	}
	traced := tune.New(tune.Options{Model: known(t, rule("hub/get", reads)), Upstream: "hub"})
	traced.Trace("a.jsonl", s.calls)
	for name, l := range map[string]tune.Layer{"events": mined(t, all), "trace": traced.Layer()} {
		t.Run(name, func(t *testing.T) {
			expect(t, l, "cost_model.latency_ms_p50", "hub/get 4000")
			expect(t, l, "cost_model.typical_kb", "hub/get 9.9")
		})
	}
}

// Of a tool that only ever answered with errors nothing is known.
func TestNothingFromErrorsAlone(t *testing.T) {
	var all []record.Event
	for i := range 60 {
		call, guess := read(2*i, i%3, i/10), read(2*i+1, i, i)
		call.IsError, guess.IsError = true, true
		call.Error, guess.Kind, guess.Fate, guess.Cause = "", record.Prefetch, record.Wasted, "error"
		all = append(all, call, guess)
	}
	l := mined(t, all)
	if len(l.Blocks) > 0 {
		t.Errorf("got %+v, want nothing", l.Blocks)
	}
	if got := strings.Join(l.Notes, "\n"); !strings.Contains(got, `all that they ever answered was errors: "hub/get" (`) {
		t.Errorf("got notes %q, want to be told", got)
	}

	// Answers that were kept are answers, too.
	hit := read(200, 0, 0)
	hit.Disposition, hit.UpstreamMS = record.Hit, 0
	if got := mined(t, append(all, hit)).Notes; strings.Contains(strings.Join(got, ""), "errors") {
		t.Errorf("with an answer from the store: got notes %q", got)
	}

	// Nor is a call expected whose answer was always an error.
	calls := lists(30)
	for i := range calls {
		calls[i].Failed = calls[i].Tool == "get"
	}
	m := tune.New(tune.Options{Model: known(t, rule("hub/*", reads)), Upstream: "hub"})
	m.Trace("a.jsonl", calls)
	expect(t, m.Layer(), "follow_up")
}

// An error is not kept for who asks later: a guess that gets one was not right.
func TestErrorsAreNotRight(t *testing.T) {
	calls := lists(30)
	for i := range calls {
		calls[i].Failed = calls[i].Tool == "get" && i%2 == 0
	}
	m := tune.New(tune.Options{Model: known(t, rule("hub/*", reads)), Upstream: "hub"})
	m.Trace("a.jsonl", calls)
	l := m.Layer()
	for _, b := range l.Blocks {
		for _, f := range configured(t, b).FollowUps {
			if f.Probability > 0.6 {
				t.Errorf("got %v, want no more than the share of those that are answered", f)
			}
		}
	}
}

// A tool that its upstream does not have, as when a client calls it by the name that it
// has elsewhere, is left out, and named.
func TestToolsThatDoNotExist(t *testing.T) {
	calls := lists(30)
	missing := ""
	mine := func() tune.Layer {
		m := tune.New(tune.Options{
			Model: known(t, rule("hub/*", reads)), Upstream: "hub", Missing: func(tool string) bool { return tool == missing },
		})
		m.Trace("a.jsonl", calls)
		return m.Layer()
	}
	if l := mine(); len(lines(l, "follow_up")) == 0 || strings.Contains(strings.Join(l.Notes, ""), "offer") {
		t.Fatalf("got %+v, want a follow-up", l)
	}
	for _, missing = range []string{"hub/list", "hub/get"} {
		l := mine()
		expect(t, l, "follow_up")
		for _, b := range l.Blocks {
			if b.Tool == missing {
				t.Errorf("got %+v, want nothing of %s", b, missing)
			}
		}
		if got := strings.Join(l.Notes, "\n"); !strings.Contains(got, `do not offer them: "`+missing+`" (`) {
			t.Errorf("got notes %q, want %s", got, missing)
		}
	}
}

// Of which tools nobody says what they do is told by their names.
func TestUnclassified(t *testing.T) {
	m := tune.New(tune.Options{Model: known(t, rule("hub/list", reads)), Upstream: "hub"})
	m.Trace("a.jsonl", lists(30))
	if got := m.Layer().Unclassified; strings.Join(got, " ") != "hub/get" {
		t.Errorf("got %q, want hub/get", got)
	}
}
