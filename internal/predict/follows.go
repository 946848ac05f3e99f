package predict

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/valuemodel"
)

// LearnedFollowUp is a learned follow-up in the form of the configuration.
type LearnedFollowUp struct {
	Trigger, Tool string
	Args          map[string]any // argument → "$args.owner", "$result.items[*].number", or a constant
	Ranks         []Count        // by index in the list that its arguments come from
}

// Count counts the candidates scored before the turn after the call that they follow. Newer
// ones have more weight.
type Count struct {
	Right float32 // candidates that the client called while a prefetched result could be served
	Of    float32 // all candidates
}

func (s *Count) add(hit bool) {
	s.Right *= decay
	s.Of = s.Of*decay + 1
	if hit {
		s.Right++
	}
}

// LearnedFollowUps returns the learned follow-ups, without private values, that the configuration
// can express. It has no joined paths, no values of texts, and no failed calls.
func (m *Model) LearnedFollowUps() (out []LearnedFollowUp) {
	for _, trigger := range slices.Sorted(maps.Keys(m.learned.templates)) {
		for _, t := range m.learned.templates[trigger] {
			if args, ok := t.configuredArgs(); ok && m.learned.persistent(t) {
				ranks := 1
				if t.Driver >= 0 {
					ranks = min(t.Deepest+1, len(t.Ranks))
				}
				out = append(out, LearnedFollowUp{t.Trigger, t.Target, args, slices.Clone(t.Ranks[:ranks])})
			}
		}
	}
	return out
}

// configuredArgs returns the arguments of a template in the form of the configuration:
// scalars or references by name.
func (t *template) configuredArgs() (map[string]any, bool) {
	if strings.HasSuffix(t.Trigger, "!") {
		return nil, false
	}
	args, plain := map[string]any{}, []byte{'{'}
	for i, name := range t.Names {
		v, ok := t.Sources[i].configured()
		if !ok {
			return nil, false
		}
		args[name] = v
		if i > 0 {
			plain = append(plain, ',')
		}
		plain = append(append(jsonrpc.AppendString(plain, name), ':'), '0')
	}
	return args, strings.Join(t.Pieces, "0") == string(append(plain, '}')) // no argument is nested
}

// configured returns a source in the form of the configuration.
func (s *valueSource) configured() (any, bool) {
	path := s.Name
	switch {
	case s.Dir != 0:
		return nil, false
	case s.From == fromConstant && s.Value.Kind == text:
		if strings.HasPrefix(s.Value.Text, "$") {
			return "$" + s.Value.Text, true
		}
		return s.Value.Text, true
	case s.From == fromConstant:
		return json.RawMessage(s.Value.Text), s.Value.Text != "null" // TOML has no null
	case s.From == fromArgument:
		path = "$args." + path
	case s.From == fromResult && strings.HasPrefix(path, "$"):
		path = "$result" + path[1:]
	default:
		return nil, false
	}
	_, err := valuemodel.ParseBinding(path)
	return path, err == nil && !strings.ContainsAny(strings.ReplaceAll(path, "[*]", ""), "{*")
}
