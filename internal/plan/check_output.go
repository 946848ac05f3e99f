package plan

import (
	"slices"
	"strconv"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// shapes tells what can never be in a value, from the JSON Schema of it. All that
// keywords do is rule values out, so what it does not know of makes it refuse too
// little, never too much. Two things only are taken into account beyond the keywords
// of members and items: local references, and combinations.
type shapes struct {
	root []byte
	left *int // bytes of schemas that may still be read for this plan: beyond, nothing is wrong
}

// shapeEffort is how many bytes of output schemas are read for one plan.
const shapeEffort = 16 << 20

// lacks says why the result of a step has nothing at the pointer of a reference, or
// nothing that can be an array; "" if it may.
func (c *checker) lacks(d *draft, ref *Ref, array bool) string {
	path := slices.Collect(jsonrpc.PointerTokens(ref.Pointer))
	if d.loops {
		if len(path) == 0 {
			return ""
		}
		if why := noItem(path[0]); why != "" {
			return why
		}
		array = array && path[0] != "*"
		path = path[1:]
	}
	s := &shapes{root: trimmed(d.step.Tool.Output), left: &c.left}
	return s.lacks(s.root, path, array)
}

// noItem says why a token leads to no item of an array.
func noItem(token string) string {
	if _, ok := itemIndex(token); ok || token == "*" {
		return ""
	}
	return "is an array: want an index or * in place of " + quoted(token)
}

func (s *shapes) lacks(schema []byte, path []string, array bool) string {
	*s.left -= len(schema) + 1024 // a schema may refer to itself, for ever
	if *s.left < 0 || len(schema) == 0 {
		return ""
	}
	if string(schema) == "false" && len(path) > 0 {
		return "can have nothing there"
	}
	if schema[0] != '{' || jsonrpc.Get(schema, "$id") != nil && len(schema) != len(s.root) {
		return "" // one of another name: what references in it lead to is another matter
	}
	if ref, ok := jsonrpc.String(jsonrpc.Get(schema, "$ref")); ok {
		pointer, local := strings.CutPrefix(ref, "#")
		if !local || strings.Contains(pointer, "%") || !jsonrpc.ValidPointer(pointer) {
			return ""
		}
		return s.lacks(jsonrpc.At(s.root, pointer), path, array)
	}
	for form := range jsonrpc.Elements(jsonrpc.Get(schema, "allOf")) {
		if why := s.lacks(form, path, array); why != "" {
			return why
		}
	}
	for _, name := range []string{"anyOf", "oneOf"} {
		first, open := "", false
		for form := range jsonrpc.Elements(jsonrpc.Get(schema, name)) {
			why := s.lacks(form, path, array)
			open = open || why == ""
			if first == "" {
				first = why
			}
		}
		if first != "" && !open {
			return first
		}
	}
	return s.itself(schema, path, array)
}

// itself is what the keywords of one schema rule out.
func (s *shapes) itself(schema []byte, path []string, array bool) string {
	types := string(jsonrpc.Get(schema, "type")) // a name, or an array of names
	may := func(name string) bool {
		return !strings.Contains(types, `"`) || strings.Contains(types, `"`+name+`"`)
	}
	if len(path) == 0 {
		if array && !may("array") {
			return "has no array there"
		}
		return ""
	}
	why := "can have nothing there: it is neither an object nor an array"
	if may("array") {
		if why = s.inArray(schema, path, array); why == "" {
			return ""
		}
	}
	if may("object") {
		why = s.inObject(schema, path, array)
	}
	return why
}

func (s *shapes) inObject(schema []byte, path []string, array bool) string {
	members := jsonrpc.Get(schema, "properties")
	if sub := jsonrpc.Get(members, path[0]); sub != nil {
		return s.lacks(sub, path[1:], array)
	}
	if jsonrpc.Get(schema, "patternProperties") != nil {
		return ""
	}
	if rest := jsonrpc.Get(schema, "additionalProperties"); string(rest) != "false" {
		return s.lacks(rest, path[1:], array)
	}
	var known []string
	for m := range jsonrpc.Members(members) {
		known = append(known, string(m.Name))
	}
	return "has no " + quoted(path[0]) + newNames(known).meant(path[0])
}

func (s *shapes) inArray(schema []byte, path []string, array bool) string {
	if why := noItem(path[0]); why != "" {
		return why
	}
	items := jsonrpc.Get(schema, "items")
	if jsonrpc.Get(schema, "prefixItems") != nil || len(items) == 0 || items[0] != '{' {
		return ""
	}
	return s.lacks(items, path[1:], array && path[0] != "*")
}

// itemIndex is the index of an item that a token of a pointer stands for.
func itemIndex(token string) (int, bool) {
	i, err := strconv.ParseUint(token, 10, 31)
	return int(i), err == nil && strconv.FormatUint(i, 10) == token
}
