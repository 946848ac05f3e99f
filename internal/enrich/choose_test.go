package enrich_test

import (
	"testing"
	"time"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/valuemodel"
)

func both(a, b func(*candidate)) func(*candidate) {
	return func(c *candidate) { a(c); b(c) }
}

func lasting(d time.Duration) func(*candidate) {
	return func(c *candidate) { c.Latency = enrich.Fixed(d) }
}

func sized(tokens int) func(*candidate) {
	return func(c *candidate) { c.Bytes = (tokens - 50) * 4 }
}

// The slots are part of the choice. If calls were chosen by value per token and the list cut at
// the number of slots, many small calls would displace the valuable large one.
func TestSlotsArePartOfTheChoice(t *testing.T) {
	all := candidates{likely("dear", 0.9, both(sized(7000), lasting(3*time.Second)))}
	for i := range 20 {
		all = append(all, likely("small", 0.9, both(sized(60), func(c *candidate) {
			c.Key.Arguments = string(rune('a' + i))
			c.Latency = enrich.Fixed(100 * time.Millisecond)
		})))
	}
	s := pick(all, options(nil))
	if len(s.chosen) != 3 || s.chosen[0] != 0 || s.tokens() != 7120 {
		t.Errorf("got %+v", s)
	}
}

// Each call of a follow-up with many calls counts towards the budget.
func TestEveryCallOfALinkIsPaidFor(t *testing.T) {
	var all candidates
	for _, a := range []string{"1", "2", "3"} {
		all = append(all, likely("read", 0.5, both(sized(3000), func(c *candidate) { c.Key.Arguments = a })))
	}
	s := pick(all, options(nil))
	expect(t, s, "0", "1", "2 budget")
	if s.tokens() != 6000 {
		t.Errorf("got %d tokens, want 6000", s.tokens())
	}
}

func TestAuditOnlyIsFree(t *testing.T) {
	audit := func(c *candidate) {
		c.Model = reading(func(m *model) { m.ValueClass = valuemodel.AuditOnly })
		c.Bytes = 1 << 20
	}
	s := pick(candidates{likely("todo", 0.9, audit), likely("a", 0.5, nil)}, options(func(o *enrich.Options) { o.Budget = 0 }))
	expect(t, s, "0", "1 budget")
	if s.all[s.chosen[0]].Tokens != 0 {
		t.Errorf("got %+v", s)
	}
	// It costs no tokens, but a wasted call still costs.
	s = pick(candidates{likely("todo", 0.3, both(audit, lasting(time.Millisecond)))}, options(nil))
	expect(t, s, "0 gate")
}
