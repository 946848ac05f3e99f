package telemetry

import (
	"fmt"
	"strings"
)

// readsToSay is how many reads there must be until it is worth a line that nothing was
// fetched ahead of any.
const readsToSay = 20

// whys say in words why a call that was thought of is not made early, and which key of
// the configuration has to do with it. Those of a reason that is no fault, such as that
// the answer was there, name none.
var whys = map[string]string{
	"unsteady":         "what they read may change without the proxy noticing: set remote = true for the upstream if it asks a service elsewhere, exclusive = true if nothing else changes it, or validate for tools that read a file",
	"not_speculatable": "nobody vouches that they only read: mcpschedd check --connect prints the lines to paste",
	"low_probability":  "less likely than min_probability",
	"gate":             "waste would weigh more than what they hide: waste_ms and second_worth_usd say what it weighs",
	"budget":           "too many tokens: prefetch_budget_tokens",
	"cap":              "too many at once: max_parallel_prefetches",
	"dollars":          "they cost money: max_dollars_per_session",
	"rate_limited":     "the pace of their host leaves no room: [limits]",
	"throttled":        "earlier guesses were wrong or did harm: it passes by itself",
	"stored":           "the answer was in the store",
	"in_flight":        "the answer was under way",
	"schema":           "the arguments are not what the tool takes: args of the follow_up",
	"origin":           "their arguments are another upstream's data, which must not travel",
	"disclosure":       "they would tell third parties: disclosure",
	"shadow":           `they are only watched: shadow_labels, or [enrichment] mode = "on"`,
}

// whyNone says why nothing was fetched ahead, by the largest two reasons.
func (s *Stats) whyNone() string {
	declined := s.Totals.Declined
	names := largest(declined)
	if len(names) == 0 {
		return `no call was thought of; nothing has been seen to follow, or [enrichment] mode is "off"`
	}
	var parts []string
	for _, name := range names[:min(len(names), 2)] {
		part := fmt.Sprintf("%d %s", declined[name], printable(name))
		if why, ok := whys[name]; ok {
			part += " (" + why + ")"
		}
		parts = append(parts, part)
	}
	return fmt.Sprintf("of %d calls thought of %s", sumOf(declined), strings.Join(parts, "; "))
}
