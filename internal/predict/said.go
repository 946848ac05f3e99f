package predict

import (
	"bytes"

	"mcpschedd/internal/jsonrpc"
)

// Bounds on what is read off a text.
const (
	maxLines = 256
	maxPath  = 512 // bytes
)

// said is what the text of an answer says, as the object that bindings of the text
// read: its lines, and the paths with which lines begin. Of a text that is longer
// than is read, the last line is not whole.
func said(r Result) document {
	if r.Unread || len(r.Text) == 0 {
		return document{}
	}
	text, cut := r.Text, false
	if len(text) > mostRead {
		text, cut = text[:mostRead], true
		text = text[:bytes.LastIndexByte(text, '\n')+1]
	}
	var lines, paths []byte
	known := make(map[string]bool)
	n := 0
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if n++; n > maxLines {
			cut = true
			break
		}
		lines = appendElement(lines, line)
		if p := pathOf(line); p != nil && !known[string(p)] {
			known[string(p)] = true
			paths = appendElement(paths, p)
		}
	}
	out := append(append([]byte(`{"lines":[`), lines...), `],"paths":[`...)
	return document{append(append(out, paths...), "]}"...), cut}
}

func appendElement(list, text []byte) []byte {
	if len(list) > 0 {
		list = append(list, ',')
	}
	return jsonrpc.AppendString(list, string(text))
}

// pathOf is the path of a file with which a line begins, and which is all of it or
// ends at a colon; nil if there is none. It has a slash, or a dot within it, and no
// character that is rare in paths and frequent in other texts.
func pathOf(line []byte) []byte {
	p, _, _ := bytes.Cut(line, []byte{':'})
	found, dot := bytes.Contains(p, []byte{'/'}), bytes.LastIndexByte(p, '.')
	switch {
	case len(p) < 2 || len(p) > maxPath || bytes.ContainsAny(p, " \t\"'`<>|*?\\,;(){}[]="):
	case found && !bytes.HasPrefix(line[len(p):], []byte("://")):
		return p
	case !found && dot > 0 && dot < len(p)-1:
		return p
	}
	return nil
}

// Said is what bindings of the text read of a text: see [valuemodel.ParseBinding].
func Said(text []byte) []byte { return said(Result{Text: text}).json }
