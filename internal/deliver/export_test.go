package deliver

import "mcpschedd/internal/valuemodel"

// Trim leaves fields out of a text as [Inline] does, and tells which patterns met
// one.
func Trim(text string, m *valuemodel.Model, keywords []string) (string, []string) {
	c := cutter(m, valuemodel.IntentOf(keywords))
	return c.trim(text), c.dropped
}
