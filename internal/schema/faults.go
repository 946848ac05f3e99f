package schema

import (
	"cmp"
	"encoding/json"
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
}

// Error is the fault in one line that names the member.
func (f *Fault) Error() string {
	return short(cmp.Or(strings.Join(f.Path, "."), "arguments") + ": " + f.Message)
}

// collect takes what the validator found apart, which comes by it in any order. Where
// some places are open, what may depend on them is left out.
func (s *Schema) collect(found *jsonschema.ValidationError, open [][]string) []Fault {
	c := collector{schema: s.raw, open: open}
	c.collect(found)
	if len(c.all) == 0 && open == nil {
		c.add(nil, "not what it has to be")
	}
	order := func(a, b Fault) int {
		return cmp.Or(slices.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	}
	slices.SortFunc(c.all, order)
	c.all = slices.CompactFunc(c.all, func(a, b Fault) bool { return order(a, b) == 0 })
	return c.all[:min(len(c.all), maxFaults)]
}

type collector struct {
	schema []byte
	open   [][]string
	all    []Fault
}

func (c *collector) add(at []string, message string) {
	c.all = append(c.all, Fault{at, short(message)})
}

// members adds one fault for each of several members, as far as they would be told.
func (c *collector) members(at, names []string, message string) {
	names = slices.Sorted(slices.Values(names))
	for _, name := range names[:min(len(names), maxFaults)] {
		c.add(append(slices.Clone(at), name), message)
	}
}

func (c *collector) collect(e *jsonschema.ValidationError) {
	if c.undecided(e) {
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
	case *kind.AdditionalProperties:
		c.members(at, k.Properties, "not allowed")
	case *kind.PropertyNames:
		c.add(nil, fmt.Sprintf("a member may not be called %.60q", k.Property)) // its place is not to be relied on
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
	default: // the keyword, and what the schema says there
		keyword := "not"
		if path := k.KeywordPath(); len(path) > 0 {
			keyword = path[0]
		}
		_, fragment, _ := strings.Cut(e.SchemaURL, "#")
		pointer, _ := url.PathUnescape(fragment)
		c.add(at, fmt.Sprintf("want %s %s", keyword, jsonrpc.At(c.schema, pointer+"/"+keyword)))
	}
}

// undecided reports whether a fault might go away with another value in one of the open
// places.
func (c *collector) undecided(e *jsonschema.ValidationError) bool {
	if c.open == nil {
		return false
	}
	// Whether these count depends on what was found about the whole value.
	for _, keyword := range [...]string{"/then/", "/else/", "/unevaluatedProperties/", "/unevaluatedItems/"} {
		if strings.Contains(e.SchemaURL+"/", keyword) {
			return true
		}
	}
	at := e.InstanceLocation
	above := false // an open place is in the value
	for _, open := range c.open {
		if startsWith(at, open) {
			return true
		}
		above = above || startsWith(open, at)
	}
	switch e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf, // their causes are looked at
		*kind.Type, *kind.FalseSchema, *kind.Required, *kind.AdditionalProperties: // names of members are known
		return false
	}
	return above
}

func startsWith(path, first []string) bool {
	return len(path) >= len(first) && slices.Equal(path[:len(first)], first)
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
