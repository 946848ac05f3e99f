package clients

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// Change is a new text for a file, and what is needed to revert it even if the file has
// changed since. It is stored without the texts, which may be secret.
type Change struct {
	Path   string `json:"path"`
	Was    []byte `json:"-"` // nil if the file did not exist
	Text   []byte `json:"-"`
	Shared bool   `json:"-"` // the file belongs to a project or an administrator: it must not be changed

	Kept  string `json:"kept,omitempty"` // name of the copy; "" if the file did not exist
	After string `json:"after"`          // digest of Text

	Client  bool     `json:"client,omitempty"` // it is a client's file with servers
	Moves   []Move   `json:"moves,omitempty"`
	Renamed []Rename `json:"renamed,omitempty"`
	Hooks   bool     `json:"hooks,omitempty"` // the new text has hooks of mcpschedd
}

// Move is a server of a client that became an upstream.
type Move struct {
	Name     string `json:"name"`             // in the client's file
	Folder   string `json:"folder,omitempty"` // project folder of the server; "" if it is for all
	Upstream string `json:"upstream"`
}

// move returns the move of a server, which has at most one folder.
func (s Server) move() Move {
	return Move{s.From.entry, strings.Join(s.Block.Folders, ""), s.Name}
}

// Rename is a replaced word in a file with rules.
type Rename struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Point returns the changes that replace the servers which do not stay with their clients
// with mcpschedd, which the command line starts, in the files that were read. longest is the longest timeout of its
// other servers, and variables are the names of those that it needs besides.
func (r *Reader) Point(line []string, longest time.Duration, variables ...string) (all []Change, err error) {
	for _, s := range r.servers {
		if s.Stays == "" {
			variables = append(variables, s.environment...)
			longest = max(longest, s.Block.Timeout)
		}
	}
	slices.Sort(variables)
	variables = slices.Compact(variables)
	for _, path := range slices.Sorted(maps.Keys(r.docs)) {
		doc := r.docs[path]
		c := Change{Path: path, Was: doc.bytes(), Client: true}
		taken := r.taken(path)
		if len(taken) == 0 {
			continue
		}
		for _, s := range taken {
			c.Moves = append(c.Moves, s.move())
		}
		var put []Pair
		if !r.self[path] {
			put = []Pair{doc.own(line, variables, longest)}
		}
		c.Text, err = doc.edited(func(d *document) error {
			for _, table := range d.serverTables() {
				take := func(name string) bool { return has(taken, table, name) }
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
		all = append(all, c)
	}
	return all, nil
}

// taken returns the servers of a file that do not stay with their client.
func (r *Reader) taken(path string) []Server {
	return slices.DeleteFunc(slices.Clone(r.servers), func(s Server) bool {
		return s.From.File != path || s.Stays != "" || r.project(path) != ""
	})
}

// has reports whether the servers include that of an entry.
func has(servers []Server, table []string, entry string) bool {
	return slices.ContainsFunc(servers, func(s Server) bool { return s.From.entry == entry && slices.Equal(s.From.table, table) })
}

// ownTimeout is how long Codex, OpenCode and Copilot CLI wait for a call of mcpschedd at least, if one of the servers
// has a timeout of its own. The defaults are 300 s (Codex 0.171) and 30 s (OpenCode).
const ownTimeout = 300 * time.Second

// own returns the entry of mcpschedd for the file. Codex passes on only the variables that an entry names. These
// clients give up a call after the entry's timeout, which must not be shorter than the longest one of a server.
func (d *document) own(line, variables []string, longest time.Duration) Pair {
	client, table := clientOf(d)
	timeout := ""
	key, limit := d.timeout(max(longest, ownTimeout))
	if longest > 0 {
		timeout = fmt.Sprintf(`, %q: %d`, key, limit)
	}
	values := strings.NewReplacer("$PROGRAM", literal(line[0]), "$ARGS", literal(line[1:]), "$LINE", literal(line), "$TIMEOUT", timeout)
	text := values.Replace(client.Own)
	if d.toml {
		if len(variables) > 0 {
			text += fmt.Sprintf("env_vars = %s\n", literal(variables))
		}
		if longest > 0 {
			text += fmt.Sprintf("%s = %d\n", key, limit)
		}
		text = fmt.Sprintf("[%s]\n%s", toml.Key(append(slices.Clip(table), ownName)), text)
	}
	return Pair{ownName, text}
}

// timeout returns the key in an entry for the time after which the client gives up a call, and a time in its unit; ""
// if the entry of mcpschedd needs none.
func (d *document) timeout(limit time.Duration) (key string, value int64) {
	switch client, _ := clientOf(d); {
	case d.toml:
		return "tool_timeout_sec", int64(math.Ceil(limit.Seconds()))
	case strings.Contains(client.Own, "$TIMEOUT"):
		return "timeout", limit.Milliseconds()
	}
	return "", 0
}

// reverted returns a client's file as it is now, with the changes of an import undone: the
// servers in moves are restored from the text before the import, and mcpschedd's entry
// is removed.
func reverted(path string, now, before []byte, moves []Move) ([]byte, error) {
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
			old, current := was.names(table), d.names(table)
			isMoved := func(name string) bool {
				return slices.ContainsFunc(moves, func(m Move) bool { return m.Name == name })
			}
			take := func(name string) bool {
				return name == ownName && (!slices.Contains(old, name) || isMoved(name))
			}
			put := slices.DeleteFunc(was.written(table), func(w Pair) bool {
				return !isMoved(w.Name) || slices.Contains(current, w.Name) && !take(w.Name)
			})
			if err := d.swap(table, take, put); err != nil {
				return err
			}
		}
		return nil
	})
}

// Advice returns what the user must change by hand for a server: a file of a project, and an entry of mcpschedd that
// passes on too few variables or has too short a timeout, are not changed.
func (r *Reader) Advice(s Server) (all []string) {
	doc, file := r.docs[s.From.File], s.From.File
	advise := func(format string, args ...any) { all = append(all, oneLine(file+": "+fmt.Sprintf(format, args...))) }
	if r.project(file) != "" {
		file += " is not changed, since it belongs to a project"
		advise("turn %s off in the client", literal(s.Called))
		return all
	}
	if !r.self[file] {
		return nil
	}
	own := at(doc.tree, append(slices.Clip(s.From.table), ownName)...)
	passed := stringsAt(own, "env_vars")
	more := slices.DeleteFunc(slices.Clone(s.environment), func(name string) bool { return slices.Contains(passed, name) })
	if doc.toml && len(more) > 0 {
		advise("add %s to env_vars of mcpschedd, as %s needs them", literal(more), s.Called)
	}
	key, least := doc.timeout(s.Block.Timeout)
	number, _ := at(own, key).(json.Number)
	if have, _ := number.Float64(); have < float64(least) {
		_, least = doc.timeout(max(s.Block.Timeout, ownTimeout))
		advise("set %s of mcpschedd to at least %d, as %s needs it", key, least, s.Called)
	}
	return all
}
