package jsonrpc_test

import (
	"bytes"
	"fmt"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// messages are typical responses: text with line ends, JSON quoted in a text, non-ASCII
// text, and structured numbers. The result comes first, as in the TypeScript SDK.
func messages() []struct {
	name string
	raw  []byte
} {
	text := func(size int, sample string) []byte {
		quoted := jsonrpc.AppendString(nil, strings.Repeat(sample, size/len(sample)+1)[:size])
		return fmt.Appendf(nil, `{"result":{"content":[{"type":"text","text":%s}]},"jsonrpc":"2.0","id":7}`, quoted)
	}
	const line = "func (r *Reader) fill() error { return r.err } // sixty-four columns of it\n"
	const quoted = `{"id": 17, "name": "left-pad", "tags": ["a", "b"], "size": 123.5}, `
	var numbers bytes.Buffer
	for i := range 20000 {
		fmt.Fprintf(&numbers, `{"x":%d,"y":-%d.25,"z":[%d,1e-7,null,true]},`, i, i*7, i%13)
	}
	numbers.WriteString("0")
	return []struct {
		name string
		raw  []byte
	}{
		{"text1K", text(1<<10, line)},
		{"text100K", text(100<<10, line)},
		{"text1M", text(1<<20, line)},
		{"json1M", text(1<<20, quoted)},
		{"greek1M", text(1<<20, "Καλημέρα κόσμε, ")},
		{"kanji1M", text(1<<20-1, "世界您好")},
		{"numbers", fmt.Appendf(nil, `{"jsonrpc":"2.0","id":7,"result":{"rows":[%s]}}`, numbers.Bytes())},
		{"call", []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"read","arguments":{"path":"a.go"}}}`)},
	}
}

// endless repeats a line, at most 64 KiB a read, as a pipe would.
type endless struct {
	line []byte
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p[:min(len(p), 64<<10)], e.line[e.at:])
	e.at = (e.at + n) % len(e.line)
	return n, nil
}
