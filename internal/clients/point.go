package clients

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
)

// Pointed is a client's file that starts mcpschedd instead of servers of its own.
type Pointed struct {
	Path     string
	Text     []byte
	Moves    []Move // removed servers
	Connects bool   // an entry of mcpschedd was changed from serve to connect
}

// Checked reports whether a file belongs to a project, so that it is shared with others: it is
// never changed.
func (r *Reader) Checked(path string) bool { return r.project(path) != "" }

// Point returns the files that were read without the servers that become upstreams, and with
// mcpschedd, which the command line starts. Existing entries of mcpschedd serve are changed to
// connect. With approve, the client may call the tools of these servers through mcpschedd
// without asking, as it did before.
func (r *Reader) Point(line []string, approve bool) ([]Pointed, error) {
	var all []Pointed
	for _, path := range slices.Sorted(maps.Keys(r.docs)) {
		if r.Checked(path) {
			continue
		}
		doc, p := r.docs[path], Pointed{Path: path}
		var taken []Origin
		var approved []string
		for _, s := range r.servers {
			if s.From.File == path && s.Upstream != "" {
				taken, p.Moves, approved = append(taken, s.From), append(p.Moves, s.move()), append(approved, s.Approved...)
			}
		}
		if !approve {
			approved = nil
		}
		client, _ := clientOf(doc)
		own, put := slices.Clone(r.self), []rawServer{doc.own(client.shape, line, approved)}
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

// point changes mcpschedd's own entries to start connect with the given program, removes
// servers, and adds others to the user's table.
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

// revert returns a client's file as it is now, with the changes of an import undone: the
// removed servers are restored and mcpschedd's entry is removed. before and made are the file's
// texts before and after the import.
func revert(path string, now, before, made []byte) ([]byte, error) {
	var docs [3]*document
	for i, text := range [][]byte{now, before, made} {
		var err error
		if docs[i], err = parse(path, text); err != nil {
			return nil, err
		}
	}
	return docs[0].edited(func(d *document) error {
		for _, table := range docs[1].serverTables() {
			old, imported, current := docs[1].servers(table), docs[2].servers(table), d.servers(table)
			take := func(name string) bool { is := textOf(imported, name); return is != "" && is != textOf(old, name) }
			put := slices.DeleteFunc(slices.Clone(old), func(s rawServer) bool {
				removed := textOf(imported, s.name) == ""
				return !removed && !take(s.name) || removed != (textOf(current, s.name) == "")
			})
			if err := d.swap(table, take, put); err != nil {
				return err
			}
		}
		return nil
	})
}

// Advice returns what the user must change by hand, if the client's file belongs to a project;
// else "".
func (r *Reader) Advice(s Server) string {
	if !r.Checked(s.From.File) {
		return ""
	}
	if filepath.Base(s.From.File) == ".mcp.json" {
		return OneLine(fmt.Sprintf("%s is not changed, since it belongs to a project: add %s to the \"disabledMcpjsonServers\" of %s",
			s.From.File, quote(s.Called()), filepath.Join(filepath.Dir(s.From.File), ".claude", "settings.local.json")))
	}
	return OneLine(fmt.Sprintf("%s is not changed, since it belongs to a project: turn %s off in the client", s.From.File, quote(s.Called())))
}
