package plan

import (
	"slices"
	"strconv"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// shapeEffort is how many bytes of output schemas are read for one plan. Beyond it
// nothing more is known, and so nothing is wrong.
const shapeEffort = 16 << 20

// shapes tells what can never be in a value, from the JSON Schema of it. All that
// keywords do is rule values out, so what it does not know of makes it refuse too
// little, never too much. Two things only are taken into account beyond the keywords
// of members and items: local references, and combinations.
type shapes struct {
	root  []byte
	left  int
	known map[shape]string // what was found
}

// shape is what was asked of an output schema.
type shape struct {
	of      *Tool
	pointer string
	array   bool // for the value to be one
	items   bool // of the results of one tool for each item
}

// answer says why a result has nothing at a pointer, or nothing that can be an array;
// "" if it may.
func (s *shapes) answer(asked shape) string {
	path := slices.Collect(jsonrpc.PointerTokens(asked.pointer))
	array := asked.array
	if asked.items {
		if len(path) == 0 {
			return ""
		}
		if why := s.itemsLack(path[0]); why != "" {
			return why
		}
		array = array && path[0] != "*"
		path = path[1:]
	}
	if s.root = trimmed(asked.of.Output); len(s.root) == 0 {
		return ""
	}
	return s.at(s.root, path, array)
}

// itemsLack says why a token leads to no item of an array.
func (s *shapes) itemsLack(token string) string {
	if _, ok := itemIndex(token); ok || token == "*" {
		return ""
	}
	return "is an array: want an index or * in place of " + quoted(token)
}

func (s *shapes) at(schema []byte, path []string, array bool) string {
	if s.left -= len(schema) + 64; s.left < 0 {
		return ""
	}
	if string(schema) == "false" && len(path) > 0 {
		return "can have nothing there"
	}
	if schema[0] != '{' || jsonrpc.Get(schema, "$id") != nil && len(schema) != len(s.root) {
		return "" // one of another name: what references in it lead to is another matter
	}
	if ref := jsonrpc.Get(schema, "$ref"); ref != nil {
		return s.referred(ref, path, array)
	}
	if why := s.itself(schema, path, array); why != "" {
		return why
	}
	for form := range jsonrpc.Elements(jsonrpc.Get(schema, "allOf")) {
		if why := s.at(form, path, array); why != "" {
			return why
		}
	}
	for _, name := range []string{"anyOf", "oneOf"} {
		if why := s.allLack(jsonrpc.Get(schema, name), path, array); why != "" {
			return why
		}
	}
	return ""
}

// referred follows a reference within the document.
func (s *shapes) referred(ref []byte, path []string, array bool) string {
	text, _ := jsonrpc.String(ref)
	pointer, local := strings.CutPrefix(text, "#")
	if !local || strings.Contains(pointer, "%") || !jsonrpc.ValidPointer(pointer) {
		return ""
	}
	if to := jsonrpc.At(s.root, pointer); to != nil {
		return s.at(to, path, array)
	}
	return ""
}

// allLack is why none of several forms has something there, as the first one says.
func (s *shapes) allLack(forms []byte, path []string, array bool) string {
	first := ""
	for form := range jsonrpc.Elements(forms) {
		why := s.at(form, path, array)
		if why == "" {
			return ""
		}
		if first == "" {
			first = why
		}
	}
	return first
}

// itself is what the keywords of one schema rule out.
func (s *shapes) itself(schema []byte, path []string, array bool) string {
	types := typesOf(jsonrpc.Get(schema, "type"))
	if len(path) == 0 {
		if array && types != nil && !types["array"] {
			return "has no array there"
		}
		return ""
	}
	why := "can have nothing there: it is neither an object nor an array"
	if types == nil || types["array"] {
		if why = s.inArray(schema, path, array); why == "" {
			return ""
		}
	}
	if types == nil || types["object"] {
		why = s.inObject(schema, path, array)
	}
	return why
}

// typesOf are the types a value may have; nil: any.
func typesOf(raw []byte) map[string]bool {
	types := make(map[string]bool)
	if one, ok := jsonrpc.String(raw); ok {
		types[one] = true
	}
	for each := range jsonrpc.Elements(raw) {
		one, _ := jsonrpc.String(each)
		types[one] = true
	}
	if len(types) == 0 {
		return nil
	}
	return types
}

func (s *shapes) inObject(schema []byte, path []string, array bool) string {
	members := jsonrpc.Get(schema, "properties")
	if sub := jsonrpc.Get(members, path[0]); sub != nil {
		return s.at(sub, path[1:], array)
	}
	for range jsonrpc.Members(jsonrpc.Get(schema, "patternProperties")) {
		return ""
	}
	switch rest := jsonrpc.Get(schema, "additionalProperties"); string(rest) {
	case "", "true":
		return ""
	case "false":
		var known []string
		for m := range jsonrpc.Members(members) {
			known = append(known, string(m.Name))
		}
		return "has no " + quoted(path[0]) + newNames(known).meant(path[0])
	default:
		return s.at(rest, path[1:], array)
	}
}

func (s *shapes) inArray(schema []byte, path []string, array bool) string {
	if why := s.itemsLack(path[0]); why != "" {
		return why
	}
	items := jsonrpc.Get(schema, "items")
	if jsonrpc.Get(schema, "prefixItems") != nil || len(items) == 0 || items[0] != '{' {
		return ""
	}
	return s.at(items, path[1:], array && path[0] != "*")
}

// itemIndex is the index of an item that a token of a pointer stands for.
func itemIndex(token string) (int, bool) {
	i, err := strconv.ParseUint(token, 10, 31)
	return int(i), err == nil && strconv.FormatUint(i, 10) == token
}
