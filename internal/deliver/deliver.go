// Package deliver adds to the result of a tool a line that names the calls being prefetched, or their
// answers. Its [Meter] estimates the tokens of results.
//
// It only appends to the content array: all other members of the result, and the blocks before, keep
// their bytes. A reader that removes the added blocks has the server's original result.
//
//	if !deliver.Plain(result) { … }   // it must be neither extended nor added to another
//	result = deliver.Hint(result, []string{deliver.Name("Read", args)})
//	result, added = deliver.Inline(result, answers, 8000, keywords)
//
// What adds to a result is pure; the first count of tokens loads a vocabulary. The package
// does not decide which answers are worth adding (enrich) or whether the client may receive them
// (proxy: never for a tool with an output schema), and does not store them (dedup).
package deliver

import (
	"bytes"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// Plain reports whether a complete, successful result, a valid JSON text, may be extended or added to
// another. It may not if it has structured content, which programs read and expect to follow its schema,
// or duplicate members, about which readers may disagree.
func Plain(result []byte) bool {
	members := jsonrpc.NewIndex(result)
	return members.Unambiguous() && members.Get("structuredContent") == nil && bytes.HasPrefix(members.Get("content"), []byte("["))
}

// Hint appends a line to a result, a valid JSON text, that lists the calls being prefetched, in
// the form of [Name]. It returns the result unchanged if there are none or it is not plain.
func Hint(result []byte, names []string) []byte {
	if len(names) == 0 || !Plain(result) {
		return result
	}
	line := "> [enrichment: pre-fetched " + strings.Join(names, ", ") +
		" in background — call as usual, results served from cache]"
	block := jsonrpc.AppendString([]byte(`{"type":"text","text":`), line)
	return appendContent(result, append(block, '}'))
}

// appendContent appends blocks, JSON values separated by commas, to the content of a plain
// result.
func appendContent(result, blocks []byte) []byte {
	content := jsonrpc.Get(result, "content")
	end := len(content) - 1 // without the closing bracket
	longer := make([]byte, 0, len(content)+1+len(blocks))
	longer = append(longer, content[:end]...)
	if len(bytes.TrimSpace(content[1:end])) > 0 {
		longer = append(longer, ',')
	}
	longer = append(longer, blocks...)
	longer = append(longer, ']')
	return jsonrpc.Set(result, "content", longer)
}
