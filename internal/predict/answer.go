package predict

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// mostRead (bytes) is read of a result, or of either part of it.
const maxRead = 256 << 10

// Result says what came of a call.
type Result struct {
	ID         uint64 // of the call
	Failed     bool
	Text       []byte    // as [Read] gives it, and may be cut; not kept
	Structured []byte    // likewise
	Size       int       // bytes of the whole answer
	At         time.Time // when the server had answered; zero: it was not asked, or it says nothing of how long that takes
	Delivered  time.Time // when the client had the answer; zero: At
	Unread     bool      // Text and Structured were not looked at
}

// answer is a result that is looked at: parsed once, for whatever reads it.
type answer struct {
	Result
	structured, text *document
	lines            *document // what the text says, see [answer.said]; nil: not asked for yet
}

func newAnswer(r Result) *answer {
	return &answer{
		Result: r, structured: parse(r.Structured[:min(len(r.Structured), maxRead)]), text: parse(r.Text[:min(len(r.Text), maxRead)]),
	}
}

// result is the answer as JSON: its structured content, else its text; nil if that is none.
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

// maxLines is read of a text by [answer.said].
const maxLines = 256

// said is what the text says, as the object that bindings of the text read: its lines, and
// the paths with which lines begin, each once. A line that goes beyond what is read is left out.
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
	written, _ := json.Marshal(said) // texts can be written
	a.lines = parse(written)
	a.lines.cut = a.lines.cut || cut
	return a.lines
}

// Read finds in the result of a tools/call what later calls may be made of: the
// text of its blocks, joined by newlines, and its structured content as it stands.
// A text that is JSON beside structured content is the same once more, as servers write it
// for clients that know no other, and is left out. cut says that these are only the
// first bytes of a longer result: then it is what is there, and ends where that
// does.
//
// At most 256 KB of text are read. Of what is no result it reads nothing.
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

// appendBlock appends what a JSON string, or the beginning of one, stands for, as far as
// there is room.
func appendBlock(out, quoted []byte) []byte {
	if len(out) > 0 {
		out = append(out, '\n')
	}
	room := maxRead - len(out)
	whole := len(quoted) <= room+2 // what it stands for is never longer than what is written
	s, ok := jsonrpc.String(quoted[:min(len(quoted), room+2)])
	if !ok && len(quoted) > 0 && quoted[0] == '"' {
		s, whole = beginning(quoted[1:min(len(quoted), room+1)]), false
	}
	if !whole {
		s = strings.TrimRight(s, "\ufffd") // half of a character
	}
	return append(out, s...)
}

// beginning is what the inside of a JSON string stands for that ends anywhere, so perhaps
// within an escape or a character.
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
