package valuemodel

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Binding says where the value of a follow-up's argument comes from.
type Binding struct {
	From  From
	Path  []Step // from the whole arguments, result or text down
	Value any    // of a constant: what encoding/json makes of JSON, or integers
}

// From is what a binding reads.
type From string

const (
	Constant From = ""       // its own value
	Args     From = "args"   // the arguments of the call that the next one follows
	Result   From = "result" // its result, which is JSON
	Text     From = "text"   // the text of its result, as an object of what it says: see [ParseBinding]
)

// Step goes one level down, or, if deep, to any level below.
type Step struct {
	Name  string // the member of an object; "": elements of an array
	Index int    // which element
	All   bool   // every element
	Most  int    // of All: none, if there are more elements than that; 0: however many there are
	Deep  bool   // every member of that name, however deep
}

// ParseBinding reads a value of the configuration: "$args.owner",
// "$result.items[*].number", `$args["odd.name"][0]`, "$result..iid" for a member
// at any depth, "$$args" for the text "$args"; anything else is a constant.
//
// "$result.items[*<=3].number" is for lists of at most three elements: of a longer
// one it reads none, as each of many is less likely to be wanted than each of few.
//
// Of a result that is plain text, "$text.lines[*]" are its lines, without white
// space around them and without empty ones, and "$text.paths[*]" those of its lines
// that are, or up to the first colon are, the path of a file, each path once: what
// commands such as grep and find write.
func ParseBinding(value any) (Binding, error) {
	s, ok := value.(string)
	switch {
	case !ok:
		err := fixed(value)
		return Binding{Value: value}, err
	case strings.HasPrefix(s, "$$"):
		return Binding{Value: s[1:]}, nil
	case !reference(s):
		return Binding{Value: s}, nil
	}
	for _, from := range []From{Args, Result, Text} {
		if rest, ok := strings.CutPrefix(s, "$"+string(from)); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			p := pathParser{text: s, at: len(s) - len(rest)}
			path, err := p.steps()
			return Binding{From: from, Path: path}, err
		}
	}
	return Binding{}, fmt.Errorf("binding %q: want $args, $result or $text, or $$ for a $ that is meant", s)
}

// ShortBinding reads the earlier format's projection: the name of a member
// wherever in the result it is.
func ShortBinding(projection string) (Binding, error) {
	b, err := ParseBinding("$result.." + projection)
	if err != nil {
		return Binding{}, fmt.Errorf("projection %q: want the name of a field of the answer", projection)
	}
	return b, nil
}

// reference reports whether a text looks like one: "$5" is a price.
func reference(s string) bool {
	return len(s) > 1 && s[0] == '$' && (s[1]|0x20 >= 'a' && s[1]|0x20 <= 'z')
}

// fixed reports what of a constant is no JSON, or looks like a reference that
// would not be followed there.
func fixed(value any) error {
	switch v := value.(type) {
	case nil, bool, int, int64, json.Number:
		return nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("binding %v: no such number in JSON", v)
		}
		return nil
	case string:
		if reference(v) {
			return fmt.Errorf("binding %q: a reference must be the whole value of the argument", v)
		}
		return nil
	case []any:
		for _, e := range v {
			if err := fixed(e); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if err := fixed(v[name]); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("binding %v: want a reference or a JSON value", value)
}

// pathParser reads the steps of a reference.
type pathParser struct {
	text string
	at   int // bytes read
}

func (p *pathParser) steps() ([]Step, error) {
	var path []Step
	for p.at < len(p.text) {
		step, err := p.step()
		if err != nil {
			return nil, err
		}
		path = append(path, step)
	}
	return path, nil
}

func (p *pathParser) step() (Step, error) {
	deep := p.skip("..")
	if !deep && !p.skip(".") {
		return p.bracket(false)
	}
	if deep && strings.HasPrefix(p.text[p.at:], "[") {
		return p.bracket(true)
	}
	name := p.text[p.at:]
	if end := strings.IndexAny(name, ".[]"); end >= 0 {
		name = name[:end]
	}
	if name == "" {
		return Step{}, p.want("a name")
	}
	p.at += len(name)
	return Step{Name: name, Deep: deep}, nil
}

// bracket reads [0], [*] or ["name"]; of a deep one only the last.
func (p *pathParser) bracket(deep bool) (Step, error) {
	if !p.skip("[") {
		return Step{}, p.want("., [ or the end")
	}
	inner, _, closed := strings.Cut(p.text[p.at:], "]")
	step := Step{Deep: deep}
	switch {
	case strings.HasPrefix(inner, `"`):
		quoted := json.NewDecoder(strings.NewReader(p.text[p.at:]))
		if quoted.Decode(&step.Name) != nil || step.Name == "" {
			return Step{}, p.want("a name in quotes")
		}
		p.at += int(quoted.InputOffset())
		closed = p.skip("]")
	case deep:
		return Step{}, p.want("a name")
	case strings.HasPrefix(inner, "*"):
		most, ok := atMost(inner)
		if !ok {
			return Step{}, p.want("*, or *<= and a number above 0")
		}
		step.All, step.Most = true, most
		p.at += len(inner) + len("]")
	default:
		n, err := strconv.ParseUint(inner, 10, 31)
		if err != nil {
			return Step{}, p.want("a number, * or a name in quotes")
		}
		step.Index = int(n)
		p.at += len(inner) + len("]")
	}
	if !closed {
		p.at = min(p.at, len(p.text))
		return Step{}, p.want("]")
	}
	return step, nil
}

// atMost reads "*" or "*<=3": 0 and 3.
func atMost(inner string) (most int, ok bool) {
	if inner == "*" {
		return 0, true
	}
	number, ok := strings.CutPrefix(inner, "*<=")
	n, err := strconv.ParseUint(number, 10, 31)
	return int(n), ok && err == nil && n > 0
}

func (p *pathParser) skip(prefix string) bool {
	if !strings.HasPrefix(p.text[p.at:], prefix) {
		return false
	}
	p.at += len(prefix)
	return true
}

func (p *pathParser) want(what string) error {
	return fmt.Errorf("binding %q: position %d: want %s", p.text, p.at+1, what)
}

// String is the binding as the configuration has it.
func (b Binding) String() string {
	if s, ok := b.written().(string); ok {
		return s
	}
	text, err := json.Marshal(b.Value)
	if err != nil {
		return fmt.Sprint(b.Value)
	}
	return string(text)
}

// MarshalJSON gives what the configuration has.
func (b Binding) MarshalJSON() ([]byte, error) { return json.Marshal(b.written()) }

// written is what [ParseBinding] reads the binding from.
func (b Binding) written() any {
	if b.From == Constant {
		if s, ok := b.Value.(string); ok && (reference(s) || strings.HasPrefix(s, "$$")) {
			return "$" + s
		}
		return b.Value
	}
	var out strings.Builder
	out.WriteString("$" + string(b.From))
	for _, s := range b.Path {
		out.WriteString(s.String())
	}
	return out.String()
}

// String is the step as it stands in a reference.
func (s Step) String() string {
	deep, dot := "", "."
	if s.Deep {
		deep, dot = "..", ".."
	}
	switch {
	case s.All && s.Most > 0:
		return "[*<=" + strconv.Itoa(s.Most) + "]"
	case s.All:
		return "[*]"
	case s.Name == "":
		return "[" + strconv.Itoa(s.Index) + "]"
	case !strings.ContainsAny(s.Name, ".[]"):
		return dot + s.Name
	}
	quoted, err := json.Marshal(s.Name)
	if err != nil {
		panic(err) // a string always marshals
	}
	return deep + "[" + string(quoted) + "]"
}

// same reports whether two bindings say the same.
func (b Binding) same(c Binding) bool { return reflect.DeepEqual(b, c) }
