package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
	"github.com/tailscale/hujson"

	"mcpschedd/internal/tomlblock"
)

const (
	maxSize  = 64 << 20 // bytes; Claude Code keeps much other data in its file
	maxLists = 1 << 19  // objects and lists: the parser of JSON has no limit to their nesting
)

// document is one file of a client: JSON with comments and trailing commas, or TOML.
type document struct {
	path string
	toml bool
	mark []byte       // byte order mark, or nothing
	text []byte       // without it
	root hujson.Value // of JSON
	tree any          // its values, as decoded by encoding/json; numbers as json.Number
}

var byteOrderMark = []byte("\ufeff")

// parse parses a file. An error has the position in the file but no values, which may be
// secret.
func parse(path string, data []byte) (*document, error) {
	if len(data) > maxSize {
		return nil, fmt.Errorf("%s: want a file of at most %d MiB", path, maxSize>>20)
	}
	d := &document{path: path, toml: strings.HasSuffix(path, ".toml")}
	d.mark = data[:len(data)-len(bytes.TrimPrefix(data, byteOrderMark))]
	d.text = data[len(d.mark):]
	if !utf8.Valid(d.text) {
		return nil, fmt.Errorf("%s: want a file in UTF-8; nothing is changed in it", path)
	}
	if bytes.Count(d.text, []byte("["))+bytes.Count(d.text, []byte("{")) > maxLists {
		return nil, fmt.Errorf("%s: want at most %d objects and lists", path, maxLists)
	}
	if d.toml {
		return d, d.parseTOML()
	}
	return d, d.parseJSON()
}

// bytes returns the file's contents.
func (d *document) bytes() []byte { return slices.Concat(d.mark, d.text) }

var (
	hujsonError = regexp.MustCompile(`^hujson: line (\d+), column (\d+): ([^\n]*)`)
	invalid     = regexp.MustCompile(`invalid literal: .*`) // which may be a secret
)

func (d *document) parseJSON() (err error) {
	if len(bytes.TrimSpace(d.text)) == 0 {
		return fmt.Errorf("%s:1:1: want JSON; the file is empty", d.path)
	}
	// A comment on the last line may lack its end of line.
	if d.root, err = hujson.Parse(append(bytes.Clone(d.text), '\n')); err != nil {
		text := invalid.ReplaceAllString(err.Error(), "want a string, a number, true, false or null")
		m := hujsonError.FindStringSubmatch(text)
		if m == nil {
			return fmt.Errorf("%s: want JSON", d.path)
		}
		if strings.HasSuffix(m[3], "unexpected EOF") { // at the end of the added line
			line, column := 1+bytes.Count(d.text, []byte("\n")), len(d.text)-bytes.LastIndexByte(d.text, '\n')
			return fmt.Errorf("%s:%d:%d: want JSON; the file ends too early", d.path, line, column)
		}
		return fmt.Errorf("%s:%s:%s: want JSON: %s", d.path, m[1], m[2], m[3])
	}
	standard := d.root.Clone()
	standard.Standardize()
	values := json.NewDecoder(bytes.NewReader(standard.Pack()))
	values.UseNumber()
	if err := values.Decode(&d.tree); err != nil { // nested too deep
		return fmt.Errorf("%s: want JSON: %w", d.path, err)
	}
	return nil
}

func (d *document) parseTOML() error {
	tree := make(map[string]any)
	if _, err := toml.Decode(string(d.text), &tree); err != nil {
		wrong, _ := errors.AsType[toml.ParseError](err)
		return fmt.Errorf("%s:%d:%d: want TOML", d.path, wrong.Position.Line, wrong.Position.Col)
	}
	servers, err := json.Marshal(map[string]any{"mcp_servers": tree["mcp_servers"]})
	if err != nil {
		return fmt.Errorf("%s: [mcp_servers]: want texts, whole numbers and lists of them", d.path)
	}
	values := json.NewDecoder(bytes.NewReader(servers))
	values.UseNumber()
	return values.Decode(&d.tree)
}

// at returns the value at a path of names, or nil.
func at(tree any, names ...string) any {
	for _, name := range names {
		object, _ := tree.(map[string]any)
		tree = object[name]
	}
	return tree
}

// stringsAt returns the strings in the list at a path of names.
func stringsAt(tree any, names ...string) (all []string) {
	list, _ := at(tree, names...).([]any)
	for _, e := range list {
		if s, ok := e.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

// kindOf returns the kind of a value, for an error that wants another.
func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "true or false"
	case string:
		return "a string"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "a number"
}

// pointer returns the JSON pointer (RFC 6901) for a path of names.
func pointer(names ...string) (text string) {
	for _, name := range names {
		text += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	}
	return text
}

// where returns FILE:LINE of the value at a path of names.
func (d *document) where(names ...string) string {
	value := d.root.Find(pointer(names...))
	if value == nil {
		return d.path
	}
	before := d.text[:min(value.StartOffset, len(d.text))]
	return fmt.Sprintf("%s:%d", d.path, 1+bytes.Count(before, []byte("\n")))
}

// object returns the object at a path of names; nil if there is none.
func (d *document) object(names ...string) *hujson.Object {
	value := d.root.Find(pointer(names...))
	if value == nil {
		return nil
	}
	object, _ := value.Value.(*hujson.Object)
	return object
}

// repeated returns the first name of a path that its object has several times, or "": the client
// reads the last of these members, but the first one would be changed.
func (d *document) repeated(path []string) string {
	for i, name := range path {
		isNamed := func(m hujson.ObjectMember) bool { return nameOf(m) == name }
		object := d.object(path[:i]...)
		if object == nil {
			break
		}
		if first := slices.IndexFunc(object.Members, isNamed); first >= 0 && slices.ContainsFunc(object.Members[first+1:], isNamed) {
			return name
		}
	}
	return ""
}

// projects returns the sorted folders in the "projects" table of Claude Code's file.
func (d *document) projects() []string {
	all, _ := at(d.tree, "projects").(map[string]any)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(folder string) bool { return !filepath.IsAbs(folder) })
}

// serverTables returns the paths of the tables that may have servers; the first is the
// user's.
func (d *document) serverTables() [][]string {
	_, main := clientOf(d)
	all := [][]string{main}
	for _, folder := range d.projects() {
		all = append(all, []string{"projects", folder, "mcpServers"})
	}
	return all
}

// names returns the names of servers, in the order of the file if it is JSON.
func (d *document) names(table []string) (names []string) {
	if d.toml {
		servers, _ := at(d.tree, table...).(map[string]any)
		return slices.Sorted(maps.Keys(servers))
	}
	for _, w := range d.written(table) {
		if !slices.Contains(names, w.Name) {
			names = append(names, w.Name)
		}
	}
	return names
}

// written returns the servers of a table by their names, as written in the file: JSON with what is
// before their names, or the blocks of TOML.
func (d *document) written(table []string) (all []Pair) {
	if d.toml {
		blocks, _ := tomlblock.Of(d.text, table...)
		for _, b := range blocks {
			all = append(all, Pair{b.Name, string(d.text[b.From:b.To])})
		}
		return all
	}
	if object := d.object(table...); object != nil {
		for _, m := range object.Members {
			all = append(all, Pair{nameOf(m), string(hujson.Value{BeforeExtra: m.Name.BeforeExtra, Value: m.Value.Value}.Pack())})
		}
	}
	return all
}

func nameOf(m hujson.ObjectMember) string { return m.Name.Value.(hujson.Literal).String() }

// edited returns the file's contents after a change, which is made to a copy of the
// document. Contents with the same values are not changed.
func (d *document) edited(change func(*document) error) ([]byte, error) {
	now, err := parse(d.path, d.bytes())
	if err != nil {
		return nil, err
	}
	if err := change(now); err != nil {
		return nil, fmt.Errorf("%s: %w", d.path, err)
	}
	if !d.toml {
		now.text = bytes.TrimSuffix(now.root.Pack(), []byte("\n")) // parseJSON added the line end
	}
	after, err := parse(d.path, now.bytes())
	if err != nil {
		return nil, fmt.Errorf("not changed, since the result would be invalid: %w", err)
	}
	if reflect.DeepEqual(after.tree, d.tree) {
		return d.bytes(), nil
	}
	return now.bytes(), nil
}

// patch changes the document by one operation of a JSON patch (RFC 6902), and preserves
// comments and white space.
func (d *document) patch(operation, path string, value any) error {
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false) // of the & and > in commands
	if err := out.Encode([]any{map[string]any{"op": operation, "path": path, "value": value}}); err != nil {
		return err
	}
	return d.root.Patch(text.Bytes())
}

// swap removes servers from a table and inserts others: in place of the first removed
// one, or at the end. Everything else in the file is preserved, with its comments. A
// missing table is created if servers are inserted.
func (d *document) swap(table []string, take func(name string) bool, put []Pair) error {
	if d.toml {
		var with strings.Builder
		for _, p := range put {
			with.WriteString(p.Value)
		}
		text, _, err := tomlblock.Swap(d.text, table, take, with.String())
		d.text = text
		return err
	}
	for i := range table {
		if path := table[:i+1]; len(put) > 0 && d.object(path...) == nil {
			if err := d.patch("add", pointer(path...), struct{}{}); err != nil {
				return err
			}
		}
	}
	object := d.object(table...)
	if object == nil {
		return nil
	}
	all, indent, comma := object.Members, hujson.Extra(" "), false // comma: a trailing one
	if n := len(all); n > 0 {
		indent, comma = lineStart(all[0].Name.BeforeExtra), all[n-1].Value.AfterExtra != nil
	}
	taken := func(m hujson.ObjectMember) bool { return take(nameOf(m)) }
	at := slices.IndexFunc(all, taken)
	if all = slices.DeleteFunc(all, taken); at < 0 {
		at = len(all)
	}
	for i, p := range put {
		value, err := hujson.Parse([]byte(p.Value))
		if err != nil {
			return err
		}
		name := hujson.Value{BeforeExtra: indent, Value: hujson.String(p.Name)}
		if !value.BeforeExtra.IsStandard() { // comments of a server that is put back
			name.BeforeExtra = value.BeforeExtra
		}
		value.BeforeExtra = hujson.Extra(" ")
		all = slices.Insert(all, at+i, hujson.ObjectMember{Name: name, Value: value})
	}
	if n := len(all); n > 0 && !comma {
		if extra := all[n-1].Value.AfterExtra; !extra.IsStandard() { // a comment before the comma
			object.AfterExtra = slices.Concat(extra, object.AfterExtra)
		}
		all[n-1].Value.AfterExtra = nil
	}
	object.Members = all
	return nil
}

// lineStart returns the white space at the start of the line of a value, from the text
// before it.
func lineStart(before hujson.Extra) hujson.Extra {
	i := bytes.LastIndexByte(before, '\n')
	if i < 0 || bytes.ContainsRune(before[i:], '/') {
		return hujson.Extra(" ")
	}
	if i > 0 && before[i-1] == '\r' {
		i--
	}
	return before[i:]
}
