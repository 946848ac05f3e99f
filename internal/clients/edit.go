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

// ownName is what mcpschedd is called among a client's servers; ownSmall is its program that
// only connects.
const (
	ownName  = "mcpschedd"
	ownSmall = "mcpschedd-small"
)

// rawServer is a server as a file has it.
type rawServer struct {
	member hujson.ObjectMember
	block  string // in TOML
}

// edited is the file as it is after a change, which the document itself does not see.
func (d *document) edited(change func(*document) error) ([]byte, error) {
	was, err := d.encoded(d.text)
	if err != nil {
		return nil, err
	}
	now, err := parse(d.path, was) // a clone of the tree would lose its trailing commas
	if err != nil {
		return nil, err
	}
	if err := change(now); err != nil {
		return nil, err
	}
	out, err := now.encoded(now.text)
	if err == nil {
		_, err = parse(d.path, out)
	}
	if err != nil {
		return nil, fmt.Errorf("nothing was changed, as the change would break it: %w", err)
	}
	return out, nil
}

// pack makes the text say what the values do.
func (d *document) pack() { d.text = bytes.TrimSuffix(d.root.Pack(), []byte("\n")) } // that the parser wanted

// swap takes servers out of a table, and puts others there: in the place of the first that
// goes, or else at the end. All else of the file, and its comments, stay. A table that is
// missing is made if something is put into it.
func (d *document) swap(table []string, take func(name string) bool, put []rawServer) error {
	if d.toml {
		return d.swapBlocks(table, take, put)
	}
	at := d.top()
	for i, name := range table {
		next, ok := at.child(name)
		if !ok {
			if len(put) == 0 {
				return nil
			}
			inner := &hujson.Object{}
			swapMembers(inner, nil, put)
			v := hujson.Value{Value: inner}
			for _, outer := range slices.Backward(table[i+1:]) {
				v = hujson.Value{Value: &hujson.Object{Members: []hujson.ObjectMember{newMember(outer, v)}}}
			}
			// null, as a missing one, is what a table is made of; it goes.
			take, put = func(n string) bool { return n == name }, []rawServer{{member: newMember(name, v)}}
			break
		}
		at = next
	}
	object, ok := at.json.Value.(*hujson.Object)
	if !ok {
		return fmt.Errorf("%s: %s: want an object, have %s", at.where(), at.pointer, at.kind())
	}
	swapMembers(object, take, put)
	d.pack()
	return nil
}

func newMember(name string, v hujson.Value) hujson.ObjectMember {
	v.BeforeExtra = hujson.Extra(" ")
	return hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(name)}, Value: v}
}

func swapMembers(o *hujson.Object, take func(name string) bool, put []rawServer) {
	indent, comma := hujson.Extra(nil), false
	if n := len(o.Members); n > 0 {
		indent, comma = indentation(o.Members[0].Name.BeforeExtra), o.Members[n-1].Value.AfterExtra != nil
	}
	var all []hujson.ObjectMember
	insert := func(before, after hujson.Extra) {
		for _, p := range put {
			p.member.Name.BeforeExtra, p.member.Value.AfterExtra = before, after
			all, before = append(all, p.member), indent
		}
		put = nil
	}
	var comments hujson.Extra // of servers that went
	for _, m := range o.Members {
		m.Name.BeforeExtra = joined(comments, m.Name.BeforeExtra)
		comments = nil
		switch {
		case !take(m.Name.Value.(hujson.Literal).String()):
			all = append(all, m)
		case len(put) > 0:
			insert(m.Name.BeforeExtra, m.Value.AfterExtra)
		default:
			comments = joined(m.Name.BeforeExtra, m.Value.AfterExtra)
		}
	}
	insert(indent, nil)
	o.AfterExtra = joined(comments, o.AfterExtra)
	if n := len(all); n > 0 { // what stands behind the last one says whether it has a comma
		last := &all[n-1].Value
		if !comma {
			o.AfterExtra, last.AfterExtra = joined(last.AfterExtra, o.AfterExtra), nil
		} else if last.AfterExtra == nil {
			last.AfterExtra = hujson.Extra{}
		}
	}
	o.Members = all
}

// joined is what stands between two members, behind comments that are left of what stood before
// it; without a comment in them they go.
func joined(comments, next hujson.Extra) hujson.Extra {
	if !bytes.ContainsRune(comments, '/') {
		return next
	}
	if trimmed := bytes.TrimLeft(next, " \t\r"); bytes.HasPrefix(trimmed, []byte("\n")) {
		comments = bytes.TrimRight(comments, " \t\r\n")
	}
	return slices.Concat(comments, next)
}

// indentation is the white space before a member, with its end of line.
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

// pieces are servers of a table as the file has them: to be put back elsewhere.
func (d *document) pieces(table []string, take func(name string) bool) (all []rawServer) {
	if d.toml {
		blocks, _ := tomlblock.Of(d.text, table...)
		for _, b := range blocks {
			if take(b.Name) {
				all = append(all, rawServer{block: string(d.text[b.From:b.To])})
			}
		}
		return all
	}
	at, ok := d.top().child(table...)
	if !ok {
		return nil
	}
	if object, ok := at.json.Value.(*hujson.Object); ok {
		for _, m := range object.Members {
			if take(m.Name.Value.(hujson.Literal).String()) {
				all = append(all, rawServer{member: m})
			}
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
		with += p.block
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

// own is the entry of mcpschedd itself, as a client's file has it.
func (d *document) own(shape shape, line, approved []string) rawServer {
	if d.toml {
		block := fmt.Sprintf("[%s]\n%s\n%s\n", toml.Key{codexTable, ownName}, assignment("command", line[0]), assignment("args", line[1:]))
		return rawServer{block: strings.ReplaceAll(block, "\n", tomlblock.LineEnd(d.text))}
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
		panic(err) // it is put together from strings
	}
	return rawServer{member: newMember(ownName, v)}
}

var servesTOML = regexp.MustCompile(`(\bargs\s*=\s*\[\s*)["']serve["']`)

// connecting is mcpschedd's own entry, which started serve, as it starts connect: by program,
// if that stands beside the one that it was started by.
func (s rawServer) connecting(program string) rawServer {
	if s.block != "" {
		s.block = servesTOML.ReplaceAllString(s.block, `${1}"connect"`)
		return s
	}
	done := false
	for v := range s.member.Value.All() {
		switch is := v.Value.(type) {
		case *hujson.Array:
			for i := range is.Elements {
				if word, ok := is.Elements[i].Value.(hujson.Literal); ok && !done && word.Kind() == '"' && word.String() == "serve" {
					is.Elements[i].Value, done = hujson.String("connect"), true
				}
			}
		case hujson.Literal:
			if is.Kind() == '"' && is.String() != program && filepath.IsAbs(is.String()) && bare(is.String()) == ownName && filepath.Dir(is.String()) == filepath.Dir(program) {
				v.Value = hujson.String(program)
			}
		}
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
