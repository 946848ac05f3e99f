package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"mcpschedd/internal/tomlblock"
)

// splice replaces the bytes of a text from one place to another.
type splice struct {
	from, to int
	with     string
}

// edit collects changes to a document's text.
type edit struct {
	doc     *document
	splices []splice
}

func (e *edit) replace(from, to int, with string) {
	e.splices = append(e.splices, splice{from, to, with})
}

// text is the document's with the changes made.
func (e *edit) text() []byte {
	slices.SortStableFunc(e.splices, func(a, b splice) int { return a.from - b.from })
	var out []byte
	done := 0
	for _, s := range e.splices {
		out = append(append(out, e.doc.text[done:max(done, s.from)]...), s.with...)
		done = max(done, s.to)
	}
	return append(out, e.doc.text[done:]...)
}

// swap takes the servers of some names out of a table, and puts others there, which are
// written as the file is: in the place of the first that goes, or else at the end. A table
// that is missing is made if something is put into it.
func (e *edit) swap(table []string, take func(name string) bool, put []string) error {
	if e.doc.toml {
		return e.swapTOML(table, take, put)
	}
	at := e.doc.root
	for i, name := range table {
		next, ok := at.child(name)
		if !ok {
			if len(put) == 0 {
				return nil
			}
			inner := "{" + strings.Join(put, ", ") + "}"
			for _, outer := range slices.Backward(table[i+1:]) {
				inner = "{" + quote(outer) + ": " + inner + "}"
			}
			// null, as a missing one, is what a table is made of; it goes.
			return e.swapMembers(at, func(n string) bool { return n == name }, []string{quote(name) + ": " + inner})
		}
		at = next
	}
	return e.swapMembers(at, take, put)
}

func (e *edit) swapMembers(object node, take func(string) bool, put []string) error {
	all, ok := object.value.([]member)
	if !ok {
		return fmt.Errorf("%s: %s: want an object, have %s", object.where(), object.pointer, object.kind())
	}
	text := e.doc.text
	sep := ", "
	if len(all) > 0 {
		if indent := indentation(text, all[0].at); strings.Contains(indent, "\n") {
			sep = "," + indent
		}
	}
	kept := -1 // the last member before this one that stays
	for i, m := range all {
		switch {
		case !take(m.name):
			kept = i
		case len(put) > 0:
			e.replace(m.at, m.to, strings.Join(put, sep))
			put, kept = nil, i
		default:
			from, to := alone(text, m.at, m.to)
			// Its comma goes with it; the last may have none, and then the one before it is too many.
			comma := extra(text, m.to)
			if text[comma] != ',' && kept >= 0 {
				comma = extra(text, all[kept].to)
			}
			if text[comma] == ',' {
				e.replace(comma, comma+1, "")
			}
			e.replace(from, to, "")
		}
	}
	switch {
	case len(put) == 0:
	case len(all) == 0:
		e.replace(object.from+1, object.from+1, strings.Join(put, ", "))
	default:
		last := all[len(all)-1].to
		e.replace(last, last, sep+strings.Join(put, sep))
	}
	return nil
}

// indentation is the white space before a place, with its end of line.
func indentation(text []byte, at int) string {
	from := at
	for from > 0 && (text[from-1] == ' ' || text[from-1] == '\t') {
		from--
	}
	if from > 0 && text[from-1] == '\n' {
		from--
		if from > 0 && text[from-1] == '\r' {
			from--
		}
	}
	return string(text[from:at])
}

// alone is a part of a text with the white space around it, if it has its lines for itself.
func alone(text []byte, from, to int) (int, int) {
	end := to
	for end < len(text) && (text[end] == ' ' || text[end] == '\t' || text[end] == ',') {
		end++
	}
	before := indentation(text, from)
	if end < len(text) && (text[end] == '\n' || text[end] == '\r') && strings.Contains(before, "\n") {
		return from - len(before), to
	}
	return from, to
}

// extra is the first place from one on that is neither white space nor in a comment.
func extra(text []byte, at int) int {
	for at < len(text) {
		switch c := text[at]; {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			at++
		case c == '/':
			at += comment(text[at:]) + 1
		default:
			return at
		}
	}
	return at
}

// raw are the entries of a table as the file has them, by name: to be put back elsewhere.
func (d *document) raw(table []string, take func(name string) bool) (all []string) {
	if d.toml {
		blocks, _ := tomlblock.Of(d.text, table...)
		for _, b := range blocks {
			if take(b.Name) {
				all = append(all, string(d.text[b.From:b.To]))
			}
		}
		return all
	}
	at, _ := d.root.child(table...)
	members, _ := at.value.([]member)
	for _, m := range members {
		if take(m.name) {
			all = append(all, string(d.text[m.at:m.to]))
		}
	}
	return all
}

func (e *edit) swapTOML(table []string, take func(string) bool, put []string) error {
	blocks, err := tomlblock.Of(e.doc.text, table...)
	if err != nil {
		return fmt.Errorf("%s: %w", e.doc.path, err)
	}
	end := tomlblock.LineEnd(e.doc.text)
	for _, b := range blocks {
		if !take(b.Name) {
			continue
		}
		with := ""
		if len(put) > 0 {
			with, put = strings.Join(put, ""), nil
			if b.To < len(e.doc.text) && !strings.HasSuffix(with, end+end) {
				with += end
			}
		}
		e.replace(b.From, b.To, with)
	}
	if len(put) > 0 {
		with := strings.Join(put, "")
		if text := e.doc.text; len(text) > 0 {
			with = end + with
			if text[len(text)-1] != '\n' {
				with = end + with
			}
		}
		e.replace(len(e.doc.text), len(e.doc.text), with)
	}
	return nil
}

func quote(s string) string {
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	if out.Encode(s) != nil {
		return `""` // strings always encode
	}
	return strings.TrimSpace(b.String())
}

// own is the entry of mcpschedd itself, as a client's file has it.
func (d *document) own(shape shape, line, approved []string) string {
	if d.toml {
		var b strings.Builder
		fmt.Fprintf(&b, "[%s]\n%s\n%s\n", toml.Key{"mcp_servers", ownName}, assignment("command", line[0]), assignment("args", line[1:]))
		if bytes.Contains(d.text, []byte("\r\n")) {
			return strings.ReplaceAll(b.String(), "\n", "\r\n")
		}
		return b.String()
	}
	list := func(words []string) string {
		all := make([]string, len(words))
		for i, w := range words {
			all[i] = quote(w)
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	command := `"command": ` + quote(line[0]) + `, "args": ` + list(line[1:])
	switch shape {
	case opencodeShape:
		command = `"type": "local", "command": ` + list(line) + `, "enabled": true`
	case typedShape:
		command = `"type": "stdio", ` + command
	case zedShape:
		command = `"source": "custom", ` + command + `, "env": {}`
	}
	if len(approved) > 0 {
		command += `, "autoApprove": ` + list(approved)
	}
	return quote(ownName) + ": {" + command + "}"
}

// ownName is what mcpschedd is called among a client's servers.
const ownName = "mcpschedd"
