package valuemodel

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Binding says where the value of a follow-up's argument comes from.
type Binding struct {
	From    From
	Path    []Step // from the whole arguments, result or text down
	Value   any    // of a constant: what encoding/json makes of JSON, or integers
	Written any    // what [ParseBinding] read it from
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
		return Binding{Value: value, Written: value}, fixed(value)
	case strings.HasPrefix(s, "$$"):
		return Binding{Value: s[1:], Written: s}, nil
	case !reference(s):
		return Binding{Value: s, Written: s}, nil
	}
	for _, from := range []From{Args, Result, Text} {
		if rest, ok := strings.CutPrefix(s, "$"+string(from)); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			path, err := stepsOf(s, len(s)-len(rest))
			return Binding{From: from, Path: path, Written: s}, err
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

// stepForm is one step of a reference.
var stepForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:(\.\.?)([^.\[\]]+)|(\.\.)?\[("(?:[^"\\]|\\.)+")\]|\[([0-9]{1,9})\]|\[(\*)(?:<=0*([1-9][0-9]{0,8}))?\])`)
})

// stepsOf reads the steps that a text has behind its first bytes.
func stepsOf(text string, from int) (path []Step, err error) {
	for at := from; at < len(text); {
		m := stepForm().FindStringSubmatch(text[at:])
		step := Step{}
		if m != nil {
			step = Step{Name: m[2], Deep: m[1] == ".." || m[3] == "..", All: m[6] != ""}
			step.Index, _ = strconv.Atoi(cmp.Or(m[5], "0")) // digits all
			step.Most, _ = strconv.Atoi(cmp.Or(m[7], "0"))
		}
		if m == nil || m[4] != "" && json.Unmarshal([]byte(m[4]), &step.Name) != nil {
			return nil, fmt.Errorf(`binding %q: position %d: want .name, ..name, [0], [*], [*<=3] or ["name"]`, text, at+1)
		}
		path = append(path, step)
		at += len(m[0])
	}
	return path, nil
}

// String is the binding as the configuration has it.
func (b Binding) String() string {
	if s, ok := b.Written.(string); ok {
		return s
	}
	text, err := json.Marshal(b.Written)
	if err != nil {
		return fmt.Sprint(b.Written)
	}
	return string(text)
}

// MarshalJSON gives what the configuration has.
func (b Binding) MarshalJSON() ([]byte, error) { return json.Marshal(b.Written) }

// same reports whether two bindings are written alike.
func (b Binding) same(c Binding) bool { return reflect.DeepEqual(b, c) }
