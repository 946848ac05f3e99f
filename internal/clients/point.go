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
	Path  string `json:"path"`
	Text  []byte `json:"-"`
	Taken []Taken
	Own   []string // the table that mcpschedd was put into; nil: it was there already
	// Connects are mcpschedd's own entries that start connect, and started serve.
	Connects []ownEntry `json:",omitempty"`
}

// Checked reports whether a file belongs to a project, so that others have it too: it is
// never changed.
func (r *Reader) Checked(path string) bool { return r.project(path) != "" }

// Point takes servers out of the files that they were read from, and puts mcpschedd there,
// which line starts. called is the upstream that a server has become; "": it stays.
// approved are tools of it that the client need not ask about. What starts mcpschedd serve
// already starts connect then.
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
			if s.From.File != path || upstream == "" {
				continue
			}
			i := slices.IndexFunc(p.Taken, func(t Taken) bool { return slices.Equal(t.Table, s.From.table) })
			if i < 0 {
				i = len(p.Taken)
				p.Taken = append(p.Taken, Taken{Table: s.From.table})
			}
			p.Taken[i].Names, p.Taken[i].Upstreams = append(p.Taken[i].Names, s.From.entry), append(p.Taken[i].Upstreams, upstream)
			free = append(free, approved(s)...)
		}
		there := false
		for _, own := range r.self {
			there = there || own.file == path
			if own.file == path && own.serves {
				p.Connects = append(p.Connects, own)
			}
		}
		if len(p.Taken)+len(p.Connects) == 0 {
			continue
		}
		if !there {
			p.Own = main
		}
		var err error
		if p.Text, err = doc.pointed(p, doc.own(client.shape, line, free), line[0]); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func nothing(string) bool { return false }

func isOwn(name string) bool { return name == ownName }

// pointed is the file with mcpschedd in the place of the servers that are taken.
func (d *document) pointed(p Pointed, own rawServer, program string) ([]byte, error) {
	return d.edited(func(d *document) error {
		for _, own := range p.Connects {
			for _, piece := range d.pieces(own.Table, own.is) {
				if err := d.swap(own.Table, own.is, []rawServer{piece.connecting(program)}); err != nil {
					return err
				}
			}
		}
		put := []rawServer{own}
		if p.Own == nil {
			put = nil
		}
		for _, t := range p.Taken {
			var here []rawServer
			if slices.Equal(t.Table, p.Own) {
				here, put = put, nil
			}
			if err := d.swap(t.Table, func(name string) bool { return slices.Contains(t.Names, name) }, here); err != nil {
				return err
			}
		}
		if len(put) > 0 {
			return d.swap(p.Own, nothing, put)
		}
		return nil
	})
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
	return current.edited(func(d *document) error {
		gone := p.Own != nil
		for _, own := range p.Connects {
			if len(d.pieces(own.Table, own.is)) == 0 {
				continue // it has been taken out since
			}
			if err := d.swap(own.Table, own.is, was.pieces(own.Table, own.is)); err != nil {
				return err
			}
		}
		for _, t := range p.Taken {
			there, _ := d.top().child(t.Table...)
			put := was.pieces(t.Table, func(name string) bool {
				_, again := there.child(name)
				return slices.Contains(t.Names, name) && !again
			})
			take := nothing
			if gone && slices.Equal(t.Table, p.Own) {
				take, gone = isOwn, false
			}
			if err := d.swap(t.Table, take, put); err != nil {
				return err
			}
		}
		if gone {
			return d.swap(p.Own, isOwn, nil)
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
