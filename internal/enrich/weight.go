package enrich

import (
	"maps"
	"slices"

	"mcpschedd/internal/valuemodel"
)

// ClassWeight returns how much a hidden millisecond counts for a tool of the value class.
// It is positive for every class, or Pick would never choose tools of that class.
func ClassWeight(c valuemodel.ValueClass) float64 {
	switch c {
	case valuemodel.Critical:
		return 1
	case valuemodel.Supporting:
		return 0.5
	}
	return 0.2 // optional, audit_only
}

// maxBoost bounds intentBoost.
const maxBoost = 2.5

// intentBoost returns the factor, 1 to maxBoost, by which the model's intent raises a
// tool's weight: each field group that is returned only on request adds its value if a
// keyword names one of its fields.
func intentBoost(m *valuemodel.Model, intent valuemodel.Intent) float64 {
	sum := 1.0
	if len(intent) == 0 {
		return sum
	}
	for _, name := range slices.Sorted(maps.Keys(m.FieldGroups)) { // a sum of floats depends on its order
		g := m.FieldGroups[name]
		optIn := g.DefaultInclude != nil && !*g.DefaultInclude
		if optIn && g.EstimatedValue != nil && intent.Matches(g) {
			sum += *g.EstimatedValue
		}
	}
	return min(sum, maxBoost)
}

const (
	callTokens    = 50 // of the call itself, without its result
	bytesPerToken = 4
	p90OverMedian = 2.0 // assumed ratio of result sizes if only the median is known
	maxTokens     = 1e9 // bounds the sum of any number of calls
)

// tokens returns the expected size of the call and its result; 0 if the value class says that the result
// costs no context. It uses the 90th percentile, as large results overrun a budget, not typical ones; for a
// call that reads a file, the file's size. A result is assumed to have at most the model's MaxKB.
func (c *Candidate) tokens(o *Options) int {
	if c.Model.ValueClass == valuemodel.AuditOnly {
		return 0
	}
	most := c.Model.Cost.MaxKB * 1024
	var bytes float64
	switch {
	case c.Bytes > 0:
		bytes = float64(c.Bytes)
	case c.Model.Cost.TypicalKB > 0:
		bytes = c.Model.Cost.TypicalKB * 1024 * p90OverMedian
	default:
		bytes = most
	}
	if most > 0 {
		bytes = min(bytes, most)
	}
	tokens := callTokens + int(min(bytes/bytesPerToken, maxTokens))
	if o.MaxTokens > 0 {
		return min(tokens, o.MaxTokens)
	}
	return tokens
}
