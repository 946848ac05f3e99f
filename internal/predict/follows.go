package predict

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Follow is a follow-up that was learned, in the words of the configuration.
type Follow struct {
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
// words of the configuration: that knows no last element, no sums, no joined paths,
// no values of earlier calls and of texts, and no failed calls.
func Follows(stored []byte) ([]Follow, error) {
	m := newState()
	err := m.load(stored)
	var out []Follow
	for _, trigger := range slices.Sorted(maps.Keys(m.templates)) {
		for _, t := range m.templates[trigger] {
			if args, ok := t.configured(); ok {
				out = append(out, Follow{t.Trigger, t.Target, args, t.counts()})
			}
		}
	}
	return out, err
}

// counts are the outcomes of a template's candidates, by their ranks.
func (t *template) counts() []Count {
	most := 1
	if t.Driver >= 0 {
		most = min(t.Deepest+1, len(t.Ranks))
	}
	var out []Count
	for _, o := range t.Ranks[:most] {
		out = append(out, Count{float64(o.Right.now), float64(o.Of.now)})
	}
	return out
}

// configured are the arguments of a template as the configuration has them.
func (t *template) configured() (map[string]any, bool) {
	if strings.HasSuffix(t.Trigger, "!") {
		return nil, false
	}
	var b strings.Builder
	for i := range t.Sources {
		v, ok := t.Sources[i].configured()
		if !ok {
			return nil, false
		}
		value, err := json.Marshal(v)
		if err != nil {
			return nil, false
		}
		b.WriteString(t.Pieces[i])
		b.Write(value)
	}
	b.WriteString(t.Pieces[len(t.Pieces)-1])
	var args map[string]any
	d := json.NewDecoder(strings.NewReader(b.String()))
	d.UseNumber()
	if d.Decode(&args) != nil {
		return nil, false
	}
	for _, v := range args { // a reference must be the whole value of an argument
		switch v.(type) {
		case map[string]any, []any:
			return nil, false
		}
	}
	return args, true
}

// configured is a source as the configuration has it.
func (s *valueSource) configured() (any, bool) {
	if s.Dir != 0 || s.Cut != "" || s.Add != "" || s.Plus != "" {
		return nil, false
	}
	switch {
	case s.From == fromConstant && s.Value.kind == text:
		if strings.HasPrefix(s.Value.text, "$") {
			return "$" + s.Value.text, true
		}
		return s.Value.text, true
	case s.From == fromConstant:
		return json.RawMessage(s.Value.text), true
	case s.From == fromArgument && plainPath(s.Name):
		return "$args." + s.Name, true
	case s.From == fromResult && strings.HasPrefix(s.Name, "$") && plainPath(s.Name[1:]):
		path := "$result" + s.Name[1:]
		switch many := strings.Count(path, "[*]"); {
		case s.Pick == every || s.Pick == beside || s.Pick == first && many == 0:
			return path, true
		case s.Pick == first && many == 1:
			return strings.Replace(path, "[*]", "[0]", 1), true
		}
	}
	return nil, false
}

// plainPath reports whether a path reads the same in the configuration: its names
// have no characters that mean something there, or here.
func plainPath(path string) bool {
	path = strings.ReplaceAll(path, "[*]", "")
	for _, c := range path {
		if !(c == '_' || c == '-' || c == '.' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z') {
			return false
		}
	}
	return !strings.Contains(path, "..") && !strings.HasSuffix(path, ".")
}
