package clients

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/tailscale/hujson"

	"mcpschedd/internal/tomlblock"
)

// ownName is mcpschedd's name among a client's servers; ownSmall is its program that only has
// connect.
const (
	ownName  = "mcpschedd"
	ownSmall = "mcpschedd-small"
)

// rawServer is a server as written in a file.
type rawServer struct {
	name   string
	member hujson.ObjectMember
	blocks string // of TOML
}

// text returns the server's text without surrounding white space and comments.
func (s rawServer) text() string {
	if s.blocks != "" {
		return strings.TrimSpace(s.blocks)
	}
	v := hujson.Value{Value: s.member.Value.Value}
	return string(v.Pack())
}

// textOf returns the text of all entries of a table with the given name, "" if there are none.
func textOf(all []rawServer, name string) (text string) {
	for _, s := range all {
		if s.name == name {
			text += s.text()
		}
	}
	return text
}

// edited returns the file's contents after a change, which is made to a copy of the document.
func (d *document) edited(change func(*document) error) ([]byte, error) {
	now, err := parse(d.path, d.bytes()) // a clone of the tree would lose its trailing commas
	if err != nil {
		return nil, err
	}
	if err := change(now); err != nil {
		return nil, err
	}
	if _, err = parse(d.path, now.bytes()); err != nil {
		return nil, fmt.Errorf("not changed, since the result would be invalid: %w", err)
	}
	return now.bytes(), nil
}

// pack updates the text from the values.
func (d *document) pack() { d.text = bytes.TrimSuffix(d.root.Pack(), []byte("\n")) } // parseJSON added the line end

// swap removes servers from a table and inserts others: in place of the first removed one, or
// at the end. Everything else in the file is preserved, with its comments. A missing table is
// created if servers are inserted.
func (d *document) swap(table []string, take func(name string) bool, put []rawServer) error {
	if d.toml {
		return d.swapBlocks(table, take, put)
	}
	for i := range table {
		if _, ok := d.top().child(table[:i+1]...); ok {
			continue
		}
		if len(put) == 0 {
			return nil
		}
		if err := d.patch("add", pointer(table[:i+1]), struct{}{}); err != nil { // also replaces null
			return err
		}
	}
	at, _ := d.top().child(table...)
	object, ok := at.json.Value.(*hujson.Object)
	if !ok {
		return fmt.Errorf("%s: %s: want an object, have %s", at.where(), at.pointer, at.kind())
	}
	swapMembers(object, take, put)
	d.pack()
	return nil
}

// swapMembers is swap within an object. Extra text after the last member shows that it has a
// trailing comma.
func swapMembers(o *hujson.Object, take func(name string) bool, put []rawServer) {
	indent, comma := hujson.Extra(nil), false
	if n := len(o.Members); n > 0 {
		indent, comma = indentation(o.Members[0].Name.BeforeExtra), o.Members[n-1].Value.AfterExtra != nil
	}
	var all []hujson.ObjectMember
	insert := func(before hujson.Extra) {
		for _, p := range put {
			p.member.Name.BeforeExtra, p.member.Value.AfterExtra = before, nil
			all, before = append(all, p.member), indent
		}
		put = nil
	}
	for _, m := range o.Members {
		if take(nameOf(m)) {
			insert(m.Name.BeforeExtra)
		} else {
			all = append(all, m)
		}
	}
	insert(indent)
	if n := len(all); n > 0 {
		last := &all[n-1].Value
		if !comma {
			o.AfterExtra, last.AfterExtra = slices.Concat(last.AfterExtra, o.AfterExtra), nil
		} else if last.AfterExtra == nil {
			last.AfterExtra = hujson.Extra{}
		}
	}
	o.Members = all
}

func nameOf(m hujson.ObjectMember) string { return m.Name.Value.(hujson.Literal).String() }

// indentation returns the white space before a member, with the line end.
func indentation(before hujson.Extra) hujson.Extra {
	i := bytes.LastIndexByte(before, '\n')
	if i < 0 || bytes.ContainsRune(before[i:], '/') {
		return hujson.Extra(" ")
	}
	if i > 0 && before[i-1] == '\r' {
		i--
	}
	return before[i:]
}

// serverTables returns the paths of the tables that may have servers; the first is the user's.
func (d *document) serverTables() [][]string {
	_, main := clientOf(d)
	all := [][]string{main}
	for _, p := range d.projects() {
		all = append(all, []string{"projects", p.name, "mcpServers"})
	}
	return all
}

// servers returns the servers of a table as written.
func (d *document) servers(table []string) (all []rawServer) {
	if d.toml {
		blocks, _ := tomlblock.Of(d.text, table...)
		for _, b := range blocks {
			all = append(all, rawServer{name: b.Name, blocks: string(d.text[b.From:b.To])})
		}
		return all
	}
	at, ok := d.top().child(table...)
	if !ok {
		return nil
	}
	if object, ok := at.json.Value.(*hujson.Object); ok {
		for _, m := range object.Members {
			all = append(all, rawServer{name: nameOf(m), member: m})
		}
	}
	return all
}

func (d *document) swapBlocks(table []string, take func(string) bool, put []rawServer) error {
	blocks, err := tomlblock.Of(d.text, table...)
	if err != nil {
		return fmt.Errorf("%s: %w", d.path, err)
	}
	end, with := tomlblock.LineEnd(d.text), ""
	for _, p := range put {
		with += p.blocks
	}
	var out []byte
	done := 0
	for _, b := range blocks {
		if !take(b.Name) {
			continue
		}
		if with != "" && b.To < len(d.text) && !strings.HasSuffix(with, end+end) {
			with += end
		}
		out = append(append(out, d.text[done:b.From]...), with...)
		done, with = b.To, ""
	}
	out = append(out, d.text[done:]...)
	if with != "" && len(out) > 0 {
		if out[len(out)-1] != '\n' {
			with = end + with
		}
		with = end + with
	}
	d.text = append(out, with...)
	return nil
}

// own returns the entry of mcpschedd for the file.
func (d *document) own(shape shape, line, approved []string) rawServer {
	if d.toml {
		block := fmt.Sprintf("[%s]\n%s\n%s\n", toml.Key{codexTable, ownName}, assignment("command", line[0]), assignment("args", line[1:]))
		return rawServer{name: ownName, blocks: strings.ReplaceAll(block, "\n", tomlblock.LineEnd(d.text))}
	}
	entry := fmt.Sprintf(`"command": %s, "args": %s`, quote(line[0]), list(line[1:]))
	switch shape {
	case opencodeShape:
		entry = `"type": "local", "command": ` + list(line) + `, "enabled": true`
	case typedShape:
		entry = `"type": "stdio", ` + entry
	case zedShape:
		entry = `"source": "custom", ` + entry + `, "env": {}`
	}
	if len(approved) > 0 {
		entry += `, "autoApprove": ` + list(approved)
	}
	v, err := hujson.Parse([]byte("{" + entry + "}"))
	if err != nil {
		panic(err) // unreachable: the entry consists of quoted strings
	}
	v.BeforeExtra = hujson.Extra(" ")
	return rawServer{name: ownName, member: hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(ownName)}, Value: v}}
}

// servesWord matches the argument serve in an entry of mcpschedd, in JSON or TOML.
var servesWord = regexp.MustCompile(`(\bargs"?\s*[:=]\s*\[\s*|"command"\s*:\s*\[\s*"[^"]*"\s*,\s*)["']serve["']`)

// connecting returns mcpschedd's own entry with connect instead of serve. It replaces the
// program with the given one if both are in the same folder.
func (s rawServer) connecting(program string) rawServer {
	if s.blocks != "" {
		s.blocks = servesWord.ReplaceAllString(s.blocks, `${1}"connect"`)
		return s
	}
	text := servesWord.ReplaceAllString(string(s.member.Value.Pack()), `${1}"connect"`)
	full := filepath.Join(filepath.Dir(program), ownName+filepath.Ext(program))
	if v, err := hujson.Parse([]byte(strings.ReplaceAll(text, quote(full), quote(program)))); err == nil {
		s.member.Value = v
	}
	return s
}

func list(words []string) string {
	var all []string
	for _, w := range words {
		all = append(all, quote(w))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

func quote(s string) string { return string(hujson.String(s)) }
