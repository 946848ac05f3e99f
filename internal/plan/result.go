package plan

import (
	"bytes"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// Result is the result of one call.
type Result struct {
	Value           // for references; without JSON if the call failed
	Blocks [][]byte // content blocks that are not text, as JSON; passed through
	Bytes  int      // bytes of the whole response
	Err    string   // why the call failed; empty if it succeeded
	Source string   // fetched, hit or joined; empty if not known

	MayHaveRun bool // the server may have run a call that failed
}

// ResultOf converts the result of a tools/call: structuredContent, or else the text, parsed as
// JSON if it is JSON. It copies only these parts, because a plan limits the bytes of its results.
func ResultOf(result []byte) Result {
	out := Result{Bytes: len(result), Source: "fetched"}
	index := jsonrpc.NewIndex(result)
	structured, failed := index.Get("structuredContent"), index.Get("isError")
	var texts []string
	var resources [][]byte // embedded resources with a text
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
		out.Err = "the answer is not a result of a tool: it has no content"
	case failed != nil && string(failed) != "false" && string(failed) != "null":
		if out.Err = text; text == "" {
			out.Err = "the tool failed and did not say why"
		}
	case structured != nil && string(structured) != "null":
		out.JSON = bytes.Clone(structured)
		if len(texts) == 1 {
			out.Text = text // used where a string is needed; often the structure wraps it
		}
	case len(resources) > 0:
		// The URI and the text of an embedded resource can be referenced, and count.
		out.JSON = jsonrpc.Set(nil, "text", jsonrpc.AppendString(nil, text))
		out.JSON = jsonrpc.Set(out.JSON, "resources", array(resources))
		if len(resources) == 1 {
			out.Text = jsonrpc.Text(resources[0], "text")
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

// parsed returns the texts of a result as JSON: the value of a single text, or an array of
// several objects or arrays, such as the rows of a table. It returns nil if they are not JSON.
func parsed(texts []string) []byte {
	var all [][]byte
	for _, text := range texts {
		value := bytes.TrimSpace([]byte(text))
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
