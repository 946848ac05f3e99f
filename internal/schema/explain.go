package schema

import (
	"cmp"
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

// fault is one thing that is wrong.
type fault struct {
	at   []string // names and indexes from the outermost value on
	text string
	want []string // the types that it may have, where it has another
}

// explain makes one line of what the validator found in a value: of the first
// fault in the order of their places, for the validator finds them in any order.
// whole is what the value is called.
func explain(err error, value any, whole string) error {
	if err == nil {
		return nil
	}
	found, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return fmt.Errorf("%s: %s", whole, short(err.Error()))
	}
	all := faults(nil, found)
	if len(all) == 0 {
		return fmt.Errorf("%s: not what it has to be", whole)
	}
	least := slices.MinFunc(all, func(a, b fault) int {
		return cmp.Or(slices.Compare(a.at, b.at), cmp.Compare(a.text, b.text))
	})
	line := path(least.at, value, whole) + ": " + short(least.text)
	if len(least.want) > 0 && len(least.at) == 1 {
		return &WrongType{Member: least.at[0], Want: least.want, line: line}
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

// faults takes what the validator found apart, and adds it to all.
func faults(all []fault, e *jsonschema.ValidationError) []fault {
	at := e.InstanceLocation
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		for _, cause := range e.Causes {
			all = faults(all, cause)
		}
		return all
	case *kind.AnyOf:
		return alternatives(all, e)
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			return append(all, fault{at: at, text: "fits more than one of the forms it may have"})
		}
		return alternatives(all, e)
	case *kind.Required:
		return first(all, at, k.Missing, "missing")
	case *kind.DependentRequired:
		return first(all, at, k.Missing, "missing beside "+quoted(k.Prop))
	case *kind.Dependency:
		return first(all, at, k.Missing, "missing beside "+quoted(k.Prop))
	case *kind.AdditionalProperties:
		return first(all, at, k.Properties, "not allowed")
	case *kind.PropertyNames:
		return append(all, fault{text: "a member may not be called " + quoted(k.Property)}) // its place is not to be relied on
	case *kind.Type:
		return append(all, mistyped(at, k.Want, k.Got))
	case *kind.Enum:
		return append(all, fault{at, limit(k), others(k.Got, k.Want)})
	case *kind.Const:
		return append(all, fault{at, limit(k), others(k.Got, []any{k.Want})})
	}
	return append(all, fault{at: at, text: limit(e.ErrorKind)})
}

func mistyped(at, want []string, have string) fault {
	return fault{at, fmt.Sprintf("want %s, have %s", strings.Join(want, " or "), have), want}
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

// alternatives explains a value that fits none of several schemas. Where all of
// them want another type, those are named; where all but one do, that one was
// meant.
func alternatives(all []fault, e *jsonschema.ValidationError) []fault {
	var want []string
	var meant []*jsonschema.ValidationError
	have := ""
	for _, cause := range e.Causes {
		if k, ok := cause.ErrorKind.(*kind.Type); ok && len(cause.InstanceLocation) == len(e.InstanceLocation) {
			want, have = append(want, k.Want...), k.Got
		} else {
			meant = append(meant, cause)
		}
	}
	switch {
	case len(meant) == 1:
		return faults(all, meant[0])
	case len(meant) == 0 && len(want) > 0:
		slices.Sort(want)
		return append(all, mistyped(e.InstanceLocation, slices.Compact(want), have))
	}
	return append(all, fault{at: e.InstanceLocation, text: fmt.Sprintf("fits none of the %d forms it may have", len(e.Causes))})
}

// first adds that of several members which would be told of.
func first(all []fault, at, names []string, text string) []fault {
	if len(names) == 0 {
		return all
	}
	return append(all, fault{at: append(slices.Clone(at), slices.Min(names)), text: text})
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
