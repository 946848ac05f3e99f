package clients

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/tailscale/hujson"

	"mcpschedd/internal/tomlblock"
)

// Pointed is a client's file that starts mcpschedd instead of servers of its own.
type Pointed struct {
	Path  string
	Text  []byte
	Moves []Move // removed servers
}

// Point returns the files that were read without the servers that become upstreams, and
// with mcpschedd, which the command line starts.
func (r *Reader) Point(line []string) ([]Pointed, error) {
	var all []Pointed
	for _, path := range slices.Sorted(maps.Keys(r.docs)) {
		doc, p := r.docs[path], Pointed{Path: path}
		var taken []Origin
		for _, s := range r.servers {
			if s.From.File == path && s.Upstream != "" && !r.Checked(path) {
				taken, p.Moves = append(taken, s.From), append(p.Moves, s.move())
			}
		}
		if len(taken) == 0 {
			continue
		}
		var put []entry
		if !r.self[path] {
			put = []entry{doc.own(line)}
		}
		var err error
		p.Text, err = doc.edited(func(d *document) error {
			for _, table := range d.serverTables() {
				take := func(name string) bool {
					return slices.ContainsFunc(taken, func(o Origin) bool {
						return o.entry == name && slices.Equal(o.table, table)
					})
				}
				if err := d.swap(table, take, put); err != nil {
					return err
				}
				put = nil // only in the user's table
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// own returns the entry of mcpschedd for the file.
func (d *document) own(line []string) entry {
	if d.toml {
		command, args := assignment("command", line[0]), assignment("args", line[1:])
		block := fmt.Sprintf("[%s]\n%s\n%s\n", toml.Key{codexTable, ownName}, command, args)
		return entry{ownName, strings.ReplaceAll(block, "\n", tomlblock.LineEnd(d.text))}
	}
	client, _ := clientOf(d)
	text := fmt.Sprintf(`"command": %s, "args": %s`, quote(line[0]), list(line[1:]))
	switch client.shape {
	case opencodeShape:
		text = `"type": "local", "command": ` + list(line) + `, "enabled": true`
	case typedShape:
		text = `"type": "stdio", ` + text
	case zedShape:
		text = `"source": "custom", ` + text + `, "env": {}`
	}
	return entry{ownName, "{" + text + "}"}
}

func list(words []string) string {
	var all []string
	for _, w := range words {
		all = append(all, quote(w))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

func quote(s string) string { return string(hujson.String(s)) }

// revert returns a client's file as it is now, with the changes of an import undone: the
// servers in moves are restored from the text before the import, and mcpschedd's entry
// is removed.
func revert(path string, now, before []byte, moves []Move) ([]byte, error) {
	doc, err := parse(path, now)
	if err != nil {
		return nil, err
	}
	was, err := parse(path, before)
	if err != nil {
		return nil, err
	}
	return doc.edited(func(d *document) error {
		for _, table := range was.serverTables() {
			old, current := was.entries(table), d.entries(table)
			take := func(name string) bool { return name == ownName && !hasEntry(old, name) }
			put := slices.DeleteFunc(slices.Clone(old), func(e entry) bool {
				return hasEntry(current, e.name) || !slices.ContainsFunc(moves, func(m Move) bool { return m.Name == e.name })
			})
			if err := d.swap(table, take, put); err != nil {
				return err
			}
		}
		return nil
	})
}

func hasEntry(all []entry, name string) bool {
	return slices.ContainsFunc(all, func(e entry) bool { return e.name == name })
}

// Advice returns what the user must change by hand, if the client's file belongs to a
// project; else "".
func (r *Reader) Advice(s Server) string {
	file, how := s.From.File, "turn "+quote(s.Called())+" off in the client"
	if !r.Checked(file) {
		return ""
	}
	if filepath.Base(file) == ".mcp.json" {
		settings := filepath.Join(filepath.Dir(file), ".claude", "settings.local.json")
		how = "add " + quote(s.Called()) + ` to the "disabledMcpjsonServers" of ` + settings
	}
	return OneLine(file + " is not changed, since it belongs to a project: " + how)
}
