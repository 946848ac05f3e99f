package toolsearch

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// maxParameters is the number of bytes of the list of parameters.
const maxParameters = 800

// Parameters returns a schema's properties in short: "path: string, limit?: integer".
func Parameters(schema []byte) string {
	var required []string
	json.Unmarshal(jsonrpc.Get(schema, "required"), &required) // if invalid, none is required
	var line strings.Builder
	for m := range jsonrpc.Members(jsonrpc.Get(schema, "properties")) {
		name, kind := string(m.Name), kindOf(m.Value)
		if !slices.Contains(required, name) {
			name += "?"
		}
		if line.Len()+len(name)+len(kind) > maxParameters {
			line.WriteString(", …")
			break
		}
		if line.Len() > 0 {
			line.WriteString(", ")
		}
		line.WriteString(name + ": " + kind)
	}
	return line.String()
}

// kindOf returns the type of a parameter's schema in a word, or the values of a short enum.
func kindOf(schema []byte) string {
	if values := jsonrpc.Get(schema, "enum"); len(values) > 0 && len(values) < 120 {
		var all []string
		for v := range jsonrpc.Elements(values) {
			all = append(all, strings.ReplaceAll(string(v), `"`, "'"))
		}
		return strings.Join(all, "|")
	}
	return cmp.Or(jsonrpc.Text(schema, "type"), "any")
}
