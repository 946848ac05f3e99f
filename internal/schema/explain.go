package schema

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// WrongType is a value of a type that the schema does not want there.
type WrongType struct {
	Member string   // of the arguments
	Want   []string // types as JSON Schema calls them
	line   string
}

func (w *WrongType) Error() string { return w.line }

// Wants reports whether a value of a type might be what is wanted. Of a number it
// does, too, where that has to be whole.
func (w *WrongType) Wants(kind string) bool {
	return slices.Contains(w.Want, kind) || kind == "number" && slices.Contains(w.Want, "integer")
}

// explain makes one line of what the validator found in a value: of the first
// fault in the order of their places. whole is what the value is called.
func explain(err error, value any, whole string) error {
	if err == nil {
		return nil
	}
	found, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return fmt.Errorf("%s: %s", whole, short(err.Error()))
	}
	all := collected(found, value, whole, 1)
	least := all[0]
	line := least.String()
	if len(least.want) > 0 && len(least.Path) == 1 {
		return &WrongType{Member: least.Path[0], Want: least.want, line: line}
	}
	return errors.New(line)
}

// oneLine does the same for what is wrong with a schema.
func oneLine(err error, doc any) error {
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		return explain(invalid.Err, doc, "root")
	}
	return errors.New(short(err.Error()))
}

// others are the types of the values that one has to be among, if it has none of
// them.
func others(got any, want []any) []string {
	var types []string
	for _, v := range want {
		switch t := nameOf(v); {
		case t == nameOf(got):
			return nil
		case !slices.Contains(types, t):
			types = append(types, t)
		}
	}
	return types
}

// limit says what a single value had to be.
func limit(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.FalseSchema:
		return "not allowed"
	case *kind.Not:
		return "is what it may not be"
	case *kind.Format: // of a schema: those of arguments are not looked at
		return "want a valid " + k.Want
	case *kind.AdditionalItems:
		return fmt.Sprintf("%d elements too many", k.Count)
	case *kind.Enum:
		return "want " + oneOf(k.Want)
	case *kind.Const:
		return "want " + oneOf([]any{k.Want})
	case *kind.Pattern:
		return "does not match " + quoted(k.Want)
	case *kind.Minimum:
		return "want at least " + k.Want.RatString()
	case *kind.Maximum:
		return "want at most " + k.Want.RatString()
	case *kind.ExclusiveMinimum:
		return "want more than " + k.Want.RatString()
	case *kind.ExclusiveMaximum:
		return "want less than " + k.Want.RatString()
	case *kind.MultipleOf:
		return "want a multiple of " + k.Want.RatString()
	case *kind.MinLength:
		return fmt.Sprintf("want at least %d characters, have %d", k.Want, k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("want at most %d characters, have %d", k.Want, k.Got)
	case *kind.MinItems:
		return fmt.Sprintf("want at least %d elements, have %d", k.Want, k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("want at most %d elements, have %d", k.Want, k.Got)
	case *kind.MinProperties:
		return fmt.Sprintf("want at least %d members, have %d", k.Want, k.Got)
	case *kind.MaxProperties:
		return fmt.Sprintf("want at most %d members, have %d", k.Want, k.Got)
	case *kind.UniqueItems:
		return fmt.Sprintf("elements %d and %d are equal", k.Duplicates[0], k.Duplicates[1])
	}
	return "does not hold to " + strings.Join(k.KeywordPath(), "/")
}

// oneOf lists the values of an enum, as far as they are few.
func oneOf(want []any) string {
	const most = 6
	var all []string
	for _, v := range want[:min(len(want), most)] {
		switch v := v.(type) {
		case string:
			all = append(all, quoted(v))
		case nil:
			all = append(all, "null")
		case map[string]any, []any:
			all = append(all, "a certain "+nameOf(v))
		default:
			all = append(all, fmt.Sprint(v))
		}
	}
	text := strings.Join(all, ", ")
	if len(want) > most {
		text += ", …"
	}
	if len(want) > 1 {
		return "one of " + text
	}
	return text
}

// path writes where in the value something is: labels[2].name.
func path(at []string, value any, whole string) string {
	if len(at) == 0 {
		return whole
	}
	var b strings.Builder
	for _, step := range at {
		switch v := value.(type) {
		case []any:
			b.WriteString("[" + step + "]")
			value = nil
			if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(v) {
				value = v[i]
			}
			continue
		case map[string]any:
			value = v[step]
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(plain(step))
	}
	return short(b.String())
}

// plain is a name as it is if it can be misread for nothing else, and quoted
// otherwise.
func plain(name string) string {
	for _, c := range []byte(name) {
		if c != '_' && c != '-' && c != '$' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return quoted(name)
		}
	}
	if name == "" || len(name) > 60 {
		return quoted(name)
	}
	return name
}

// quoted is a piece of a stranger's text, of a bounded length and in one line.
func quoted(s string) string {
	const most = 60
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strconv.Quote(s)
}

// short bounds a line.
func short(s string) string {
	const most = 240
	s = strings.ReplaceAll(s, "\n", " ")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
