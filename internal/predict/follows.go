package predict

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"mcpschedd/internal/valuemodel"
)

// Follow is a follow-up that was learned, in the words of the configuration.
type LearnedFollowUp struct {
	Trigger, Tool string
	Args          map[string]any // argument → "$args.owner", "$result.items[*].number", or a constant
	Ranks         []Count        // by the place in the list that its arguments come from
}

// Count is what came of candidates that were looked at in the turn after the call
// that they follow, newer ones counting more.
type Count struct {
	Right float64 // those that were asked for
	Of    float64 // all of them
}

// Follows are the follow-ups that a state holds, as far as they can be said in the
// words of the configuration: that knows no last element, no joined paths,
// no values of earlier calls and of texts, and no failed calls.
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

// counts are the outcomes of a template's candidates, by their ranks.
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

// configured are the arguments of a template as the configuration has them: scalars or
// references, by name.
func (t *template) configuredArgs() (map[string]any, bool) {
	if strings.HasSuffix(t.Trigger, "!") {
		return nil, false
	}
	args := map[string]any{}
	d := parse([]byte(strings.Join(t.Pieces, "0"))) // each argument is a 0
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

// configured is a source as the configuration has it.
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
