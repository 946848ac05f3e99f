package plan

import (
	"slices"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schema"
)

// coerce is what goes in for a reference, as compact JSON. A value of a type that
// the place may have stays as it is, and so does null; elsewhere
//
//   - a number or a boolean becomes text, with its digits: 42 is "42";
//   - an object or array becomes text: the one it was read off, else compact JSON;
//   - a text that is a JSON number becomes that number, if it has to be whole only
//     one that is; "true" and "false" become booleans.
//
// The elements of an array are places of their own. A text that was read as JSON, for
// references to lead into it, goes in as it was where only a text may stand.
func coerce(v Value, want *schema.Schema, path []string) []byte {
	value := appendCompact(nil, v.JSON)
	wants := want.Wants(path)
	if wants == nil {
		return value
	}
	if v.Text != "" && slices.Contains(wants, "string") && (value[0] == '"' || !fits(value, wants)) {
		return jsonrpc.AppendString(nil, v.Text)
	}
	if value[0] == '[' && fits(value, wants) {
		if of := want.Wants(append(slices.Clip(path), schema.AnyElement)); of != nil {
			return coerceElements(value, of)
		}
		return value
	}
	return coerceValue(value, wants)
}

func coerceElements(array []byte, wants []string) []byte {
	all := make([]byte, 0, len(array))
	all = append(all, '[')
	for e := range jsonrpc.Elements(array) {
		if len(all) > 1 {
			all = append(all, ',')
		}
		all = append(all, coerceValue(e, wants)...)
	}
	return append(all, ']')
}

func coerceValue(value []byte, wants []string) []byte {
	if value[0] == 'n' || fits(value, wants) {
		return value
	}
	if value[0] != '"' {
		if slices.Contains(wants, "string") {
			return jsonrpc.AppendString(nil, string(value))
		}
		return value
	}
	text, _ := jsonrpc.String(value)
	if isScalar(text) && fits([]byte(text), wants) {
		return []byte(text)
	}
	return value
}

// isScalar says whether a text is a JSON number or boolean and nothing else, not even
// white space.
func isScalar(text string) bool {
	if text == "true" || text == "false" {
		return true
	}
	if text == "" || text[0] != '-' && (text[0] < '0' || text[0] > '9') {
		return false
	}
	last := text[len(text)-1]
	return '0' <= last && last <= '9' && jsonrpc.Valid([]byte(text))
}

// fits says whether a value has one of the types.
func fits(value []byte, wants []string) bool {
	switch value[0] {
	case '{':
		return slices.Contains(wants, "object")
	case '[':
		return slices.Contains(wants, "array")
	case '"':
		return slices.Contains(wants, "string")
	case 't', 'f':
		return slices.Contains(wants, "boolean")
	case 'n':
		return slices.Contains(wants, "null")
	}
	if slices.Contains(wants, "number") {
		return true
	}
	d, ok := parseDecimal(value)
	return slices.Contains(wants, "integer") && ok && d.whole()
}

// asText is a value within a text: a string without its quotes, null as nothing, and
// a text that was read as JSON as it was.
func asText(v Value) []byte {
	if v.Text != "" {
		return []byte(v.Text)
	}
	switch v.JSON[0] {
	case '"':
		text, _ := jsonrpc.String(v.JSON)
		return []byte(text)
	case 'n':
		return nil
	}
	return appendCompact(nil, v.JSON)
}
