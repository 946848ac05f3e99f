package upstream

import (
	"bytes"
	"slices"

	"mcpschedd/internal/jsonrpc"
)

// Values of members that the reference clients cannot read, and what is listed instead; nil: nothing.
var (
	absent  = map[string][]byte{"null": nil}
	schemas = map[string][]byte{"null": []byte("{}"), "true": []byte("{}"), "false": []byte(`{"not":{}}`)}
)

// listable returns an item as the reference clients can read it. They reject a whole list, with the items of all
// other servers, for one member of an item or of a prompt's argument that is null instead of absent, one property
// with a schema that is no object, one map of properties that PHP has made an array, as it was empty, one tool
// without the inputSchema of an object, or one resource without a name.
func listable(l List, raw []byte) []byte {
	raw = replaced(raw, absent)
	if _, named := jsonrpc.String(jsonrpc.Get(raw, "name")); !named {
		raw = jsonrpc.Set(raw, "name", jsonrpc.Get(raw, listNames[l].key))
	}
	if list := jsonrpc.Get(raw, "arguments"); l == Prompts && bytes.Contains(list, []byte("null")) {
		var fixed [][]byte
		for argument := range jsonrpc.Elements(list) {
			fixed = append(fixed, replaced(argument, absent))
		}
		raw = jsonrpc.Set(raw, "arguments", slices.Concat([]byte{'['}, bytes.Join(fixed, []byte{','}), []byte{']'}))
	}
	for _, part := range []string{"annotations", "inputSchema", "outputSchema"} {
		value := jsonrpc.Get(raw, part)
		fixed := replaced(value, absent)
		properties := jsonrpc.Get(fixed, "properties")
		if plain := replaced(properties, schemas); !bytes.Equal(plain, properties) {
			fixed = jsonrpc.Set(fixed, "properties", plain)
		}
		if l == Tools && part == "inputSchema" && jsonrpc.Text(fixed, "type") != "object" {
			fixed = jsonrpc.Set(fixed, "type", []byte(`"object"`))
		}
		if !bytes.Equal(fixed, value) {
			raw = jsonrpc.Set(raw, part, fixed)
		}
	}
	return raw
}

// replaced returns an object with the members replaced that have one of the values. Another value counts as an
// empty object; nil, for an absent one, stays.
func replaced(obj []byte, values map[string][]byte) []byte {
	if obj != nil && obj[0] != '{' {
		return []byte("{}")
	}
	for m := range jsonrpc.Members(obj) {
		if _, found := values[string(m.Value)]; found {
			return jsonrpc.Rewrite(obj, func(m jsonrpc.Member) []byte {
				if value, found := values[string(m.Value)]; found {
					return value
				}
				return m.Value
			})
		}
	}
	return obj
}
