package valuemodel

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Binding is the source of the value of a follow-up's argument.
type Binding struct {
	From   From
	Path   []Step // from the root of the arguments or result
	Value  any    // of a constant, as decoded by encoding/json, or an integer
	Source any    // the value that [ParseBinding] parsed
}

// From is the kind of source that a binding reads.
type From string

const (
	Constant From = ""       // the binding's own value
	Args     From = "args"   // the arguments of the preceding call
	Result   From = "result" // the JSON result of the preceding call
)

// Step descends one level, or any number of levels if Deep.
type Step struct {
	Name  string // member of an object; "" for elements of an array
	Index int    // index of the element
	All   bool   // every element
	Deep  bool   // every member of that name at any depth
}

// ParseBinding parses a value of the configuration: "$args.owner",
// "$result.items[*].number", `$args["odd.name"][0]`, "$result..iid" for a member
// at any depth, "$$args" for the literal text "$args"; anything else is a constant.
func ParseBinding(value any) (Binding, error) {
	s, ok := value.(string)
	switch {
	case !ok:
		return Binding{Value: value, Source: value}, checkConstant(value)
	case strings.HasPrefix(s, "$$"):
		return Binding{Value: s[1:], Source: s}, nil
	case !isReference(s):
		return Binding{Value: s, Source: s}, nil
	}
	for _, from := range []From{Args, Result} {
		if rest, ok := strings.CutPrefix(s, "$"+string(from)); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			path, err := parsePath(s, len(s)-len(rest))
			return Binding{From: from, Path: path, Source: s}, err
		}
	}
	return Binding{}, fmt.Errorf("binding %q: want $args or $result, or $$ for a literal $", s)
}

// UnmarshalTOML parses a binding of the configuration or the built-in tables.
func (b *Binding) UnmarshalTOML(value any) (err error) {
	*b, err = ParseBinding(value)
	return err
}

// isReference reports whether a text looks like a reference; "$5" is a price.
func isReference(s string) bool {
	return len(s) > 1 && s[0] == '$' && (s[1]|0x20 >= 'a' && s[1]|0x20 <= 'z')
}

var nested = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"\$[A-Za-z][^"]*"`) })

// checkConstant returns an error if a constant is not a JSON value, or contains text that
// looks like a reference, which is only resolved if it is the whole value.
func checkConstant(value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("binding %v: want a reference or a JSON value", value)
	}
	if found := nested().Find(text); found != nil {
		return fmt.Errorf("binding %s: a reference must be the whole value of the argument", found)
	}
	return nil
}

// stepForm matches one step of a reference.
var stepForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:(\.\.?)([^.\[\]]+)|(\.\.)?\[("(?:[^"\\]|\\.)+")\]|\[([0-9]{1,9})\]|\[(\*)\])`)
})

// parsePath parses the steps of a reference from an offset on.
func parsePath(text string, from int) (path []Step, err error) {
	for at := from; at < len(text); {
		m := stepForm().FindStringSubmatch(text[at:])
		step := Step{}
		if m != nil {
			step = Step{Name: m[2], Deep: m[1] == ".." || m[3] == "..", All: m[6] != ""}
			step.Index, _ = strconv.Atoi(cmp.Or(m[5], "0")) // matched as digits
		}
		if m == nil || m[4] != "" && json.Unmarshal([]byte(m[4]), &step.Name) != nil {
			return nil, fmt.Errorf(`binding %q: position %d: want .name, ..name, [0], [*] or ["name"]`, text, at+1)
		}
		path = append(path, step)
		at += len(m[0])
	}
	return path, nil
}

// String returns the binding as written in the configuration.
func (b Binding) String() string {
	if s, ok := b.Source.(string); ok {
		return s
	}
	text, _ := json.Marshal(b.Source) // [ParseBinding] returned an error if it cannot be marshalled
	return string(text)
}

// MarshalJSON returns the value as written in the configuration.
func (b Binding) MarshalJSON() ([]byte, error) { return json.Marshal(b.Source) }
