package record

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// told are the candidates of a choice, with what tells those of one tool apart.
func (l *Log) told(top []Decision) []Decision {
	top = slices.Clone(top)
	arguments := make([]map[string]json.RawMessage, len(top))
	for i := range top {
		raw := top[i].RawArguments
		if l.full.Load() && len(raw) > 0 {
			raw = l.scrub(raw)
		}
		if len(raw) <= maxArguments {
			_ = json.Unmarshal(raw, &arguments[i]) // what is none has no names
		}
		top[i].RawArguments = nil
	}
	for i := range top {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(arguments[i])) {
			differs := false
			for j := range top {
				differs = differs || top[j].Tool == top[i].Tool && !bytes.Equal(arguments[j][name], arguments[i][name])
			}
			switch {
			case differs && l.full.Load():
				parts = append(parts, name+" = "+cut(string(arguments[i][name]), 60))
			case differs:
				parts = append(parts, name)
			}
		}
		top[i].Differs = cut(strings.Join(parts, ", "), longest)
	}
	return top
}
