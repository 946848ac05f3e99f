package schema

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"mcpschedd/internal/jsonrpc"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// maxFaults is how many things that are wrong with the same arguments are told.
const maxFaults = 20

// Fault is one thing that is wrong with arguments.
type Fault struct {
	Path    []string // names and indexes from the arguments on; none: the arguments themselves
	Message string   // what is wrong there, and what was wanted; values are not repeated in it
	place   string   // Path for a reader
	limit   string   // pointer into the schema to the keyword that the value does not hold to
}

// Error is the fault in one line that names the member.
func (f *Fault) Error() string { return f.place + ": " + f.Message }

// Faults is all that is wrong with arguments, where [Schema.Check] reports the first
// thing: at most 20 of them, in the order of their places. In arguments that are too
// much work to check it finds nothing wrong.
//
//	s.Faults([]byte(`{"owner": 7, "issue_number": "7"}`))
//	// issue_number: want integer, have string
//	// owner: want string, have number
func (s *Schema) Faults(arguments []byte) []Fault {
	value, effort, err := s.read(arguments)
	if err != nil {
		return []Fault{{Message: strings.TrimPrefix(err.Error(), "arguments: "), place: "arguments"}}
	}
	return s.affordable(value, effort, nil)
}

// affordable are the faults of a value, if looking for them is not too much work.
func (s *Schema) affordable(value any, effort int, open places) []Fault {
	if effort > maxPlanEffort {
		return nil
	}
	found, err := s.validate(value)
	if err != nil || found == nil {
		return nil
	}
	return s.faults(found, value, open, maxFaults)
}

// faults are what the validator found, which comes by it in any order: those whose
// places come first, as many as are asked for; at least one, unless some places are open.
func (s *Schema) faults(found *jsonschema.ValidationError, value any, open places, most int) []Fault {
	c := collector{open: open}
	c.collect(found)
	if len(c.all) == 0 && open == nil {
		c.add(nil, "not what it has to be")
	}
	order := func(a, b Fault) int {
		return cmp.Or(slices.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	}
	slices.SortFunc(c.all, order)
	c.all = slices.CompactFunc(c.all, func(a, b Fault) bool { return order(a, b) == 0 })
	c.all = c.all[:min(len(c.all), most)]
	for i := range c.all {
		f := &c.all[i]
		if f.limit != "" {
			f.Message += " " + string(jsonrpc.At(s.raw, f.limit)) // slow, so only of those that are told
		}
		f.place, f.Message = path(f.Path, value), short(f.Message)
	}
	return c.all
}

// invalid is in one line what is wrong with a schema.
func invalid(err error, doc any) error {
	wrong, ok := errors.AsType[*jsonschema.SchemaValidationError](err)
	found, known := errors.AsType[*jsonschema.ValidationError](err)
	if ok {
		found, known = errors.AsType[*jsonschema.ValidationError](wrong.Err)
	}
	if !known {
		return errors.New(short(err.Error()))
	}
	return &(&Schema{}).faults(found, doc, nil, 1)[0]
}

// collector takes what the validator found apart.
type collector struct {
	open places
	all  []Fault
}

func (c *collector) add(at []string, message string) {
	c.all = append(c.all, Fault{Path: at, Message: message})
}

func (c *collector) collect(e *jsonschema.ValidationError) {
	if c.open.decide(e) {
		return
	}
	at := e.InstanceLocation
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		for _, cause := range e.Causes {
			c.collect(cause)
		}
	case *kind.AnyOf:
		c.alternatives(e)
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			c.add(at, "fits more than one of the forms it may have")
		} else {
			c.alternatives(e)
		}
	case *kind.Required:
		c.members(at, k.Missing, "missing")
	case *kind.DependentRequired:
		c.members(at, k.Missing, "missing beside "+quoted(k.Prop))
	case *kind.Dependency:
		c.members(at, k.Missing, "missing beside "+quoted(k.Prop))
	case *kind.AdditionalProperties:
		c.members(at, k.Properties, "not allowed")
	case *kind.PropertyNames:
		c.add(nil, "a member may not be called "+quoted(k.Property)) // its place is not to be relied on
	case *kind.FalseSchema:
		c.add(at, "not allowed")
	case *kind.Type:
		c.mistyped(at, k.Want, k.Got)
	case *kind.Enum:
		const shown = 10
		list, _ := json.Marshal(k.Want[:min(len(k.Want), shown)])
		if len(k.Want) > shown {
			list = append(list[:len(list)-1], ",…]"...)
		}
		c.add(at, "want one of "+string(list))
	default:
		c.unheld(e)
	}
}

// unheld adds that a value does not hold to a keyword of the schema.
func (c *collector) unheld(e *jsonschema.ValidationError) {
	keyword := "not"
	if path := e.ErrorKind.KeywordPath(); len(path) > 0 {
		keyword = path[0]
	}
	_, fragment, _ := strings.Cut(e.SchemaURL, "#")
	pointer, _ := url.PathUnescape(fragment)
	c.all = append(c.all, Fault{Path: e.InstanceLocation, Message: "want " + keyword, limit: pointer + "/" + keyword})
}

func (c *collector) mistyped(at, want []string, have string) {
	c.add(at, fmt.Sprintf("want %s, have %s", strings.Join(want, " or "), have))
}

// alternatives explains a value that fits none of several schemas. Where all of
// them want another type, those are named; where all but one do, that one was
// meant.
func (c *collector) alternatives(e *jsonschema.ValidationError) {
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
		c.collect(meant[0])
	case len(meant) == 0 && len(want) > 0:
		slices.Sort(want)
		c.mistyped(e.InstanceLocation, slices.Compact(want), have)
	default:
		c.add(e.InstanceLocation, fmt.Sprintf("fits none of the %d forms it may have", len(e.Causes)))
	}
}

// members adds one fault for each of several members, as far as they would be told.
func (c *collector) members(at, names []string, message string) {
	names = slices.Sorted(slices.Values(names))
	for _, name := range names[:min(len(names), maxFaults)] {
		c.add(append(slices.Clone(at), name), message)
	}
}

// nameOf is what JSON Schema calls a value's type.
func nameOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}

// path writes where in the value something is: labels[2].name.
func path(at []string, value any) string {
	if len(at) == 0 {
		return "arguments"
	}
	var b strings.Builder
	for _, step := range at {
		if list, ok := value.([]any); ok {
			b.WriteString("[" + step + "]")
			value = nil
			if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(list) {
				value = list[i]
			}
			continue
		}
		members, _ := value.(map[string]any)
		value = members[step]
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
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-$"
	if name == "" || len(name) > 60 || strings.Trim(name, letters) != "" {
		return quoted(name)
	}
	return name
}

// quoted is a piece of a server's text, of a bounded length and in one line.
func quoted(s string) string {
	const most = 60
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strconv.Quote(s)
}

// short bounds a line, and leaves nothing in it that is not printed.
func short(s string) string {
	const most = 240
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}
