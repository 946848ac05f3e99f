package enrich_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/valuemodel"

	"github.com/google/go-cmp/cmp"
)

// reading returns the model of a tool that may be prefetched: 400 ms, and a result of 2 KiB at the
// 90th percentile (562 tokens).
func reading(change func(*valuemodel.Model)) *valuemodel.Model {
	m := &valuemodel.Model{Layer: valuemodel.Layer{
		Class: valuemodel.ReadOnly, ValueClass: valuemodel.Critical, Speculate: new(true),
		Cost: valuemodel.Cost{TypicalKB: 1, MaxKB: 40, Latency: 400 * time.Millisecond},
	}}
	if change != nil {
		change(m)
	}
	return m
}

// likely returns a candidate for a call of a tool.
func likely(tool string, p float64, change func(*enrich.Candidate)) enrich.Candidate {
	c := enrich.Candidate{
		Key:   call.Key{Upstream: 1, Scope: "s", Tool: tool, Arguments: `{"a":1}`},
		Model: reading(nil), P: p,
	}
	if change != nil {
		change(&c)
	}
	return c
}

// options returns the options of a new session with default settings.
func options(change func(*enrich.Options)) enrich.Options {
	o := enrich.Options{
		Budget: 8000, Slots: 3, MinProbability: 0.3, Waste: 50 * time.Millisecond, SecondWorth: 0.01,
		DefaultLead: 3 * time.Second,
	}
	if change != nil {
		change(&o)
	}
	return o
}

// selection is the result of Pick.
type selection struct {
	all    candidates
	chosen []int
}

func pick(all candidates, o enrich.Options) selection {
	s := selection{all: slices.Clone(all)}
	s.chosen = enrich.Pick(s.all, o)
	return s
}

func (s selection) tokens() (sum int) {
	for _, i := range s.chosen {
		sum += s.all[i].Tokens
	}
	return sum
}

// outcome lists the indexes of the chosen candidates in order, then the declined ones with their
// reasons.
func outcome(s selection) []string {
	var lines []string
	for _, i := range s.chosen {
		lines = append(lines, fmt.Sprint(i))
	}
	for i := range s.all {
		if s.all[i].Reason != "" {
			lines = append(lines, fmt.Sprintf("%d %s", i, s.all[i].Reason))
		}
	}
	return lines
}

func expect(t *testing.T, s selection, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, outcome(s)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

type (
	candidates = []enrich.Candidate
	candidate  = enrich.Candidate
	model      = valuemodel.Model
)

func TestPick(t *testing.T) {
	of := func(change func(*model)) func(*candidate) {
		return func(c *candidate) { c.Model = reading(change) }
	}
	because := func(r enrich.Reason) func(*candidate) { return func(c *candidate) { c.Reason = r } }
	tests := []struct {
		name    string
		all     candidates
		options func(*enrich.Options)
		want    []string
	}{
		{"nothing", nil, nil, nil},
		{"the better first", candidates{likely("a", 0.4, nil), likely("b", 0.9, nil)}, nil, []string{"1", "0"}},
		{"no slot", candidates{likely("a", 0.9, nil)}, func(o *enrich.Options) { o.Slots = 0 }, []string{"0 cap"}},
		{"no slot and no budget", candidates{likely("a", 0.9, nil)}, func(o *enrich.Options) { o.Slots, o.Budget = 0, 0 }, []string{"0 budget"}},
		{"no options", candidates{likely("a", 0.9, nil)}, func(o *enrich.Options) { *o = enrich.Options{} }, []string{"0 gate"}},
		{"more than slots", candidates{likely("a", 0.6, nil), likely("b", 0.9, nil), likely("c", 0.7, nil), likely("d", 0.8, nil)}, nil, []string{"1", "3", "2", "0 cap"}},
		{"more than the budget", candidates{likely("a", 0.6, nil), likely("b", 0.9, nil)}, func(o *enrich.Options) { o.Budget = 600 }, []string{"1", "0 budget"}},
		{"under the floor", candidates{likely("a", 0.29, nil), likely("b", 0.3, nil), likely("c", math.NaN(), nil)}, nil, []string{"1", "0 low_probability", "2 low_probability"}},
		{"no floor, and not possible", candidates{likely("a", 0, nil)}, func(o *enrich.Options) { o.MinProbability = 0 }, []string{"0 low_probability"}},
		{"no model", candidates{likely("a", 0.9, func(c *candidate) { c.Model = nil })}, nil, []string{"0 not_speculatable"}},
		{"a write", candidates{likely("a", 0.9, of(func(m *model) { m.Class = valuemodel.MutatesLocal }))}, nil, []string{"0 not_speculatable"}},
		{"a class that the arguments decide", candidates{likely("a", 0.9, of(func(m *model) { m.Class, m.Classify = valuemodel.Indeterminate, valuemodel.SQL }))}, nil, []string{"0"}},
		{"switched off", candidates{likely("a", 0.9, of(func(m *model) { m.Speculate = new(false) }))}, nil, []string{"0 not_speculatable"}},
		{"never said to be safe", candidates{likely("a", 0.9, of(func(m *model) { m.Speculate = nil }))}, nil, []string{"0 not_speculatable"}},
		{"volatile", candidates{likely("a", 0.9, of(func(m *model) { m.Volatile = new(true) }))}, nil, []string{"0 not_speculatable"}},
		{"priced", candidates{likely("a", 0.9, of(func(m *model) { m.Cost.Dollars = 0.0001 }))}, nil, []string{"0 dollars"}},
		{"what cannot be chosen costs nothing", candidates{
			likely("a", 0.9, func(c *candidate) { of(func(m *model) { m.Cost.Dollars = 0.01 })(c); c.Bytes = 30 << 10 }), likely("b", 0.8, of(func(m *model) { m.Cost.Dollars = 0.01 })),
		}, func(o *enrich.Options) { o.Dollars, o.SecondWorth, o.Budget = 0.01, 10, 600 }, []string{"1", "0 budget"}},
		{"what the maker knows", candidates{
			likely("a", 0.9, because(enrich.RateLimited)), likely("b", 0.9, because(enrich.Throttled)), likely("c", 0.9, because(enrich.Stored)),
			likely("d", 0.9, because(enrich.InFlight)), likely("e", 0.9, because(enrich.Schema)), likely("f", 0.9, because(enrich.Origin)),
			likely("g", 0.9, because(enrich.Disclosure)), likely("h", 0.1, because(enrich.Stored)),
		}, nil, []string{"0 rate_limited", "1 throttled", "2 stored", "3 in_flight", "4 schema", "5 origin", "6 disclosure", "7 stored"}},
		{"shadow only where all else allows", candidates{
			likely("a", 0.9, because(enrich.Shadow)), likely("b", 0.1, because(enrich.Shadow)),
			likely("c", 0.9, func(c *candidate) { c.Reason, c.Latency = enrich.Shadow, enrich.Fixed(time.Millisecond) }), likely("d", 0.5, nil),
		}, nil, []string{"3", "0 shadow", "1 low_probability", "2 gate"}},
		{"no slot only where it is worth one", candidates{
			likely("a", 0.9, because(enrich.Throttled)), likely("b", 0.1, because(enrich.Throttled)),
			likely("c", 0.9, func(c *candidate) { c.Reason, c.Latency = enrich.Throttled, enrich.Fixed(time.Millisecond) }),
			likely("d", 0.9, func(c *candidate) { c.Reason, c.Latency = enrich.Cap, enrich.Fixed(time.Millisecond) }), likely("e", 0.9, because(enrich.Cap)),
		}, nil, []string{"0 throttled", "1 low_probability", "2 gate", "3 gate", "4 cap"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			expect(t, pick(tt.all, options(tt.options)), tt.want...)
		})
	}
}

// A candidate passes if P·(1−W)·min(L, D) > (1−P)·C, with the latency L, the lead D, the cost of
// waste C and the share W of calls for which it can wait. With C = 50 ms and P = 0.5 a call must hide
// more than 50 ms.
func TestGate(t *testing.T) {
	within := func(latency, lead time.Duration) func(*candidate) {
		return func(c *candidate) { c.Latency, c.Lead = enrich.Fixed(latency), enrich.Fixed(lead) }
	}
	tests := []struct {
		name   string
		p      float64
		change func(*candidate)
		want   string
	}{
		{"at the edge", 0.5, within(50*time.Millisecond, time.Second), "0 gate"},
		{"above it", 0.5, within(51*time.Millisecond, time.Second), "0"},
		{"the lead is too short", 0.5, within(time.Second, 50*time.Millisecond), "0 gate"},
		{"asked for sooner than it can begin", 0.9, within(time.Second, -time.Second), "0 gate"},
		{"not known: what the model says", 0.5, within(0, time.Second), "0"},
		{"certain, and nothing to hide", 1, within(time.Second, -1), "0 gate"},
		{"less likely", 0.3, within(116*time.Millisecond, time.Second), "0 gate"},
		{"less likely, slower", 0.3, within(117*time.Millisecond, time.Second), "0"},
		{"more than certain is certain", 7, within(time.Millisecond, time.Second), "0"},
		{"a careful host", 0.5, func(c *candidate) {
			within(60*time.Millisecond, time.Second)(c)
			c.WasteFactor = 2
		}, "0 gate"},
		{"it can wait", 0.5, func(c *candidate) {
			within(100*time.Millisecond, time.Second)(c)
			c.CanWait = 0.5
		}, "0 gate"},
		{"slower, so less of it can wait", 0.5, func(c *candidate) {
			within(101*time.Millisecond, time.Second)(c)
			c.CanWait = 0.5
		}, "0"},
		{"certain, so it begins at once", 1, func(c *candidate) { c.CanWait = 0.99 }, "0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			expect(t, pick(candidates{likely("a", tt.p, tt.change)}, options(nil)), tt.want)
		})
	}
}

func TestGatePricesDollars(t *testing.T) {
	priced := func(dollars float64) func(*candidate) {
		return func(c *candidate) {
			c.Model = reading(func(m *model) { m.Cost.Dollars = dollars })
		}
	}
	rich := func(o *enrich.Options) { o.Dollars = 1 }
	tests := []struct {
		name    string
		all     candidates
		options func(*enrich.Options)
		want    []string
	}{
		// 0.5·400 ms against 0.5·(50 ms + the price, at one second per cent)
		{"worth it", candidates{likely("a", 0.5, priced(0.0034))}, rich, []string{"0"}},
		{"not worth it", candidates{likely("a", 0.5, priced(0.0035))}, rich, []string{"0 gate"}},
		{"more than there is", candidates{likely("a", 0.5, priced(1.01))}, rich, []string{"0 dollars"}},
		{"more than there is for both", candidates{likely("a", 0.8, priced(0.003)), likely("b", 0.9, priced(0.003))}, func(o *enrich.Options) { o.Dollars = 0.005 }, []string{"1", "0 dollars"}},
		{"no price is worth it", candidates{likely("a", 1, priced(0.0001)), likely("b", 0.5, nil)}, func(o *enrich.Options) { o.Dollars, o.SecondWorth = 1, 0 }, []string{"1", "0 gate"}},
		{"debts bar what is free of charge from nothing", candidates{likely("a", 0.5, nil)}, func(o *enrich.Options) { o.Dollars = -1 }, []string{"0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			expect(t, pick(tt.all, options(tt.options)), tt.want...)
		})
	}
}

// A slow tool is worth more, as it hides more waiting time.
func TestSlowToolsAreBetterTargets(t *testing.T) {
	slow := func(latency time.Duration) func(*candidate) {
		return func(c *candidate) {
			c.Latency, c.Lead = enrich.Fixed(latency), enrich.Fixed(20*time.Second)
		}
	}
	s := pick(candidates{likely("a", 0.5, slow(200*time.Millisecond)), likely("b", 0.5, slow(10*time.Second))}, options(nil))
	expect(t, s, "1", "0")
	if got, want := s.all[s.chosen[0]].Value/s.all[s.chosen[1]].Value, 50.0; math.Abs(got-want) > 1e-9 {
		t.Errorf("got %v times the value, want %v", got, want)
	}
}

// The expected hidden time is the mean of min(L, D) over the percentiles of both, not the minimum
// of both means or of both medians.
func TestHiddenTimeIsExpectedOverBothSpreads(t *testing.T) {
	c := likely("a", 1, func(c *candidate) {
		c.Latency = enrich.Percentiles{P10: 100 * time.Millisecond, P50: 400 * time.Millisecond, P90: 2 * time.Second}
		c.Lead = enrich.Percentiles{P10: 200 * time.Millisecond, P50: time.Second, P90: 10 * time.Second}
	})
	// lead 200: .3·100+.4·200+.3·200 = 170; lead 1000: .3·100+.4·400+.3·1000 = 490; lead 10000:
	// 790
	want := 0.3*170 + 0.4*490 + 0.3*790
	if s := pick(candidates{c}, options(nil)); len(s.chosen) != 1 || math.Abs(s.all[s.chosen[0]].Value-want) > 1e-9 {
		t.Errorf("got %+v, want a value of %v", s, want)
	}
}

func TestLeadDefaultsToThink(t *testing.T) {
	slow := likely("a", 1, func(c *candidate) { c.Latency = enrich.Fixed(time.Hour) })
	s := pick(candidates{slow}, options(nil))
	if got := s.all[s.chosen[0]].Value; math.Abs(got-3000) > 1e-6 {
		t.Errorf("got %v, want 3000", got)
	}
}

func TestPickIsRepeatable(t *testing.T) {
	all := many(64)
	want := outcome(pick(all, options(nil)))
	for range 20 {
		if diff := cmp.Diff(want, outcome(pick(all, options(nil)))); diff != "" {
			t.Fatalf("-first +again:\n%s", diff)
		}
	}
}
