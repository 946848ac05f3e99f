package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
	"github.com/tailscale/hujson"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
)

const (
	maxSize  = 64 << 20 // bytes; Claude Code keeps much other data in its file
	maxDepth = 1000     // nesting of objects and lists: the parser itself has no limit
)

// document is one file of a client: JSON with comments and trailing commas, or TOML.
type document struct {
	path     string
	encoding encoding.Encoding
	toml     bool
	text     []byte       // in UTF-8, without a byte order mark
	root     hujson.Value // of TOML, only the servers
}

// node is one value of a document.
type node struct {
	doc     *document
	pointer string // JSON pointer (RFC 6901)
	json    *hujson.Value
}

// member is a member of an object.
type member struct {
	name string
	node
}

type number string // as written

// parse parses a file. An error has the position in the file but no values, which may be
// secret.
func parse(path string, data []byte) (*document, error) {
	if len(data) > maxSize {
		return nil, fmt.Errorf("%s: want a file of at most %d MiB", path, maxSize>>20)
	}
	d := &document{path: path, toml: strings.HasSuffix(path, ".toml"), encoding: encodingOf(data)}
	d.text, _ = d.encoding.NewDecoder().Bytes(data) // invalid bytes are replaced, which the next line detects
	if !bytes.Equal(d.bytes(), data) {
		return nil, fmt.Errorf("%s: want a file in UTF-8 or UTF-16; nothing is changed in it", path)
	}
	if i := tooDeep(d.text); i >= 0 {
		return nil, fmt.Errorf("%s:%d: want objects and lists at most %d deep", d.path, d.line(i), maxDepth)
	}
	if d.toml {
		return d, d.parseTOML()
	}
	return d, d.parseJSON()
}

// encodingOf determines a file's encoding by its byte order mark.
func encodingOf(data []byte) encoding.Encoding {
	for mark, as := range map[string]encoding.Encoding{
		"\xff\xfe": unicode.UTF16(unicode.LittleEndian, unicode.UseBOM), "\xfe\xff": unicode.UTF16(unicode.BigEndian, unicode.UseBOM), "\ufeff": unicode.UTF8BOM,
	} {
		if bytes.HasPrefix(data, []byte(mark)) {
			return as
		}
	}
	return encoding.Nop
}

// bytes returns the file's contents in its encoding.
func (d *document) bytes() []byte {
	out, _ := d.encoding.NewEncoder().Bytes(d.text) // cannot fail: the text was decoded from this encoding
	return out
}

func (d *document) parseJSON() (err error) {
	if len(bytes.TrimSpace(d.text)) == 0 {
		return fmt.Errorf("%s:1:1: want JSON; the file is empty", d.path)
	}
	// A comment on the last line may lack its end of line.
	if d.root, err = hujson.Parse(append(bytes.Clone(d.text), '\n')); err != nil {
		return fmt.Errorf("%s:%s", d.path, position(err))
	}
	return nil
}

// parseTOML parses the servers. Their positions are determined only when they are changed.
func (d *document) parseTOML() error {
	var tree map[string]any
	if _, err := toml.Decode(string(d.text), &tree); err != nil {
		if wrong, ok := errors.AsType[toml.ParseError](err); ok {
			return fmt.Errorf("%s:%d:%d: want TOML", d.path, wrong.Position.Line, wrong.Position.Col)
		}
		return fmt.Errorf("%s: want TOML", d.path)
	}
	servers, err := json.Marshal(map[string]any{codexTable: tree[codexTable]})
	if err != nil {
		return fmt.Errorf("%s: [%s]: want texts, whole numbers and lists of them", d.path, codexTable)
	}
	d.root, err = hujson.Parse(servers)
	return err
}

var hujsonError = regexp.MustCompile(`^hujson: line (\d+), column (\d+): (.*)$`)

// position formats the parser's error as LINE:COLUMN: message.
func position(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	text, _, quotes := strings.Cut(text, "invalid literal: ")
	if quotes { // the quoted literal may be a secret
		text += "want a string, a number, true, false or null"
	}
	m := hujsonError.FindStringSubmatch(text)
	if m == nil {
		return " want JSON"
	}
	return m[1] + ":" + m[2] + ": want JSON: " + m[3]
}

// tooDeep returns the offset at which the nesting exceeds maxDepth, or -1.
func tooDeep(data []byte) int {
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == '\n':
			quoted = false // a quote in a comment
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return i
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return -1
}

// line returns the line of an offset, starting at 1.
func (d *document) line(at int) int {
	return 1 + bytes.Count(d.text[:min(at, len(d.text))], []byte("\n"))
}

// where returns FILE:LINE of a value.
func (n node) where() string {
	if n.doc.toml {
		return n.doc.path
	}
	return n.doc.path + ":" + strconv.Itoa(n.doc.line(n.json.StartOffset))
}

func (d *document) top() node { return node{d, "", &d.root} }

// value returns the value of a node: nil, string, bool, number, []node or []member.
func (n node) value() any {
	if n.json == nil {
		return nil
	}
	switch v := n.json.Value.(type) {
	case *hujson.Object:
		all := make([]member, len(v.Members))
		for i := range v.Members {
			name := v.Members[i].Name.Value.(hujson.Literal).String()
			all[i] = member{name, node{n.doc, n.pointer + "/" + escape(name), &v.Members[i].Value}}
		}
		return all
	case *hujson.Array:
		all := make([]node, len(v.Elements))
		for i := range v.Elements {
			all[i] = node{n.doc, n.pointer + "/" + strconv.Itoa(i), &v.Elements[i]}
		}
		return all
	case hujson.Literal:
		switch v.Kind() {
		case '"':
			return v.String()
		case 't', 'f':
			return v.Bool()
		case '0':
			return number(v)
		}
	}
	return nil
}

// kind returns the kind of a value, for an error that wants another.
func (n node) kind() string {
	return map[hujson.Kind]string{
		'n': "null", 't': "true or false", 'f': "true or false", '0': "a number", '"': "a string", '[': "a list", '{': "an object",
	}[n.json.Value.Kind()]
}

// members returns the members of an object in the order of the file; of repeated names the last
// value, as in most parsers. ok is false if the value is neither an object nor null.
func (n node) members() (all []member, ok bool) {
	value := n.value()
	raw, ok := value.([]member)
	index := make(map[string]int)
	for _, m := range raw {
		if i, repeated := index[m.name]; repeated {
			all[i] = m
			continue
		}
		index[m.name] = len(all)
		all = append(all, m)
	}
	return all, ok || value == nil
}

// child returns the value at a path of names; false if it is missing or null.
func (n node) child(names ...string) (node, bool) {
	for _, name := range names {
		raw, _ := n.value().([]member)
		found := false
		for _, m := range raw {
			if m.name == name {
				n, found = m.node, m.json.Value.Kind() != 'n'
			}
		}
		if !found {
			return node{}, false
		}
	}
	return n, true
}

// elements returns the elements of the list at a path of names, none if it is missing.
func (n node) elements(names ...string) []node {
	n, _ = n.child(names...)
	all, _ := n.value().([]node)
	return all
}

// strings returns the strings in the list at a path of names.
func (n node) strings(names ...string) (all []string) {
	for _, e := range n.elements(names...) {
		if s, ok := e.value().(string); ok {
			all = append(all, s)
		}
	}
	return all
}

// scalar returns a string, number or boolean as text.
func (n node) scalar() (string, bool) {
	switch v := n.value().(type) {
	case string:
		return v, true
	case number:
		return string(v), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

// pointer returns the JSON pointer for a path of names.
func pointer(names []string) (text string) {
	for _, name := range names {
		text += "/" + escape(name)
	}
	return text
}

// escape escapes a name for a JSON pointer.
func escape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// valid reports whether a text can be written into a file in UTF-8.
func valid(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
