package predict

import (
	"bytes"
	"encoding/json"
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

// answer is a result parsed once for all its readers.
type answer struct {
	Result
	structured, text *document
	lines            *document // cached [answer.textDocument]; nil until first used
}

func newAnswer(r Result) *answer {
	return &answer{
		Result: r, structured: parse(r.Structured[:min(len(r.Structured), maxRead)]), text: parse(r.Text[:min(len(r.Text), maxRead)]),
	}
}

// result returns the answer as JSON: its structured content, else its text; nil if neither is
// JSON.
func (a *answer) result() *document {
	d := a.structured
	if len(d.nodes) == 0 {
		d = a.text
	}
	if len(d.nodes) == 0 || d.rest {
		return nil
	}
	return d
}

// maxLines is the number of non-empty lines read by [answer.textDocument].
const maxLines = 256

// textDocument returns the object that $text bindings read: the lines of the text, and the
// distinct paths with which lines begin. A line beyond maxRead is omitted.
func (a *answer) textDocument() *document {
	if a.lines != nil {
		return a.lines
	}
	content := a.text.in
	cut := len(a.Text) > len(content)
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
	written, _ := json.Marshal(said) // strings always marshal
	a.lines = parse(written)
	a.lines.cut = a.lines.cut || cut
	return a.lines
}

// Read extracts from the result of a tools/call what later calls may be derived from: the
// text of its blocks, joined by newlines, and its structured content verbatim. It omits JSON
// text beside structured content, as servers repeat the content there for older clients. cut
// means that result is only the beginning of a longer result; Read then returns what it has.
//
// At most 256 KB of text are read. For anything but a result it returns nothing.
func Read(result []byte, cut bool) (text, structured []byte) {
	if cut {
		result = result[:min(len(result), 4*maxRead)]
	}
	d := parse(result)
	content := d.member(0, "content")
	for id := range d.nodes {
		if content < 0 || d.nodes[id].parent != content || len(text) >= maxRead {
			continue
		}
		if kind := d.member(int32(id), "type"); kind < 0 || string(d.raw(kind)) != `"text"` {
			continue
		}
		if at := d.member(int32(id), "text"); at >= 0 {
			text = appendBlock(text, d.raw(at))
		}
	}
	if at := d.member(0, "structuredContent"); at >= 0 && (d.nodes[at].kind == object || d.nodes[at].kind == array) {
		structured = d.raw(at)
	}
	if !cut && structured != nil && beginsJSON(text) {
		text = nil
	}
	return text, structured
}

// appendBlock appends the decoded form of a JSON string, or of the beginning of one, up to
// maxRead bytes in all.
func appendBlock(out, quoted []byte) []byte {
	if len(out) > 0 {
		out = append(out, '\n')
	}
	room := maxRead - len(out)
	whole := len(quoted) <= room+2 // decoding never makes it longer
	s, ok := jsonrpc.String(quoted[:min(len(quoted), room+2)])
	if !ok && len(quoted) > 0 && quoted[0] == '"' {
		s, whole = beginning(quoted[1:min(len(quoted), room+1)]), false
	}
	if !whole {
		s = strings.TrimRight(s, "\ufffd") // a truncated character
	}
	return append(out, s...)
}

// beginning decodes the inside of a truncated JSON string, which may end within an escape
// or a character.
func beginning(inside []byte) string {
	const longest = len(`\ud83d\ude00`)
	for drop := range min(longest, len(inside)) {
		part := append(append([]byte{'"'}, inside[:len(inside)-drop]...), '"')
		if s, ok := jsonrpc.String(part); ok {
			return s
		}
	}
	return ""
}
