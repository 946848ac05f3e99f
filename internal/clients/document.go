package clients

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
	"github.com/tailscale/hujson"
)

const (
	maxSize  = 64 << 20 // bytes: Claude Code keeps much else in its file
	maxDepth = 1000     // objects and lists in each other: the parser has no bound of its own
)

// document is one file: what it says, and at which bytes.
type document struct {
	path  string
	text  []byte // in UTF-8, without a byte order mark
	wrote func(text []byte) []byte
	toml  bool // of JSON with comments and trailing commas, if not
	root  node
}

// node is one value of a document.
type node struct {
	doc      *document
	pointer  string // JSON pointer (RFC 6901)
	value    any    // nil, string, bool, number, []node or []member
	from, to int    // bytes of the text; of TOML both 0
}

// member is one of an object.
type member struct {
	name string
	at   int // where its name begins; of TOML its place among all keys
	node
}

type number string // as written

// parse reads a file. An error says where in the file it is, and repeats nothing of its
// values, as those may be secret.
func parse(path string, data []byte) (*document, error) {
	if len(data) > maxSize {
		return nil, fmt.Errorf("%s: want a file of at most %d MiB", path, maxSize>>20)
	}
	d := &document{path: path, toml: strings.HasSuffix(path, ".toml")}
	if d.text, d.wrote = decode(data); !bytes.Equal(d.wrote(d.text), data) {
		return nil, fmt.Errorf("%s: want a file in UTF-8 or UTF-16; nothing is changed in it", path)
	}
	if d.toml {
		return d, d.parseTOML()
	}
	return d, d.parseJSON()
}

// decode is a file's text, and what writes a text as the file is written.
func decode(data []byte) ([]byte, func([]byte) []byte) {
	for mark, order := range map[string]binary.AppendByteOrder{"\xff\xfe": binary.LittleEndian, "\xfe\xff": binary.BigEndian} {
		rest, ok := bytes.CutPrefix(data, []byte(mark))
		if !ok {
			continue
		}
		var units []uint16
		for ; len(rest) > 1; rest = rest[2:] {
			units = append(units, order.(binary.ByteOrder).Uint16(rest))
		}
		return []byte(string(utf16.Decode(units))), func(text []byte) []byte {
			out := []byte(mark)
			for _, unit := range utf16.Encode([]rune(string(text))) {
				out = order.AppendUint16(out, unit)
			}
			return out
		}
	}
	const mark = "\ufeff"
	text, marked := bytes.CutPrefix(data, []byte(mark))
	return text, func(text []byte) []byte {
		if marked {
			return append([]byte(mark), text...)
		}
		return text
	}
}

func (d *document) parseJSON() error {
	if i := tooDeep(d.text); i >= 0 {
		return fmt.Errorf("%s:%d: want objects and lists at most %d deep", d.path, d.line(i), maxDepth)
	}
	if len(bytes.TrimSpace(d.text)) == 0 {
		return fmt.Errorf("%s:1:1: want JSON; the file is empty", d.path)
	}
	// A comment on the last line may lack its end of line.
	root, err := hujson.Parse(append(bytes.Clone(d.text), '\n'))
	if err != nil {
		return fmt.Errorf("%s:%s", d.path, position(err))
	}
	d.root = d.fromJSON("", root)
	return nil
}

func (d *document) fromJSON(pointer string, v hujson.Value) node {
	n := node{doc: d, pointer: pointer, from: v.StartOffset, to: v.EndOffset}
	switch v := v.Value.(type) {
	case *hujson.Object:
		all := make([]member, len(v.Members))
		for i, m := range v.Members {
			name := m.Name.Value.(hujson.Literal).String()
			all[i] = member{name, m.Name.StartOffset, d.fromJSON(pointer+"/"+escape(name), m.Value)}
		}
		n.value = all
	case *hujson.Array:
		all := make([]node, len(v.Elements))
		for i, e := range v.Elements {
			all[i] = d.fromJSON(pointer+"/"+strconv.Itoa(i), e)
		}
		n.value = all
	case hujson.Literal:
		switch v.Kind() {
		case '"':
			n.value = v.String()
		case 't', 'f':
			n.value = v.Bool()
		case '0':
			n.value = number(v)
		}
	}
	return n
}

// parseTOML reads the values; where the blocks stand is looked up when they are changed.
func (d *document) parseTOML() error {
	if i := tooDeep(d.text); i >= 0 {
		return fmt.Errorf("%s:%d: want tables and lists at most %d deep", d.path, d.line(i), maxDepth)
	}
	var tree map[string]any
	meta, err := toml.Decode(string(d.text), &tree)
	if wrong, ok := errors.AsType[toml.ParseError](err); ok {
		return fmt.Errorf("%s:%d:%d: want TOML", d.path, wrong.Position.Line, wrong.Position.Col)
	} else if err != nil {
		return fmt.Errorf("%s: want TOML", d.path)
	}
	order := make(map[string]int) // key → its place in the file
	for i, key := range meta.Keys() {
		if _, ok := order[key.String()]; !ok {
			order[key.String()] = i
		}
	}
	d.root = d.fromTOML("", nil, tree, order)
	return nil
}

func (d *document) fromTOML(pointer string, key toml.Key, v any, order map[string]int) node {
	n := node{doc: d, pointer: pointer}
	switch v := v.(type) {
	case map[string]any:
		all := []member{}
		for name, e := range v {
			below := append(key[:len(key):len(key)], name)
			all = append(all, member{name, order[below.String()], d.fromTOML(pointer+"/"+escape(name), below, e, order)})
		}
		slices.SortFunc(all, func(a, b member) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.name, b.name)) })
		n.value = all
	case []any:
		all := []node{}
		for i, e := range v {
			all = append(all, d.fromTOML(pointer+"/"+strconv.Itoa(i), nil, e, nil))
		}
		n.value = all
	case string, bool:
		n.value = v
	default:
		n.value = number(fmt.Sprint(v))
	}
	return n
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
func (d *document) line(at int) int {
	return 1 + bytes.Count(d.text[:min(at, len(d.text))], []byte("\n"))
}

// where is FILE:LINE of a value.
func (n node) where() string {
	if n.doc.toml {
		return n.doc.path
	}
	return n.doc.path + ":" + strconv.Itoa(n.doc.line(n.from))
}

// kind says what a value is, in an error that wanted another.
func (n node) kind() string {
	switch n.value.(type) {
	case nil:
		return "null"
	case bool:
		return "true or false"
	case number:
		return "a number"
	case string:
		return "a string"
	case []node:
		return "a list"
	}
	return "an object"
}

// members are those of an object, in the order of the file; of two with one name the
// later, as in most parsers. ok is false if the value is no object and not null.
func (n node) members() (all []member, ok bool) {
	raw, ok := n.value.([]member)
	index := make(map[string]int)
	for _, m := range raw {
		if i, again := index[m.name]; again {
			all[i] = m
			continue
		}
		index[m.name] = len(all)
		all = append(all, m)
	}
	return all, ok || n.value == nil
}

// child follows names down from an object; false if one is missing, or null.
func (n node) child(names ...string) (node, bool) {
	for _, name := range names {
		raw, _ := n.value.([]member)
		found := false
		for _, m := range raw {
			if m.name == name {
				n, found = m.node, m.value != nil
			}
		}
		if !found {
			return node{}, false
		}
	}
	return n, true
}

// strings are those in a list; none if it is not there.
func (n node) strings(names ...string) []string {
	n, _ = n.child(names...)
	elements, _ := n.value.([]node)
	var all []string
	for _, e := range elements {
		if s, ok := e.value.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

// scalar is a string, a number or a truth value as text.
func (n node) scalar() (string, bool) {
	switch v := n.value.(type) {
	case string:
		return v, true
	case number:
		return string(v), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

// escape is a name as a part of a JSON pointer.
func escape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// valid reports whether a text can be written into a file in UTF-8.
func valid(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
