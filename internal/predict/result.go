package predict

import (
	"bytes"
	"slices"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// MaxRead is the number of bytes of the longest result that is read.
const MaxRead = 256 << 10

// Result is the result of a call.
type Result struct {
	ID         uint64 // of the call
	Failed     bool
	Text       []byte    // not retained
	Structured []byte    // the same
	Size       int       // bytes of the whole result
	At         time.Time // when the server answered; zero if it was not called, or if the latency is not representative
	Delivered  time.Time // when the client received the result; zero means At
}

// Read extracts from the result of a tools/call of that size what later calls may be derived from:
// the text of its blocks, joined by newlines, and its structured content verbatim. It omits JSON
// text beside structured content, as servers repeat the content there for older clients.
func Read(result []byte, size int) Result {
	r := Result{Size: size}
	if !jsonrpc.Valid(result) {
		return r
	}
	members := jsonrpc.NewIndex(result)
	for block := range jsonrpc.Elements(members.Get("content")) {
		s, ok := jsonrpc.String(jsonrpc.Get(block, "text"))
		if !ok || string(jsonrpc.Get(block, "type")) != `"text"` {
			continue
		}
		if len(r.Text) > 0 {
			r.Text = append(r.Text, '\n')
		}
		r.Text = append(r.Text, s...)
	}
	if s := members.Get("structuredContent"); len(s) > 0 && (s[0] == '{' || s[0] == '[') {
		r.Structured = s
		if before, value, rest := parse(r.Text); value != nil {
			r.Text = slices.Concat(before, rest)
		}
	}
	return r
}

// answer is a result with parts that are parsed once for all their readers.
type answer struct {
	parts [2]part // structured content and text
}

// part is a part of a result.
type part struct {
	raw, before, value, rest []byte // see parse
}

func newAnswer(r Result) *answer {
	a := &answer{}
	for i, raw := range [][]byte{r.Structured, r.Text} {
		if len(raw) <= MaxRead {
			a.parts[i].raw = raw
			a.parts[i].before, a.parts[i].value, a.parts[i].rest = parse(raw)
		}
	}
	return a
}

// result returns the answer as JSON: its structured content, else its text; nil if neither is
// JSON.
func (a *answer) result() []byte {
	for _, p := range a.parts {
		if p.value != nil {
			return p.value
		}
		if jsonrpc.Valid(p.raw) { // a text or a number
			return bytes.TrimSpace(p.raw)
		}
	}
	return nil
}
