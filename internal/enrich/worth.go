package enrich

import (
	"maps"
	"slices"

	"mcpschedd/internal/valuemodel"
)

// ClassWorth is what an answer of a tool counts, and so a millisecond of waiting
// for it that is hidden, by value class. What is free still has to be worth
// something, or it would not be worth choosing.
func ClassWorth(c valuemodel.ValueClass) float64 {
	switch c {
	case valuemodel.Critical:
		return 1
	case valuemodel.Supporting:
		return 0.5
	}
	return 0.2 // optional, audit_only
}

// worth is what hiding a millisecond of the call counts. Use that is not known is
// taken to be even, and then counts for nothing.
func (c *Candidate) worth(boost float64) float64 {
	worth := ClassWorth(c.Model.ValueClass) * boost
	if c.Useful > 0 {
		worth *= 2 * min(c.Useful, 1)
	}
	return worth
}

// mostBoost bounds what intent may add.
const mostBoost = 2.5

// boost raises the worth of a tool by the field groups that only intent brings
// in, where a keyword names one of their fields.
func boost(m *valuemodel.Model, intent valuemodel.Intent) float64 {
	sum := 1.0
	if len(intent) == 0 {
		return sum
	}
	for _, name := range slices.Sorted(maps.Keys(m.FieldGroups)) { // sorted: a sum depends on its order
		g := m.FieldGroups[name]
		optIn := g.DefaultInclude != nil && !*g.DefaultInclude
		if optIn && g.EstimatedValue != nil && intent.Names(g) {
			sum += *g.EstimatedValue
		}
	}
	return min(sum, mostBoost)
}

const (
	callTokens    = 50 // of a call itself, beside its answer
	bytesPerToken = 4
	spread        = 2.0 // 90th percentile of an answer's size over its median, where only the median is known
	mostTokens    = 1e9 // of one call
)

// tokens is what the call's answer is expected to take: by its 90th percentile,
// for the budget is overrun by the large ones and not by the typical one. A file
// is as large as it is. What the model calls the most is where answers are cut.
func (c *Candidate) tokens(o *Options) int {
	if c.Model.ValueClass == valuemodel.AuditOnly {
		return 0
	}
	most := c.Model.Cost.MaxKB * 1024
	var bytes float64
	switch {
	case c.FileBytes > 0:
		bytes = float64(c.FileBytes)
	case c.Bytes > 0:
		bytes = float64(c.Bytes)
	case c.Model.Cost.TypicalKB > 0:
		bytes = c.Model.Cost.TypicalKB * 1024 * spread
	default:
		bytes = most
	}
	if most > 0 {
		bytes = min(bytes, most)
	}
	tokens := callTokens + int(min(bytes/bytesPerToken, mostTokens))
	if o.Whole > 0 {
		return min(tokens, o.Whole)
	}
	return tokens
}
