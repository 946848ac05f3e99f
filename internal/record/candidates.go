package record

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"mcpschedd/internal/excerpt"
)

// withDiffers returns a copy of a decision's candidates with Differs set: the arguments in which
// candidates of the same tool differ.
func (l *Log) withDiffers(top []Candidate) []Candidate {
	top = slices.Clone(top)
	arguments := make([]map[string]json.RawMessage, len(top))
	for i := range top {
		if raw := top[i].RawArguments; len(raw) > 0 && len(raw) <= maxArguments {
			_ = json.Unmarshal(l.o.Scrub(raw), &arguments[i]) // anything but an object has no names
		}
		top[i].RawArguments, top[i].Tool = nil, excerpt.Shorten(top[i].Tool, maxName)
	}
	for i := range top {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(arguments[i])) {
			value := arguments[i][name]
			differs := false
			for j := range top {
				differs = differs || top[j].Tool == top[i].Tool && !bytes.Equal(arguments[j][name], value)
			}
			switch {
			case differs && l.full.Load():
				parts = append(parts, name+" = "+excerpt.Shorten(string(value), 60))
			case differs:
				parts = append(parts, name)
			}
		}
		top[i].Differs = excerpt.Shorten(strings.Join(parts, ", "), maxName)
	}
	return top
}
