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

// kind is what a value is written as.
type kind byte

const (
	object kind = '{'
	array  kind = '['
	text   kind = 's'
	number kind = 'n'
	word   kind = 'w' // true, false or null
)

// scalar is one value: a string as it reads, anything else as it is written.
type scalar struct {
	text string
	kind kind
}

// node is one value of a document.
type node struct {
	name     []byte // as a member of its parent; nil: an element, or the document itself
	parent   int32  // -1: it is the document
	index    int32  // among its parent's members or elements
	size     int32  // its own members or elements, as far as they were read
	from, to int32  // where it is written; to is 0 if its end was not seen
	kind     kind
}

// document is a JSON text, or the beginning of one, as nodes in the order in which they
// begin. It is the one reader of JSON here: arguments, answers, and answers that were cut
// off are all read by it.
type document struct {
	in    []byte
	nodes []node
	at    int
	cut   bool // something is missing: the text breaks off, or goes beyond the bounds
	rest  bool // something else stands behind it
}

// parse reads the JSON with which a text begins, up to where it breaks off.
func parse(in []byte) *document {
	d := &document{in: in}
	d.cut = !d.value(-1, nil, 0, 0)
	d.rest = !d.cut && skipBlank(in, d.at) < len(in)
	return d
}

// value reads one value; false ends the reading.
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

// inside reads the members of an object or the elements of an array.
func (d *document) children(id int32, depth int) bool {
	end := byte(d.nodes[id].kind) + 2 // } and ] stand two after { and [
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

// name reads the name of a member and the colon behind it.
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

// skipWord reads a number or a word; false if there is none, or it may go on behind the
// end of the text.
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

// raw is a node as it is written; of one that is cut off, what there is.
func (d *document) raw(id int32) []byte {
	n := &d.nodes[id]
	if n.to == 0 {
		return d.in[n.from:]
	}
	return d.in[n.from:n.to]
}

// scalar is the value of a node; false if it has none, or it is not whole.
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

// member is the node of a member of a node; -1 if there is none.
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

// isNumber reports whether s is a number as JSON writes it.
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
