package clients

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"
)

const (
	maxSize  = 64 << 20 // bytes: Claude Code keeps much else in its file
	maxDepth = 1000     // objects and lists in each other: the parser has no bound of its own
)

// document is one file as JSON.
type document struct {
	name string
	data []byte
	root hujson.Value
}

// parse reads JSON with comments and trailing commas. An error says where in the file
// it is, and repeats nothing of its values, as those may be secret.
func parse(name string, data []byte) (*document, error) {
	if len(data) > maxSize {
		return nil, fmt.Errorf("%s: want a file of at most %d MiB", name, maxSize>>20)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if i := tooDeep(data); i >= 0 {
		return nil, fmt.Errorf("%s:%d: want objects and lists at most %d deep", name, line(data, i), maxDepth)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, fmt.Errorf("%s:1:1: want JSON; the file is empty", name)
	}
	// A comment on the last line may lack its end of line.
	root, err := hujson.Parse(append(bytes.Clone(data), '\n'))
	if err != nil {
		return nil, fmt.Errorf("%s:%s", name, position(err))
	}
	return &document{name, data, root}, nil
}

var placed = regexp.MustCompile(`^hujson: line (\d+), column (\d+): (.*)$`)

// position is LINE:COLUMN: message of the parser's error.
func position(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	text, _, quotes := strings.Cut(text, "invalid literal: ")
	if quotes { // and what it quotes may be a secret
		text += "want a string, a number, true, false or null"
	}
	m := placed.FindStringSubmatch(text)
	if m == nil {
		return " want JSON"
	}
	return m[1] + ":" + m[2] + ": want JSON: " + m[3]
}

// tooDeep is where the nesting goes too far; -1: nowhere.
func tooDeep(data []byte) int {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			if depth++; depth > maxDepth {
				return i
			}
		case '}', ']':
			depth--
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case '/':
			i += comment(data[i:])
		}
	}
	return -1
}

// comment is how far behind its slash a comment goes; 0: it is none.
func comment(data []byte) int {
	for begin, end := range map[string]string{"//": "\n", "/*": "*/"} {
		if bytes.HasPrefix(data, []byte(begin)) {
			if n := bytes.Index(data[2:], []byte(end)); n >= 0 {
				return n + 1 + len(end)
			}
			return len(data)
		}
	}
	return 0
}

// line is the line of an offset, from 1.
func line(data []byte, at int) int { return 1 + bytes.Count(data[:min(at, len(data))], []byte("\n")) }

// node is one value of a document.
type node struct {
	doc     *document
	pointer string
	value   hujson.Value
}

func (d *document) node() node { return node{doc: d, value: d.root} }

// at is FILE:LINE of a value.
func (n node) at() string {
	return n.doc.name + ":" + strconv.Itoa(line(n.doc.data, n.value.StartOffset))
}

// kind says what a value is, for those who wanted something else.
func (n node) kind() string {
	switch n.value.Value.Kind() {
	case 'n':
		return "null"
	case 't', 'f':
		return "true or false"
	case '0':
		return "a number"
	case '"':
		return "a string"
	case '[':
		return "a list"
	}
	return "an object"
}

func (n node) null() bool { return n.value.Value.Kind() == 'n' }

// member is one of an object.
type member struct {
	name string
	node
}

// members are those of an object, in the order of the file; of two with one name the
// later, as in most parsers. Without any, and for null, they are none; ok is false if
// the value is neither.
func (n node) members() (all []member, ok bool) {
	o, ok := n.value.Value.(*hujson.Object)
	if !ok {
		return nil, n.null()
	}
	index := make(map[string]int)
	for _, m := range o.Members {
		name := m.Name.Value.(hujson.Literal).String()
		got := member{name, node{n.doc, n.pointer + "/" + escape(name), m.Value}}
		if i, again := index[name]; again {
			all[i] = got
			continue
		}
		index[name] = len(all)
		all = append(all, got)
	}
	return all, true
}

// child is a member of an object; false if there is none, or null.
func (n node) child(name string) (node, bool) {
	all, _ := n.members()
	for _, m := range all {
		if m.name == name && !m.null() {
			return m.node, true
		}
	}
	return node{}, false
}

func (n node) elements() (all []node, ok bool) {
	a, ok := n.value.Value.(*hujson.Array)
	if !ok {
		return nil, false
	}
	for i, v := range a.Elements {
		all = append(all, node{n.doc, n.pointer + "/" + strconv.Itoa(i), v})
	}
	return all, true
}

func (n node) string() (string, bool) {
	l, ok := n.value.Value.(hujson.Literal)
	if !ok || l.Kind() != '"' {
		return "", false
	}
	return l.String(), true
}

// scalar is a string, a number or a truth value as text.
func (n node) scalar() (string, bool) {
	l, ok := n.value.Value.(hujson.Literal)
	if !ok || l.Kind() == 'n' {
		return "", false
	}
	return l.String(), true
}

func (n node) is(want bool) bool {
	l, ok := n.value.Value.(hujson.Literal)
	return ok && l.Kind() != '"' && string(l) == strconv.FormatBool(want)
}

// escape is a name as a part of a JSON pointer (RFC 6901).
func escape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
