package predict

import (
	"bytes"

	"mcpschedd/internal/jsonrpc"
)

// Bounds on a document.
const (
	maxNodes = 6000
	maxDepth = 24
)

// kind is the syntactic kind of a value.
type kind byte

const (
	object kind = '{'
	array  kind = '['
	text   kind = 's'
	number kind = 'n'
	word   kind = 'w' // true, false or null
)

// scalar is a scalar value: the decoded text of a string, the source text of anything else.
type scalar struct {
	text string
	kind kind
}

// node is one value of a document.
type node struct {
	name     []byte // member name; nil for an array element or the root
	parent   int32  // -1 for the root
	index    int32  // index in its parent
	size     int32  // number of members or elements that were read
	from, to int32  // byte range; to is 0 if the value is truncated
	kind     kind
}

// document is a JSON text, possibly truncated, as nodes in order of their positions. It is
// the only JSON reader of the package, for arguments and results alike.
type document struct {
	in    []byte
	nodes []node
	at    int
	cut   bool // incomplete: the text is truncated or exceeds the bounds
	rest  bool // followed by other text
}

// parse reads the JSON value at the beginning of a text, as far as it goes.
func parse(in []byte) *document {
	d := &document{in: in}
	d.cut = !d.value(-1, nil, 0, 0)
	d.rest = !d.cut && skipBlank(in, d.at) < len(in)
	return d
}

// value reads one value; false if reading must stop.
func (d *document) value(parent int32, name []byte, index int32, depth int) bool {
	d.at = skipBlank(d.in, d.at)
	if d.at >= len(d.in) || depth > maxDepth || len(d.nodes) >= maxNodes {
		return false
	}
	id := len(d.nodes)
	n := node{name: name, parent: parent, index: index, from: int32(d.at), kind: word}
	ok := false
	switch c := d.in[d.at]; {
	case c == '{' || c == '[':
		n.kind = kind(c)
		d.nodes = append(d.nodes, n)
		ok = d.children(int32(id), depth)
	case c == '"':
		n.kind = text
		d.nodes = append(d.nodes, n)
		ok = d.skipString()
	default:
		if c == '-' || isDigit(c) {
			n.kind = number
		}
		d.nodes = append(d.nodes, n)
		ok = d.skipWord()
	}
	if ok {
		d.nodes[id].to = int32(d.at)
	}
	return ok
}

// children reads the members of an object or the elements of an array.
func (d *document) children(id int32, depth int) bool {
	end := byte(d.nodes[id].kind) + 2 // in ASCII, } and ] are two after { and [
	d.at++
	for i := int32(0); ; i++ {
		d.at = skipBlank(d.in, d.at)
		if d.take(end) {
			return true
		}
		if i > 0 && !d.take(',') {
			return false
		}
		var name []byte
		if end == '}' {
			var ok bool
			if name, ok = d.name(); !ok {
				return false
			}
		}
		d.nodes[id].size = i + 1
		if !d.value(id, name, i, depth+1) {
			return false
		}
	}
}

// name reads the name of a member and the colon after it.
func (d *document) name() ([]byte, bool) {
	d.at = skipBlank(d.in, d.at)
	from := d.at
	if from >= len(d.in) || d.in[from] != '"' || !d.skipString() {
		return nil, false
	}
	name := d.in[from+1 : d.at-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		s, _ := jsonrpc.String(d.in[from:d.at])
		name = []byte(s)
	}
	d.at = skipBlank(d.in, d.at)
	return name, d.take(':')
}

func (d *document) skipString() bool {
	for d.at++; d.at < len(d.in); d.at++ {
		switch d.in[d.at] {
		case '\\':
			d.at++
		case '"':
			d.at++
			return true
		}
	}
	d.at = len(d.in)
	return false
}

// skipWord skips a number or a word; false if there is none, or if it may continue after
// the end of the text.
func (d *document) skipWord() bool {
	from := d.at
	for d.at < len(d.in) && bytes.IndexByte([]byte(",:]}[{\" \t\r\n"), d.in[d.at]) < 0 {
		d.at++
	}
	return d.at > from && (d.at < len(d.in) || len(d.nodes) == 1)
}

func (d *document) take(c byte) bool {
	if d.at >= len(d.in) || d.in[d.at] != c {
		return false
	}
	d.at++
	return true
}

// raw returns the source text of a node; for a truncated node, what there is.
func (d *document) raw(id int32) []byte {
	n := &d.nodes[id]
	if n.to == 0 {
		return d.in[n.from:]
	}
	return d.in[n.from:n.to]
}

// scalar returns the value of a node; false if it is not a scalar, or truncated.
func (d *document) scalar(id int32) (scalar, bool) {
	n := &d.nodes[id]
	if n.to == 0 || n.kind == object || n.kind == array {
		return scalar{}, false
	}
	raw := d.in[n.from:n.to]
	switch n.kind {
	case text:
		s, ok := jsonrpc.String(raw)
		return scalar{s, text}, ok
	case number:
		return scalar{string(raw), number}, isNumber(string(raw))
	}
	s := string(raw)
	return scalar{s, word}, s == "true" || s == "false" || s == "null"
}

// member returns the node of a member; -1 if there is none.
func (d *document) member(of int32, name string) int32 {
	if of >= 0 {
		for id := of + 1; int(id) < len(d.nodes) && d.nodes[id].parent >= of; id++ {
			if d.nodes[id].parent == of && string(d.nodes[id].name) == name {
				return id
			}
		}
	}
	return -1
}

// isNumber reports whether s is a JSON number.
func isNumber(s string) bool {
	return s != "" && len(s) <= 40 && (s[0] == '-' || isDigit(s[0])) && jsonrpc.Valid([]byte(s))
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func skipBlank(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}
