package predict

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"mcpschedd/internal/valuemodel"
)

// LearnedFollowUp is a learned follow-up in the form of the configuration.
type LearnedFollowUp struct {
	Trigger, Tool string
	Args          map[string]any // argument → "$args.owner", "$result.items[*].number", or a constant
	Ranks         []Count        // by index in the list that its arguments come from
}

// Count counts the candidates evaluated in the turn after the call that they follow. Newer
// ones have more weight.
type Count struct {
	Right float64 // candidates that the client called
	Of    float64 // all candidates
}

// LearnedFollowUps returns the follow-ups of a state that the configuration can express. It
// has no last element, no joined paths, no values of earlier calls or of texts, and no
// failed calls.
func LearnedFollowUps(stored State) ([]LearnedFollowUp, error) {
	m := newState()
	err := m.load(stored)
	var out []LearnedFollowUp
	for _, trigger := range slices.Sorted(maps.Keys(m.templates)) {
		for _, t := range m.templates[trigger] {
			if args, ok := t.configuredArgs(); ok {
				out = append(out, LearnedFollowUp{t.Trigger, t.Target, args, t.counts()})
			}
		}
	}
	return out, err
}

// counts returns the outcomes of a template's candidates by rank.
func (t *template) counts() []Count {
	most := 1
	if t.Driver >= 0 {
		most = min(t.Deepest+1, len(t.ranks))
	}
	var out []Count
	for _, o := range t.ranks[:most] {
		out = append(out, Count{float64(o.Right.Now), float64(o.Of.Now)})
	}
	return out
}

// configuredArgs returns the arguments of a template in the form of the configuration:
// scalars or references by name.
func (t *template) configuredArgs() (map[string]any, bool) {
	if strings.HasSuffix(t.Trigger, "!") {
		return nil, false
	}
	args := map[string]any{}
	d := parse([]byte(strings.Join(t.Pieces, "0"))) // with 0 for each argument
	for i := range d.nodes[1:] {
		n, source := &d.nodes[i+1], len(args)
		if n.parent != 0 || n.kind != number || source >= len(t.Sources) {
			return nil, false
		}
		v, ok := t.Sources[source].configured()
		if !ok {
			return nil, false
		}
		args[string(n.name)] = v
	}
	return args, true
}

// configured returns a source in the form of the configuration.
func (s *valueSource) configured() (any, bool) {
	path := s.Name
	switch {
	case s.Dir != 0 || s.Plus != "":
		return nil, false
	case s.From == fromConstant && s.Value.kind == text:
		if strings.HasPrefix(s.Value.text, "$") {
			return "$" + s.Value.text, true
		}
		return s.Value.text, true
	case s.From == fromConstant:
		return json.RawMessage(s.Value.text), true
	case s.From == fromArgument:
		path = "$args." + path
	case s.From == fromResult && strings.HasPrefix(path, "$"):
		many := strings.Count(path, "[*]")
		if s.Pick == last || s.Pick == first && many > 1 {
			return nil, false
		}
		if s.Pick == first {
			path = strings.Replace(path, "[*]", "[0]", 1)
		}
		path = "$result" + path[1:]
	default:
		return nil, false
	}
	_, err := valuemodel.ParseBinding(path)
	return path, err == nil && !strings.ContainsAny(strings.ReplaceAll(path, "[*]", ""), "{*")
}
