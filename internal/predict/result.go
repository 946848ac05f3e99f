package predict

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// maxRead is the number of bytes read of a result, and of each of its parts.
const maxRead = 256 << 10

// Result is the result of a call.
type Result struct {
	ID         uint64 // of the call
	Failed     bool
	Text       []byte    // as returned by [Read], possibly truncated; not retained
	Structured []byte    // the same
	Size       int       // bytes of the whole result
	At         time.Time // when the server answered; zero if it was not called, or if the latency is not representative
	Delivered  time.Time // when the client received the result; zero means At
	Unread     bool      // Text and Structured were not read
}

// Read extracts from the result of a tools/call what later calls may be derived from: the
// text of its blocks, joined by newlines, and its structured content verbatim. It omits JSON
// text beside structured content, as servers repeat the content there for older clients. cut
// means that result is only the beginning of a longer result; Read then returns what it has.
//
// At most 256 KB of text are read. For anything but a result it returns nothing.
func Read(result []byte, cut bool) (text, structured []byte) {
	value, _, _ := parse(result[:min(len(result), 4*maxRead)], true)
	if value == nil {
		return nil, nil
	}
	members := jsonrpc.NewIndex(value)
	for block := range jsonrpc.Elements(members.Get("content")) {
		if string(jsonrpc.Get(block, "type")) != `"text"` || len(text) >= maxRead {
			continue
		}
		if s, ok := jsonrpc.String(jsonrpc.Get(block, "text")); ok {
			if len(text) > 0 {
				text = append(text, '\n')
			}
			text = append(text, strings.TrimRight(s[:min(len(s), maxRead-len(text))], "\ufffd")...) // a truncated character
		}
	}
	if s := members.Get("structuredContent"); len(s) > 0 && (s[0] == '{' || s[0] == '[') {
		structured = s
		if cut && bytes.HasSuffix(value[:len(value)-1], s) {
			structured = bytes.TrimRight(s, `]}"`) // truncated, as it was
		}
	}
	if value, _, _ := parse(text, false); !cut && structured != nil && value != nil {
		text = nil
	}
	return text, structured
}

// answer is a result whose parts are parsed once for all their readers.
type answer struct {
	parts [2]part // structured content and text
}

// part is a part of a result.
type part struct {
	raw, value, rest []byte // value: the JSON with which it begins, nil if none; rest: what follows
	cut              bool
}

func newAnswer(r Result) *answer {
	a := &answer{}
	for i, raw := range [][]byte{r.Structured, r.Text} {
		p := &a.parts[i]
		p.raw = raw[:min(len(raw), maxRead)]
		p.value, p.rest, p.cut = parse(p.raw, false)
		p.cut = p.cut || len(p.raw) < len(raw)
	}
	return a
}

// result returns the answer as JSON: its structured content, else its text; nil if neither is
// JSON.
func (a *answer) result() part {
	for _, p := range a.parts {
		if p.value != nil && len(p.rest) == 0 {
			return p
		}
		if jsonrpc.Valid(p.raw) { // a text or a number
			return part{value: bytes.TrimSpace(p.raw)}
		}
	}
	return part{}
}

// maxLines is the number of non-empty lines that bindings of the text read.
const maxLines = 256

// text returns the object that $text bindings read: the lines of the text, and the distinct
// paths with which lines begin.
func (a *answer) text() part {
	content, cut := a.parts[1].raw, a.parts[1].cut
	if cut {
		content = content[:bytes.LastIndexByte(content, '\n')+1]
	}
	said := struct {
		Lines []string `json:"lines"`
		Paths []string `json:"paths"`
	}{[]string{}, []string{}}
	for line := range bytes.Lines(content) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if len(said.Lines) == maxLines {
			cut = true
			break
		}
		said.Lines = append(said.Lines, string(line))
		if p := string(leadingPath(line)); p != "" && !slices.Contains(said.Paths, p) {
			said.Paths = append(said.Paths, p)
		}
	}
	return part{value: jsonrpc.Marshal(said), cut: cut}
}
