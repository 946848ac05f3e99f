package clients

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
)

// Taken are servers that a client's file had in one table, and has no longer.
type Taken struct {
	Table     []string `json:"table"`
	Names     []string `json:"names"`
	Upstreams []string `json:"upstreams"` // what each is now
}

// Pointed is a client's file that has mcpschedd in the place of servers of its own.
type Pointed struct {
	Path  string
	Text  []byte
	Taken []Taken
	Own   []string // the table that mcpschedd was put into; nil: it was there already
}

// Checked reports whether a file belongs to a project, so that others have it too: it is
// never changed.
func (r *Reader) Checked(path string) bool { return r.project(path) != "" }

// Point takes servers out of the files that they were read from, and puts mcpschedd there,
// which line starts. called is the upstream that a server has become; "": it stays.
// approved are tools of it that the client need not ask about.
func (r *Reader) Point(called func(Server) string, line []string, approved func(Server) []string) ([]Pointed, error) {
	var all []Pointed
	for _, path := range slices.Sorted(maps.Keys(r.docs)) {
		if r.Checked(path) {
			continue
		}
		doc := r.docs[path]
		client, main := clientOf(doc)
		p := Pointed{Path: path}
		var free []string
		for _, s := range r.servers {
			upstream := called(s)
			if s.File != path || upstream == "" {
				continue
			}
			i := slices.IndexFunc(p.Taken, func(t Taken) bool { return slices.Equal(t.Table, s.table) })
			if i < 0 {
				i = len(p.Taken)
				p.Taken = append(p.Taken, Taken{Table: s.table})
			}
			p.Taken[i].Names, p.Taken[i].Upstreams = append(p.Taken[i].Names, s.entry), append(p.Taken[i].Upstreams, upstream)
			free = append(free, approved(s)...)
		}
		if len(p.Taken) == 0 {
			continue
		}
		if !slices.Contains(r.self, path) {
			p.Own = main
		}
		var err error
		if p.Text, err = doc.pointed(p, doc.own(client.shape, line, free)); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// pointed is the text of a file that was.
func (d *document) pointed(p Pointed, own string) ([]byte, error) {
	e := edit{doc: d}
	put := []string{own}
	if p.Own == nil {
		put = nil
	}
	for _, t := range p.Taken {
		var here []string
		if slices.Equal(t.Table, p.Own) {
			here, put = put, nil
		}
		if err := e.swap(t.Table, func(name string) bool { return slices.Contains(t.Names, name) }, here); err != nil {
			return nil, err
		}
	}
	if len(put) > 0 {
		if err := e.swap(p.Own, func(string) bool { return false }, put); err != nil {
			return nil, err
		}
	}
	text := d.wrote(e.text())
	return text, checked(d.path, text, p)
}

// checked reads a text that is to be written, and fails if it does not say what it should.
func checked(path string, text []byte, p Pointed) error {
	doc, err := parse(path, text)
	if err != nil {
		return fmt.Errorf("nothing was changed, as the change would break it: %w", err)
	}
	for _, t := range p.Taken {
		for _, name := range t.Names {
			if _, ok := doc.root.child(append(slices.Clone(t.Table), name)...); ok {
				return fmt.Errorf("%s: nothing was changed: %s would still be there", path, shown(name))
			}
		}
	}
	if _, ok := doc.root.child(append(slices.Clone(p.Own), ownName)...); p.Own != nil && !ok {
		return fmt.Errorf("%s: nothing was changed: mcpschedd would not be there", path)
	}
	return nil
}

// back is a file, changed since, in which the servers stand again that were taken out of it,
// and mcpschedd no longer does.
func (p Pointed) back(now, before []byte) ([]byte, error) {
	current, err := parse(p.Path, now)
	if err != nil {
		return nil, err
	}
	was, err := parse(p.Path, before)
	if err != nil {
		return nil, err
	}
	e := edit{doc: current}
	own := func(name string) bool { return name == ownName }
	gone := p.Own != nil
	for _, t := range p.Taken {
		there, _ := current.root.child(t.Table...)
		put := was.raw(t.Table, func(name string) bool {
			_, again := there.child(name)
			return slices.Contains(t.Names, name) && !again
		})
		take := func(string) bool { return false }
		if gone && slices.Equal(t.Table, p.Own) {
			take, gone = own, false
		}
		if err := e.swap(t.Table, take, put); err != nil {
			return nil, err
		}
	}
	if gone {
		if err := e.swap(p.Own, own, nil); err != nil {
			return nil, err
		}
	}
	text := current.wrote(e.text())
	if _, err := parse(p.Path, text); err != nil {
		return nil, fmt.Errorf("nothing was changed, as the change would break it: %w", err)
	}
	return text, nil
}

// Called is a server's name in the client's file.
func (s Server) Called() string {
	if s.Was != "" {
		return s.Was
	}
	return s.Name
}

// Advice is what a client is to be told by hand, as its file belongs to a project; "":
// nothing.
func (r *Reader) Advice(s Server) string {
	if !r.Checked(s.File) {
		return ""
	}
	if filepath.Base(s.File) == ".mcp.json" {
		return OneLine(fmt.Sprintf("%s is not changed, as it belongs to a project: put %s among the \"disabledMcpjsonServers\" of %s",
			s.File, quote(s.Called()), filepath.Join(filepath.Dir(s.File), ".claude", "settings.local.json")))
	}
	return OneLine(fmt.Sprintf("%s is not changed, as it belongs to a project: turn %s off in the client", s.File, quote(s.Called())))
}
