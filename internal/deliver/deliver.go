// Package deliver shows the model what was prefetched: it adds to the result of a
// tool a line that names the calls that are on their way, or the answers themselves.
//
// The one idea: a result is bytes with one place where something may be added, the
// end of its content, and every other member stays as it is written. A reader that
// takes the added blocks out again holds what the server said.
//
//	if !deliver.Plain(result) { … }   // not to be touched, nor to be added anywhere
//	result = deliver.Hint(result, []string{deliver.Name("Read", args)})
//	result, added = deliver.Inline(result, answers, 8000, keywords)
//
// Everything here is a pure function of its arguments; the first count of tokens
// loads a vocabulary. It leaves out which answers are worth adding (enrich), whether
// the client may get them (proxy: never for a tool with an output schema), and
// keeping what was delivered (dedup).
package deliver

import (
	"bytes"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// Plain reports whether a result, a valid JSON text, may be added to, and added to
// another: it is the complete answer of a tool that did not fail, for the model
// alone. What is structured is read by programs, which expect what they know.
func Plain(result []byte) bool {
	members := jsonrpc.NewIndex(result)
	if !members.Unambiguous() || members.Get("structuredContent") != nil || members.Get("task") != nil {
		return false // of an ambiguous one two readers may see two contents
	}
	if failed := members.Get("isError"); failed != nil && string(failed) != "false" {
		return false
	}
	if kind := members.Get("resultType"); kind != nil {
		if s, ok := jsonrpc.String(kind); !ok || s != "complete" {
			return false
		}
	}
	return bytes.HasPrefix(members.Get("content"), []byte("["))
}

// Hint adds a line to a result, a valid JSON text, that names calls which are being
// prefetched, as [Name] writes them. Without names, and if the result is not
// plain, it is returned as it is.
func Hint(result []byte, names []string) []byte {
	if len(names) == 0 || !Plain(result) {
		return result
	}
	line := "> [enrichment: pre-fetched " + strings.Join(names, ", ") +
		" in background — call as usual, results served from cache]"
	block := jsonrpc.AppendString([]byte(`{"type":"text","text":`), line)
	return appendContent(result, append(block, '}'))
}

// appendContent adds blocks, JSON values with commas between them, at the end of
// the content of a plain result.
func appendContent(result, blocks []byte) []byte {
	content := jsonrpc.Get(result, "content")
	end := len(content) - 1 // the bracket
	longer := make([]byte, 0, len(content)+1+len(blocks))
	longer = append(longer, content[:end]...)
	if len(bytes.TrimSpace(content[1:end])) > 0 {
		longer = append(longer, ',')
	}
	longer = append(longer, blocks...)
	longer = append(longer, ']')
	return jsonrpc.Set(result, "content", longer)
}
