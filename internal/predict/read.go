package predict

import (
	"bytes"

	"mcpschedd/internal/jsonrpc"
)

// Read finds in the result of a tools/call what later calls may be made of: the
// text of its blocks, joined by newlines, and its structured content as it stands.
// Where the text is the structured content once more, as servers write it for
// clients that know no other, it is left out. cut says that these are only the
// first bytes of a longer result: then it is what is there, and ends where that
// does.
//
// At most 256 KB of text are read. Of what is no result it reads nothing.
func Read(result []byte, cut bool) (text, structured []byte) {
	if cut {
		return readCut(result[:min(len(result), 4*mostRead)])
	}
	content, structured := parts(result)
	text = texts(content)
	if structured != nil && len(structured) <= mostRead && same(text, structured) {
		text = nil
	}
	return text, structured
}

// readCut reads the beginning of a result. Structured content that was not whole
// stays open, so that whoever reads it can tell.
func readCut(beginning []byte) (text, structured []byte) {
	if mended, ok := mend(beginning, true); ok {
		content, _ := parts(mended)
		text = texts(content)
	}
	if mended, ok := mend(beginning, false); ok {
		_, structured = parts(mended)
		if behind := len(mended) - len("}"); structured != nil && bytes.HasSuffix(mended[:behind], structured) {
			structured[len(structured)-1] = ',' // it ends with the result: more may have been to come
		}
	}
	return text, structured
}

// parts are the content of a result and its structured content, which is nil if
// it holds nothing.
func parts(result []byte) (content, structured []byte) {
	content, structured = both(result, "content", "structuredContent")
	if len(structured) == 0 || structured[0] != '{' && structured[0] != '[' {
		structured = nil
	}
	return content, structured
}

// both are the values of the first members of two names. To go over a long text is
// most of the work, so that is done once.
func both(object []byte, one, other string) (a, b []byte) {
	for m := range jsonrpc.Members(object) {
		switch {
		case a == nil && string(m.Name) == one:
			a = m.Value
		case b == nil && string(m.Name) == other:
			b = m.Value
		}
	}
	return a, b
}

// texts joins the text blocks of a result's content.
func texts(content []byte) []byte {
	var out []byte
	for block := range jsonrpc.Elements(content) {
		kind, text := both(block, "type", "text")
		if string(kind) != `"text"` {
			continue
		}
		if len(out) > 0 {
			out = append(out, '\n')
		}
		if out = appendText(out, text); len(out) >= mostRead {
			break
		}
	}
	return out
}

// appendText appends what a JSON string stands for, as far as there is room.
func appendText(out, quoted []byte) []byte {
	room := mostRead - len(out)
	if len(quoted) > room+2 { // what it stands for is never longer than what is written
		inside := quoted[1 : room+1]
		quoted = append(append([]byte{'"'}, inside[:wholeText(inside)]...), '"')
	}
	s, _ := jsonrpc.String(quoted)
	return append(out, s...)
}

// same reports whether a text is a JSON value once more.
func same(text, value []byte) bool {
	if text = bytes.TrimSpace(text); len(text) == 0 || text[0] != value[0] {
		return false
	}
	a, ok := jsonrpc.AppendCanonical(nil, text)
	if !ok {
		return false
	}
	b, ok := jsonrpc.AppendCanonical(nil, value)
	return ok && bytes.Equal(a, b)
}
