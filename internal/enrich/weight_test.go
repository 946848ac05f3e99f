package enrich_test

import (
	"math"
	"testing"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/valuemodel"
)

// alone returns a candidate after it was the only one to choose from. It must be chosen.
func alone(t *testing.T, c candidate, change func(*enrich.Options)) candidate {
	t.Helper()
	s := pick(candidates{c}, options(func(o *enrich.Options) {
		o.Budget = math.MaxInt
		if change != nil {
			change(o)
		}
	}))
	if len(s.chosen) != 1 {
		t.Fatalf("got %v", outcome(s))
	}
	return s.all[s.chosen[0]]
}

// The value is the hidden time, 0.5 · 400 ms, times the weight of the tool's class.
func TestValue(t *testing.T) {
	class := func(v valuemodel.ValueClass) func(*candidate) {
		return func(c *candidate) { c.Model = reading(func(m *model) { m.ValueClass = v }) }
	}
	tests := []struct {
		name   string
		change func(*candidate)
		want   float64
	}{
		{"critical", class(valuemodel.Critical), 200},
		{"supporting", class(valuemodel.Supporting), 100},
		{"optional", class(valuemodel.Optional), 40},
		{"audit only", class(valuemodel.AuditOnly), 40},
		{"no class", class(""), 40},
		{"more than certain", func(c *candidate) { c.P = 7 }, 400},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := alone(t, likely("a", 0.5, tt.change), nil).Value; math.Abs(got-tt.want) > 1e-9 {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// If results only go into the cache, candidates are ranked by expected net gain, not by the class
// of their tool.
func TestSilent(t *testing.T) {
	class := func(v valuemodel.ValueClass) func(*candidate) {
		return func(c *candidate) { c.Model = reading(func(m *model) { m.ValueClass = v }) }
	}
	all := candidates{likely("a", 0.35, class(valuemodel.Critical)), likely("b", 0.6, class(valuemodel.Supporting))}
	for silent, want := range map[bool][]string{true: {"1", "0 cap"}, false: {"0", "1 cap"}} {
		expect(t, pick(all, options(func(o *enrich.Options) { o.Slots, o.Silent = 1, silent })), want...)
	}
}

func TestIntent(t *testing.T) {
	groups := map[string]valuemodel.FieldGroup{
		"snippet": {Fields: []string{"items.snippet", "*_url"}, EstimatedValue: new(0.4), DefaultInclude: new(false)},
		"dom":     {Fields: []string{"fullDOM"}, EstimatedValue: new(0.7), DefaultInclude: new(false)},
		"raw":     {Fields: []string{"raw", "html"}, EstimatedValue: new(0.9), DefaultInclude: new(false)},
		"must":    {Fields: []string{"title"}, EstimatedValue: new(1.0), DefaultInclude: new(true)},
		"unset":   {Fields: []string{"body"}, EstimatedValue: new(1.0)},
		"axis":    {Fields: []string{"x"}, EstimatedValue: new(0.3), DefaultInclude: new(false)},
		"no_sum":  {Fields: []string{"score"}, DefaultInclude: new(false)},
	}
	c := likely("a", 0.5, func(c *candidate) { c.Model = reading(func(m *model) { m.FieldGroups = groups }) })
	tests := []struct {
		name     string
		keywords []string
		want     float64 // factor by which the intent raises the value
	}{
		{"none", nil, 1},
		{"one that names nothing", []string{"retry", "logic"}, 1},
		{"a field", []string{"snippet"}, 1.4},
		{"in the plural, in another case, in a sentence", []string{"Snippets about retry logic"}, 1.4},
		{"a word of a field", []string{"dom"}, 1.7},
		{"a word of a glob", []string{"URL"}, 1.4},
		{"two fields of one group count once", []string{"snippet", "url"}, 1.4},
		{"two groups", []string{"snippet", "dom"}, 2.1},
		{"at most 2.5", []string{"snippet", "dom", "html"}, 2.5},
		{"what is included anyway", []string{"title"}, 1},
		{"what is not said to be opt-in", []string{"body"}, 1},
		{"what has no value", []string{"score"}, 1},
		{"a single letter", []string{"x"}, 1},
		{"part of a word is another word", []string{"curl", "omit", "ur"}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := alone(t, c, func(o *enrich.Options) { o.Keywords = tt.keywords }).Value / 200
			if math.Abs(got-tt.want) > 1e-9 {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestIntentDecidesBetweenBets(t *testing.T) {
	search := likely("search", 0.5, func(c *candidate) {
		c.Model = reading(func(m *model) {
			m.FieldGroups = map[string]valuemodel.FieldGroup{"snippet": {Fields: []string{"snippet"}, EstimatedValue: new(0.4), DefaultInclude: new(false)}}
		})
	})
	all := candidates{likely("other", 0.6, nil), search}
	expect(t, pick(all, options(nil)), "0", "1")
	expect(t, pick(all, options(func(o *enrich.Options) { o.Keywords = []string{"snippets"} })), "1", "0")
}

func TestTokens(t *testing.T) {
	cost := func(typical, most float64, bytes int) func(*candidate) {
		return func(c *candidate) {
			c.Bytes = bytes
			c.Model = reading(func(m *model) { m.Cost.TypicalKB, m.Cost.MaxKB = typical, most })
		}
	}
	tests := []struct {
		name   string
		change func(*candidate)
		want   int
	}{
		{"the 90th percentile, not the median", cost(1, 0, 8000), 2050},
		{"twice the median where that is all", cost(2, 0, 0), 50 + 1024},
		{"the most where that is all", cost(0, 8, 0), 50 + 2048},
		{"nothing is known", cost(0, 0, 0), 50},
		{"no more than what is let through", cost(1, 8, 1<<20), 50 + 2048},
		{"nor is anything else", cost(1, 4, 8000), 50 + 1024},
		{"beyond all measure", cost(math.Inf(1), 0, 0), 50 + 1e9},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := alone(t, likely("a", 0.9, tt.change), nil)
			if got.Tokens != tt.want {
				t.Errorf("got %d, want %d", got.Tokens, tt.want)
			}
		})
	}
}

// With MaxTokens a large result counts for at most that many tokens, so that it can be chosen in
// spite of its size.
func TestWhole(t *testing.T) {
	large := candidates{likely("large", 0.9, func(c *enrich.Candidate) { c.Bytes = 1 << 20 })}
	pick := func(budget, whole int) selection {
		return pick(large, options(func(o *enrich.Options) { o.Budget, o.MaxTokens = budget, whole }))
	}
	expect(t, pick(1000, 0), "0 budget")
	expect(t, pick(1000, 1000), "0")
	expect(t, pick(999, 1000), "0 budget") // as after other results have used part of the budget
}
