package clients

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Reader collects the servers of one or more files. The zero value is not usable.
type Reader struct {
	options Options
	drafts  []*draft
	notes   []Note
	self    []string // files that have mcpschedd
}

// NewReader returns one that has read nothing.
func NewReader(o Options) *Reader { return &Reader{options: o} }

// NoServers is a file without any.
type NoServers struct{ File string }

// Error names the keys that were looked for.
func (e *NoServers) Error() string {
	return e.File + `: no servers: want them under "mcpServers", "servers", "mcp": {"servers"}, "mcp.servers" or "context_servers"`
}

// table is an object of servers, by their names.
type table struct {
	node
	scope string // of Claude Code's own file
	base  string // the project's folder; "": none
	off   []string
}

// Read takes the servers of a file, whose path is absolute. A server that cannot be
// read is left out, with a note; an error is a file that is no JSON, whose servers are
// no object, or that has none (a [*NoServers]).
func (r *Reader) Read(path string, data []byte) error {
	doc, err := parse(path, data)
	if err != nil {
		return err
	}
	root := doc.node()
	if _, ok := root.members(); !ok {
		return fmt.Errorf("%s: want an object, have %s", root.at(), root.kind())
	}
	tables := r.tables(root)
	found := 0
	for _, t := range tables {
		servers, ok := t.members()
		if !ok {
			return fmt.Errorf("%s: %s: want an object of servers by their names, have %s", t.at(), t.pointer, t.kind())
		}
		found += len(servers)
		for _, m := range servers {
			r.server(t, m)
		}
	}
	if found == 0 {
		return &NoServers{path}
	}
	return nil
}

// tables are where a file may have its servers; the nearer to the project first, as
// of two servers with one name Claude Code takes that.
func (r *Reader) tables(root node) []table {
	base := r.project(root.doc.name)
	tables := r.local(root)
	scope := ""
	if _, own := root.child("projects"); own {
		scope = "user"
	}
	for _, path := range [][]string{{"mcpServers"}, {"servers"}, {"mcp", "servers"}, {"mcp.servers"}, {"context_servers"}} {
		at, ok := root, true
		for _, name := range path {
			if at, ok = at.child(name); !ok {
				break
			}
		}
		if ok {
			tables = append(tables, table{node: at, scope: scope, base: base})
		}
	}
	return tables
}

// local are the servers that Claude Code keeps for the project in the current folder,
// in the user's own file. Those of others are said.
func (r *Reader) local(root node) []table {
	var tables []table
	projects, _ := root.child("projects")
	all, _ := projects.objects()
	others, where := 0, 0
	for _, p := range all {
		servers, ok := p.child("mcpServers")
		if !ok {
			continue
		}
		if r.options.Dir != "" && filepath.Clean(p.name) == filepath.Clean(r.options.Dir) {
			off, _ := p.child("disabledMcpServers")
			tables = append(tables, table{node: servers, scope: "local", base: p.name, off: off.strings()})
			continue
		}
		if few, _ := servers.members(); len(few) > 0 {
			others, where = others+len(few), where+1
		}
	}
	if others > 0 {
		r.note(projects, false, fmt.Sprintf("%s of %s left out: they are for those folders alone; import them from there", count(others, "server"), count(where, "other project")))
	}
	return tables
}

// objects are the members of a value, if it is there at all.
func (n node) objects() ([]member, bool) {
	if n.doc == nil {
		return nil, false
	}
	return n.members()
}

// strings are those in a list; none if it is not there.
func (n node) strings() []string {
	var all []string
	elements, _ := n.elements()
	for _, e := range elements {
		if s, ok := e.string(); ok {
			all = append(all, s)
		}
	}
	return all
}

// project is the folder of the project whose file this is, from which its relative
// paths start; "": it is the user's own file, or nothing tells.
func (r *Reader) project(path string) string {
	dir := filepath.Dir(path)
	if dir == r.options.Home {
		return ""
	}
	if filepath.Base(path) == ".mcp.json" {
		return dir
	}
	if slices.Contains([]string{".cursor", ".vscode", ".windsurf", ".gemini", ".roo", ".zed"}, filepath.Base(dir)) && filepath.Dir(dir) != r.options.Home {
		return filepath.Dir(dir)
	}
	return ""
}

func (r *Reader) note(n node, wrong bool, text string) {
	where := n.doc.name
	if wrong {
		where = n.at()
	}
	r.notes = append(r.notes, Note{Where: where, Pointer: shown(n.pointer), Text: text, Wrong: wrong})
}

// count is a number of things.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// shown is a name of the file as it may be printed.
func shown(s string) string {
	hidden := context{}.literal(s, false)
	for i, p := range hidden {
		if p.secret != nil {
			hidden[i] = piece{literal: "…"}
		}
	}
	return OneLine(hidden.plain())
}

// OneLine is a foreign text, such as the name of a file or of a server, as it
// may stand in a comment or on a line of output: what ends a line, moves the cursor or
// does not print is a question mark.
func OneLine(s string) string {
	return strings.Map(func(c rune) rune {
		if c == utf8.RuneError || !unicode.IsPrint(c) {
			return '?'
		}
		return c
	}, s)
}
