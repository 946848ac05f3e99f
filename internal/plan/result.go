package plan

import (
	"bytes"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// ResultOf is what a plan makes of the result of a tools/call: what is structured, else
// the text, as JSON if it is some. It keeps no more of the answer than that, for a plan
// counts what its results hold. That the call failed is in doubt where the result does
// not say what has been done.
func ResultOf(result []byte) Result {
	out := Result{Bytes: len(result), Source: "fetched"}
	index := jsonrpc.NewIndex(result)
	structured, failed := index.Get("structuredContent"), index.Get("isError")
	var texts []string
	var resources [][]byte // with a text
	for block := range jsonrpc.Elements(index.Get("content")) {
		resource := jsonrpc.Get(block, "resource")
		if text, ok := jsonrpc.String(jsonrpc.Get(block, "text")); ok && string(jsonrpc.Get(block, "type")) == `"text"` {
			texts = append(texts, text)
		} else if jsonrpc.Get(resource, "text") != nil {
			resources = append(resources, resource)
		} else {
			out.Blocks = append(out.Blocks, bytes.Clone(block))
		}
	}
	text := strings.Join(texts, "\n")
	switch {
	case index.Get("content") == nil && structured == nil:
		out.Err, out.InDoubt = "the answer is no result of a tool: it has no content", true
	case failed != nil && string(failed) != "false" && string(failed) != "null":
		if out.Err = text; text == "" {
			out.Err = "the tool failed and did not say why"
		}
	case structured != nil && string(structured) != "null":
		out.JSON = bytes.Clone(structured)
		if len(texts) == 1 {
			out.Text = text // where a text is wanted: often it is what the structure wraps
		}
	case len(resources) > 0:
		// Of a file the name and what stands in it can be referred to, and count.
		out.JSON = jsonrpc.Set(nil, "text", jsonrpc.AppendString(nil, text))
		out.JSON = jsonrpc.Set(out.JSON, "resources", array(resources))
		if len(resources) == 1 {
			out.Text, _ = jsonrpc.String(jsonrpc.Get(resources[0], "text"))
		}
	default:
		if out.JSON = parsed(texts); out.JSON != nil {
			out.Text = text
		} else {
			out.JSON = jsonrpc.AppendString(nil, text)
		}
	}
	return out
}

// parsed is what the texts of a result are as JSON: the value of the only one, or,
// of several objects or arrays, such as the rows of a table, an array of them. nil:
// they are text.
func parsed(texts []string) []byte {
	var all [][]byte
	for _, text := range texts {
		value := trimmed([]byte(text))
		if !jsonrpc.Valid(value) || len(texts) > 1 && value[0] != '{' && value[0] != '[' {
			return nil
		}
		all = append(all, value)
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return array(all)
}
