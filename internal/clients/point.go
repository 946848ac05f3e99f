package clients

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
)

// Pointed is a client's file that has mcpschedd in the place of servers of its own.
type Pointed struct {
	Path     string
	Text     []byte
	Moves    []Move // servers that it has no longer
	Connects bool   // mcpschedd itself starts connect there, and started serve
}

// Checked reports whether a file belongs to a project, so that others have it too: it is
// never changed.
func (r *Reader) Checked(path string) bool { return r.project(path) != "" }

// Point takes the servers that become upstreams out of the files that they were read from, and
// puts mcpschedd there, which line starts. With approve the client need not ask about the tools
// of mcpschedd that it did not ask about as theirs. What starts mcpschedd serve already starts
// connect then.
func (r *Reader) Point(line []string, approve bool) ([]Pointed, error) {
	var all []Pointed
	for _, path := range slices.Sorted(maps.Keys(r.docs)) {
		if r.Checked(path) {
			continue
		}
		doc, p := r.docs[path], Pointed{Path: path}
		var taken []Origin
		var free []string
		for _, s := range r.servers {
			if s.From.File == path && s.Upstream != "" {
				taken, p.Moves, free = append(taken, s.From), append(p.Moves, s.move()), append(free, s.Approved...)
			}
		}
		if !approve {
			free = nil
		}
		client, _ := clientOf(doc)
		own, put := slices.Clone(r.self), []rawServer{doc.own(client.shape, line, free)}
		if own = slices.DeleteFunc(own, func(o ownEntry) bool { return o.file != path }); len(own) > 0 {
			put = nil
		}
		if p.Connects = slices.ContainsFunc(own, func(o ownEntry) bool { return o.serves }); len(taken) == 0 && !p.Connects {
			continue
		}
		var err error
		if p.Text, err = doc.edited(func(d *document) error { return d.point(own, taken, put, line[0]) }); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// point has mcpschedd's own entries start connect by program, takes servers out, and puts others
// among those of the client's user.
func (d *document) point(own []ownEntry, taken []Origin, put []rawServer, program string) error {
	for _, o := range own {
		is := func(name string) bool { return o.serves && name == o.name }
		for _, s := range d.servers(o.table) {
			if !is(s.name) {
				continue
			}
			if err := d.swap(o.table, is, []rawServer{s.connecting(program)}); err != nil {
				return err
			}
		}
	}
	for i, table := range d.serverTables() {
		if i > 0 {
			put = nil
		}
		take := func(name string) bool {
			return slices.ContainsFunc(taken, func(o Origin) bool { return o.entry == name && slices.Equal(o.table, table) })
		}
		if err := d.swap(table, take, put); err != nil {
			return err
		}
	}
	return nil
}

// back is a client's file as it is now, in which what an import has done to it is undone: the
// servers stand again that it took out, and its own do not. The file was before, and the import
// made it so.
func back(path string, now, before, made []byte) ([]byte, error) {
	var docs [3]*document
	for i, text := range [][]byte{now, before, made} {
		var err error
		if docs[i], err = parse(path, text); err != nil {
			return nil, err
		}
	}
	return docs[0].edited(func(d *document) error {
		for _, table := range docs[1].serverTables() {
			was, are, there := docs[1].servers(table), docs[2].servers(table), d.servers(table)
			take := func(name string) bool { is := said(are, name); return is != "" && is != said(was, name) }
			put := slices.DeleteFunc(slices.Clone(was), func(s rawServer) bool {
				gone := said(are, s.name) == ""
				return !gone && !take(s.name) || gone != (said(there, s.name) == "")
			})
			if err := d.swap(table, take, put); err != nil {
				return err
			}
		}
		return nil
	})
}

// Advice is what a client is to be told by hand, as its file belongs to a project; "":
// nothing.
func (r *Reader) Advice(s Server) string {
	if !r.Checked(s.From.File) {
		return ""
	}
	if filepath.Base(s.From.File) == ".mcp.json" {
		return OneLine(fmt.Sprintf("%s is not changed, as it belongs to a project: put %s among the \"disabledMcpjsonServers\" of %s",
			s.From.File, quote(s.Called()), filepath.Join(filepath.Dir(s.From.File), ".claude", "settings.local.json")))
	}
	return OneLine(fmt.Sprintf("%s is not changed, as it belongs to a project: turn %s off in the client", s.From.File, quote(s.Called())))
}
