package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/jsonrpc"
)

// maxFaults is the maximum number of reported violations.
const maxFaults = 20

// Fault is one violation of a schema.
type Fault struct {
	Path    []string // names and indexes from the root; empty for the arguments themselves
	Message string   // the violation and what was expected; repeats no values
	ofName  bool     // it concerns the name of the member, not its value
}

// Error returns the fault as one line that names the member.
func (f *Fault) Error() string {
	return oneLine(cmp.Or(strings.Join(f.Path, "."), "arguments") + ": " + f.Message)
}

// collect converts the validator's error into sorted faults. Faults that may depend on open
// places are omitted.
func (s *Schema) collect(found *jsonschema.ValidationError, open [][]string) []Fault {
	c := collector{schema: s.raw}
	c.collect(found)
	all := slices.DeleteFunc(c.all, func(f Fault) bool { return f.dependsOn(open) })
	order := func(a, b Fault) int {
		return cmp.Or(slices.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	}
	slices.SortFunc(all, order)
	all = slices.CompactFunc(all, func(a, b Fault) bool { return order(a, b) == 0 })
	return all[:min(len(all), maxFaults)]
}

// dependsOn reports whether a fault might disappear with another value in an open place.
func (f *Fault) dependsOn(open [][]string) bool {
	return slices.ContainsFunc(open, func(place []string) bool {
		if f.ofName {
			return startsWith(f.Path[:len(f.Path)-1], place)
		}
		return startsWith(f.Path, place) || startsWith(place, f.Path)
	})
}

func startsWith(path, first []string) bool {
	return len(path) >= len(first) && slices.Equal(path[:len(first)], first)
}

type collector struct {
	schema []byte
	all    []Fault
}

func (c *collector) add(at []string, format string, args ...any) {
	c.all = append(c.all, Fault{Path: at, Message: oneLine(fmt.Sprintf(format, args...))})
}

// addNames adds a fault for each of several members, at most maxFaults.
func (c *collector) addNames(at, names []string, message string) {
	names = slices.Sorted(slices.Values(names))
	for _, name := range names[:min(len(names), maxFaults)] {
		c.all = append(c.all, Fault{append(slices.Clone(at), name), message, true})
	}
}

func (c *collector) collect(e *jsonschema.ValidationError) {
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
		c.addNames(at, k.Missing, "missing")
	case *kind.AdditionalProperties:
		c.addNames(at, k.Properties, "not allowed")
	case *kind.PropertyNames:
		c.add(nil, "a member may not be called %.60q", k.Property) // the reported location is not reliable
	case *kind.FalseSchema:
		c.add(at, "not allowed")
	case *kind.Type:
		c.add(at, "want %s, have %s", strings.Join(k.Want, " or "), k.Got)
	case *kind.Enum:
		list, _ := json.Marshal(k.Want)
		c.add(at, "want one of %s", list)
	default: // the keyword and its value in the schema
		keyword := "not"
		if path := k.KeywordPath(); len(path) > 0 {
			keyword = path[0]
		}
		_, fragment, _ := strings.Cut(e.SchemaURL, "#")
		pointer, _ := url.PathUnescape(fragment)
		c.add(at, "want %s %s", keyword, jsonrpc.At(c.schema, pointer+"/"+keyword))
	}
}

// alternatives describes a value that matches none of several schemas. If all of them expect
// another type, the fault lists the types. If all but one do, the fault is that of the one.
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
		c.add(e.InstanceLocation, "want %s, have %s", strings.Join(slices.Compact(want), " or "), have)
	default:
		c.add(e.InstanceLocation, "fits none of the %d forms it may have", len(e.Causes))
	}
}

// typeName returns the JSON Schema name of a value's type.
func typeName(v any) string {
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

// oneLine truncates s and replaces unprintable characters with spaces.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return ' '
	}, excerpt.Shorten(s, 240))
}
